"""LSTM over patches, with one head for all steps ahead."""

from torch import Tensor, nn

from benchmarks.forecast.models.network import Batch, Network, Sizes

_PATCH, _WIDTH = 16, 64


class PatchLSTM(nn.Module):
    """Each series by itself: patches of 16 steps, an LSTM, a linear map of its last state.

    Parameters
    ----------
    sizes : Sizes
        Of the set; the oldest steps that fill no patch are left out.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.used = sizes.lookback // _PATCH * _PATCH
        self.embed = nn.Linear(_PATCH, _WIDTH)
        self.lstm = nn.LSTM(_WIDTH, _WIDTH, batch_first=True)
        self.head = nn.Linear(_WIDTH, sizes.horizon)

    def forward(self, batch: Batch) -> Tensor:
        """Return forecasts (n, C, H) of the normalised history."""
        n, channels, _ = batch.history.shape
        patches = batch.history[..., -self.used :].reshape(n * channels, -1, _PATCH)
        _, (state, _) = self.lstm(self.embed(patches))
        out: Tensor = self.head(state[-1]).view(n, channels, -1)
        return out


def lstm() -> Network:
    """Return the LSTM."""
    return Network(PatchLSTM, lr=1e-3)
