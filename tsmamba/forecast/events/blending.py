"""How far to trust each forecaster of a code, and how far off they are: judged on other stays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AGES", "LEVELS", "Blend", "fit_blend"]

# The last value is from the last token, older, or there is none.
AGES = 3
# Quantiles of errors that are kept.
LEVELS = np.arange(1, 200) / 200
# Errors that a choice needs; with fewer the last value is carried forward.
_LEAST = 200
_MOST = 20_000
_GRID = 10
# Of networks, which compute in single precision.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Blend:
    """Weights of the forecasters and quantiles of the errors, by age, step and code.

    Parameters
    ----------
    weights : ndarray of shape (AGES, H, V, K)
        Of each forecaster; they add up to 1. The first carries the last value forward.
    errors : ndarray of shape (AGES, H, V, len(LEVELS))
        Quantiles of truth less forecast.
    """

    weights: NDArray[np.float64]
    errors: NDArray[np.float64]

    def points(self, said: NDArray[np.float64], age: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the forecasts, (n, H, V), from those of each forecaster, (K, n, H, V).

        Parameters
        ----------
        said : ndarray of shape (K, n, H, V)
            By each forecaster.
        age : int ndarray of shape (n, V)
            As `AGES` counts them.
        """
        points: NDArray[np.float64] = np.einsum("knhv,nhvk->nhv", said, _by_age(self.weights, age))
        return points

    def away(self, age: NDArray[np.int64], level: float) -> NDArray[np.float64]:
        """Return how far a quantile lies from the forecast, (n, H, V)."""
        place = np.interp(level, LEVELS, np.arange(len(LEVELS)))
        below, above = int(place), min(int(place) + 1, len(LEVELS) - 1)
        low, high = self.errors[..., below], self.errors[..., above]
        away = low + (place - below) * (high - low)
        # The forecast is no median, but an interval must hold it, and what rounding makes of it.
        bounded = np.minimum(away, -_ROUNDING) if level < 0.5 else np.maximum(away, _ROUNDING)
        return _by_age(bounded, age)


def fit_blend(
    said: NDArray[np.float64],
    truth: NDArray[np.float64],
    seen: NDArray[np.bool_],
    age: NDArray[np.int64],
) -> Blend:
    """Choose weights of least absolute error, and measure what error they leave.

    Parameters
    ----------
    said : ndarray of shape (K, n, H, V)
        Forecasts of stays that forecasters were not fitted on; the first are the values carried
        forward.
    truth, seen : ndarray of shape (n, H, V)
        What came, and whether anything did.
    age : int ndarray of shape (n, V)
        Of the last value.

    Returns
    -------
    Blend
        Never worse on these values than carrying forward.
    """
    count, _, horizon, n_codes = said.shape
    weights = np.zeros((AGES, horizon, n_codes, count))
    errors = np.empty((AGES, horizon, n_codes, len(LEVELS)))
    rng = np.random.default_rng(0)
    left = {}
    for old, step, code in np.ndindex(weights.shape[:-1]):
        rows = np.flatnonzero(seen[:, step, code] & (age[:, code] == old))
        came, here = truth[rows, step, code], said[:, rows, step, code]
        weights[old, step, code] = _chosen(here, came, rng)
        left[old, step, code] = came - weights[old, step, code] @ here
    every = np.concatenate(list(left.values()))
    for code in range(n_codes):
        of_code = np.concatenate([left[*at, code] for at in np.ndindex(AGES, horizon)])
        for old, step in np.ndindex(AGES, horizon):
            own = left[old, step, code]
            enough = own if len(own) >= _LEAST else of_code if len(of_code) else every
            errors[old, step, code] = _quantiles(enough)
    return Blend(weights, errors)


def _chosen(
    said: NDArray[np.float64], came: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the weights, (K,), that err least on what came, (n,), of what was said, (K, n)."""
    carried: NDArray[np.float64] = np.eye(len(said))[0]
    if len(came) < _LEAST:
        return carried
    pick = rng.permutation(len(came))[:_MOST]
    choices = _choices(len(said))
    losses = np.abs(came[pick] - choices @ said[:, pick]).mean(1)
    best: NDArray[np.float64] = choices[losses.argmin()]
    better = np.abs(came - best @ said).mean() <= np.abs(came - said[0]).mean()
    return best if better else carried


def _quantiles(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantiles of the next error, which are a little wider than of those that were."""
    level = 0.5 + (LEVELS - 0.5) * (1 + 1 / len(errors))
    quantiles: NDArray[np.float64] = np.quantile(errors, np.clip(level, 0, 1))
    return quantiles


def _choices(count: int) -> NDArray[np.float64]:
    """Return the weights to choose from, (C, K), in steps of a tenth."""
    grid = np.stack(np.meshgrid(*[np.arange(_GRID + 1)] * count, indexing="ij"), -1)
    whole = grid.reshape(-1, count)
    whole = whole[whole.sum(1) == _GRID]
    choices: NDArray[np.float64] = whole / _GRID
    return choices


def _by_age(table: NDArray[np.float64], age: NDArray[np.int64]) -> NDArray[np.float64]:
    """Pick from a table, (AGES, H, V, ...), what holds for each age, (n, V): (n, H, V, ...)."""
    steps = np.arange(table.shape[1])[:, None]
    picked: NDArray[np.float64] = table[age[:, None], steps, np.arange(table.shape[2])]
    return picked
