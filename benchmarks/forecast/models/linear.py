"""Linear: all that DLinear can represent, at its optimum.

DLinear ("Are Transformers Effective for Time Series Forecasting?", 2023) is the sum of two linear
maps of a moving average and of the rest, hence one linear map with a bias.
"""

import torch
from torch import Tensor

from benchmarks.forecast.models.least_squares import LeastSquares


def linear() -> LeastSquares:
    """Return an exact linear map of the history, with a bias."""
    return LeastSquares(_features)


def _features(history: Tensor) -> tuple[Tensor, Tensor]:
    one = torch.ones_like(history[:, :1])
    return torch.cat([history, one], dim=1), torch.zeros_like(one)
