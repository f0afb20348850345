"""PatchTST in the size that its authors use for hourly ETT.

From "A Time Series is Worth 64 Words: Long-term Forecasting with Transformers", 2023. Theirs also
adds the attention scores of a layer to those of the next.
"""

import torch
from torch import Tensor, nn

from benchmarks.forecast.models.attention import BatchNorm, EncoderLayer
from benchmarks.forecast.models.network import Batch, Network, Sizes

_PATCH, _STRIDE = 16, 8
_WIDTH, _HEADS, _FEED, _LAYERS, _DROPOUT = 16, 4, 128, 3, 0.3


class PatchTransformer(nn.Module):
    """Each series by itself: overlapping patches, three encoder layers, one flat linear head.

    Parameters
    ----------
    sizes : Sizes
        Of the set.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        # The last value is repeated for a stride, so that the newest patch is a whole one.
        self.pad = nn.ReplicationPad1d((0, _STRIDE))
        tokens = (sizes.lookback + _STRIDE - _PATCH) // _STRIDE + 1
        self.embed = nn.Linear(_PATCH, _WIDTH)
        self.position = nn.Parameter(torch.empty(tokens, _WIDTH).uniform_(-0.02, 0.02))
        self.dropout = nn.Dropout(_DROPOUT)
        self.layers = nn.Sequential(
            *(
                EncoderLayer(
                    _WIDTH,
                    _HEADS,
                    _FEED,
                    dropout=_DROPOUT,
                    attention_dropout=0.0,
                    norm=BatchNorm,
                )
                for _ in range(_LAYERS)
            )
        )
        self.head = nn.Linear(tokens * _WIDTH, sizes.horizon)

    def forward(self, batch: Batch) -> Tensor:
        """Return forecasts (n, C, H) of the normalised history."""
        patches = self.pad(batch.history).unfold(-1, _PATCH, _STRIDE).flatten(0, 1)
        tokens = self.layers(self.dropout(self.embed(patches) + self.position))
        out: Tensor = self.head(tokens.flatten(1)).view(*batch.history.shape[:2], -1)
        return out


def patchtst() -> Network:
    """Return PatchTST."""
    return Network(PatchTransformer, lr=1e-3)
