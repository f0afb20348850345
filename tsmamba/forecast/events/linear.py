"""Each code forecast from its own past: linear models of least absolute error, solved at once."""

import torch
from torch import Tensor

from tsmamba.forecast.events.history import LAST, N_FEATURES, histories
from tsmamba.forecast.events.record import Targets

__all__ = ["fit_linear", "linear", "persistence"]

_STAYS = 256  # at once
# More values of a code and step than this change little.
_MOST_ROWS = 20_000
_LEAST_ROWS = 100
# Of the features of all stays that are learned from, in numbers.
_MOST_NUMBERS = 2**25
_ROUNDS = 12
# Errors below this, in standard deviations, count as squares.
_SMALL = 0.03
_RIDGE = 1e-3


def persistence(horizon: int, n_codes: int) -> Tensor:
    """Return the kernel, (H, V, F), that repeats the last value."""
    kernel = torch.zeros(horizon, n_codes, N_FEATURES)
    kernel[..., LAST] = 1
    return kernel


def linear(features: Tensor, kernel: Tensor) -> Tensor:
    """Return forecasts, (B, L, H, V), from features of `histories` and their weights."""
    said: Tensor = torch.einsum("blvf,hvf->blhv", features, kernel)
    return said


def fit_linear(targets: Targets, stays: Tensor) -> Tensor:
    """Fit the next values of each code on its own past.

    Parameters
    ----------
    targets : Targets
        What follows each token.
    stays : int Tensor of shape (n,)
        Those to learn from.

    Returns
    -------
    Tensor of shape (H, V, F)
        Weights of the features of `histories`; where few values follow, the last is repeated.
    """
    tokens = targets.record.tokens
    n_codes = tokens.values.shape[1]
    numbers = len(tokens.values) / len(tokens) * n_codes * N_FEATURES
    stays = stays[torch.randperm(len(stays))[: max(_STAYS, int(_MOST_NUMBERS / numbers))]]
    features, follow = [], []
    for part in stays.split(_STAYS):
        place, mask = tokens.places(part)
        features.append(histories(*targets.record.batch(part))[mask])
        follow.append(place[mask])
    table = torch.cat(features)
    values, seen = targets.at(torch.cat(follow))
    kernel = persistence(values.shape[1], n_codes)
    for step in range(values.shape[1]):
        for code in range(n_codes):
            rows = torch.where(seen[:, step, code])[0]
            if len(rows) < _LEAST_ROWS:
                continue
            rows = rows[torch.randperm(len(rows))[:_MOST_ROWS]]
            x = table[rows, code]
            kernel[step, code] += _least_absolute(x, values[rows, step, code] - x[:, LAST])
    return kernel


def _least_absolute(x: Tensor, y: Tensor) -> Tensor:
    """Solve for the least absolute error by weighted least squares, drawn a little to zero."""
    x, y = x.double(), y.double()
    weight = torch.ones_like(y)
    ridge = _RIDGE * torch.eye(x.shape[1], dtype=x.dtype)
    solved = torch.zeros(x.shape[1])
    for _ in range(_ROUNDS):
        weighted = x * (weight / weight.mean())[:, None] / len(y)
        solved = torch.linalg.solve(weighted.T @ x + ridge, weighted.T @ y)
        weight = 1 / ((y - x @ solved).abs() + _SMALL)
    return solved.float()
