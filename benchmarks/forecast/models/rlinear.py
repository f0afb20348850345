"""RLinear: a linear map between instance normalisation and its inverse, at its optimum.

From "Revisiting Long-term Time Series Forecasting: An Investigation on Linear Mapping", 2023. With
the window x of mean m and deviation s, the forecast is s * (W (x - m) / s + b) + m, whose squared
error is that of a linear map of x - m and s.
"""

import torch
from torch import Tensor

from benchmarks.forecast.models.least_squares import LeastSquares

_EPS = 1e-5


def rlinear() -> LeastSquares:
    """Return an exact linear map of the normalised history, with a bias."""
    return LeastSquares(_features)


def _features(history: Tensor) -> tuple[Tensor, Tensor]:
    mean = history.mean(1, keepdim=True)
    centred = history - mean
    scale = (centred.square().mean(1, keepdim=True) + _EPS).sqrt()
    return torch.cat([centred, scale], dim=1), mean
