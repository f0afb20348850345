"""The last season once more."""

import torch

from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Problem
from tsmamba.data.windows import Windows


class SeasonalNaive:
    """Repeats the last season before the origin; with a season of 1, the last value."""

    def fit(self, problem: Problem, seed: int) -> None:
        """Note the season of the set."""
        self._store, self._season = problem.store, problem.source.season
        self._step = torch.arange(problem.horizon) % self._season

    def forecast(self, windows: Windows) -> Forecast:
        """Repeat."""
        return Forecast(self._store.history(windows, self._season)[:, self._step])
