"""iTransformer: attention across channels, each of which is one token.

From "iTransformer: Inverted Transformers Are Effective for Time Series Forecasting", 2024; here
without tokens for the calendar.
"""

from torch import Tensor, nn

from benchmarks.forecast.models.attention import EncoderLayer
from benchmarks.forecast.models.network import Batch, Network, Sizes

_WIDTH, _HEADS, _FEED, _LAYERS, _DROPOUT = 128, 8, 128, 2, 0.1


class InvertedTransformer(nn.Module):
    """Channels as tokens. On sets of single series, the one token only passes the feed-forward.

    Parameters
    ----------
    sizes : Sizes
        Of the set.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(sizes.lookback, _WIDTH), nn.Dropout(_DROPOUT))
        self.layers = nn.Sequential(
            *(
                EncoderLayer(
                    _WIDTH,
                    _HEADS,
                    _FEED,
                    dropout=_DROPOUT,
                    attention_dropout=_DROPOUT,
                    norm=nn.LayerNorm,
                )
                for _ in range(_LAYERS)
            )
        )
        self.head = nn.Sequential(nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, sizes.horizon))

    def forward(self, batch: Batch) -> Tensor:
        """Return forecasts (n, C, H) of the normalised history."""
        out: Tensor = self.head(self.layers(self.embed(batch.history)))
        return out


def itransformer() -> Network:
    """Return iTransformer."""
    return Network(InvertedTransformer, lr=5e-4)
