"""CycleNet-Linear: a learned cycle, and a linear map of what it leaves over.

From "CycleNet: Enhancing Time Series Forecasting through Modeling Periodic Patterns", 2024.
"""

import torch
from torch import Tensor, nn

from benchmarks.forecast.models.network import Batch, Network, Sizes


class CycleLinear(nn.Module):
    """One cycle a series, subtracted from the past and added to the forecast.

    Parameters
    ----------
    sizes : Sizes
        Of the set; the cycle has the length of its season.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.past = torch.arange(-sizes.lookback, 0)
        self.ahead = torch.arange(sizes.horizon)
        self.cycle = nn.Parameter(torch.zeros(sizes.n_series, sizes.season))
        self.map = nn.Linear(sizes.lookback, sizes.horizon)

    def forward(self, batch: Batch) -> Tensor:
        """Return forecasts (n, C, H) of the normalised history."""
        rest = batch.history - self._cycle_at(batch, self.past)
        out: Tensor = self.map(rest) + self._cycle_at(batch, self.ahead)
        return out

    def _cycle_at(self, batch: Batch, steps: Tensor) -> Tensor:
        phase = (batch.elapsed[..., None] + steps) % self.cycle.shape[1]
        return self.cycle[batch.series[..., None], phase]


def cyclenet() -> Network:
    """Return CycleNet-Linear with the learning rate of its authors on ETT."""
    return Network(CycleLinear, lr=1e-2)
