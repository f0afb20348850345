"""Linear forecasts solved exactly, one map for all series."""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Origins, Problem
from tsmamba.data.windows import Windows, WindowStore

_BATCH = 8_192

# From histories (n, L) to inputs (n, F) and to what is added to the linear forecast, (n, 1).
Features = Callable[[Tensor], tuple[Tensor, Tensor]]


class LeastSquares:
    """The map of least squared error on all training windows, from normal equations in float64.

    Missing steps of a target count with the value they are filled with. The lookback is the one of
    the set's that has the least error on the validation part.

    Parameters
    ----------
    features : callable
        Inputs of the map.
    """

    def __init__(self, features: Features) -> None:
        self._features = features

    def fit(self, problem: Problem, seed: int) -> None:
        """Solve for each lookback and keep the best."""
        self._store, horizon = problem.store, problem.horizon
        least = float("inf")
        for lookback in problem.source.lookbacks:
            weights = self._solved(problem.train(lookback), lookback, horizon)
            error = self._error(problem.validation, lookback, weights)
            if error < least:
                least, self.lookback, self.weights = error, lookback, weights

    def forecast(self, windows: Windows) -> Forecast:
        """Apply the map."""
        return Forecast(_apply(self._features, self._store, windows, self.lookback, self.weights))

    def _solved(self, origins: Origins, lookback: int, horizon: int) -> Tensor:
        gram, moment = torch.zeros(()).double(), torch.zeros(()).double()
        for windows in origins.batches(_BATCH):
            history = self._store.history(windows, lookback).double()
            inputs, level = self._features(history)
            target = self._store.future(windows, horizon)[0].double() - level
            gram = gram + inputs.mT @ inputs
            moment = moment + inputs.mT @ target
        # Inputs that sum to zero make the equations singular; this is their shortest solution.
        weights: Tensor = torch.linalg.pinv(gram, hermitian=True) @ moment
        return weights.float()

    def _error(self, origins: Origins, lookback: int, weights: Tensor) -> float:
        squared, count = 0.0, 0
        for windows in origins.batches(_BATCH):
            truth, observed = self._store.future(windows, weights.shape[1])
            error = _apply(self._features, self._store, windows, lookback, weights) - truth
            squared += float((error.square() * observed).double().sum())
            count += int(observed.sum())
        return squared / count


def _apply(
    features: Features, store: WindowStore, windows: Windows, lookback: int, weights: Tensor
) -> Tensor:
    inputs, level = features(store.history(windows, lookback))
    return inputs @ weights + level
