"""Quantiles of forecast errors on windows that the model was not fitted on."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import Level

N_LEVELS = 201  # quantiles are kept at 0, 0.005, ..., 1
_ENOUGH = 400
_MOST_WINDOWS = 2048
_BATCH = 256

# Maps windows to their normalised forecast, (n, H), and their level.
Forecaster = Callable[[Windows], tuple[Tensor, Level]]


@torch.no_grad()
def residual_quantiles(
    store: WindowStore, windows: Windows, horizon: int, forecast: Forecaster
) -> Tensor:
    """Return quantiles of the errors of each step in units of a window's level.

    Added to a forecast they give split-conformal intervals, of a width that follows the scale of
    the recent window.

    Parameters
    ----------
    store, windows
        Values, and the windows to look at; thinned evenly if many.
    horizon : int
        Steps, H.
    forecast : callable
        Forecasts windows out of sample.

    Returns
    -------
    Tensor of shape (levels, H)
        Not falling along the levels.
    """
    errors = []
    for part in windows.thinned(_MOST_WINDOWS).batches(_BATCH):
        normalised, level = forecast(part)
        values, observed = store.future(part, horizon)
        error = level.normalise(values) - normalised
        errors.append(torch.where(observed, error, torch.nan))
    pooled = _pooled(torch.cat(errors))
    quantiles = torch.nanquantile(pooled, torch.linspace(0, 1, N_LEVELS), dim=0)
    return torch.nan_to_num(quantiles)


def _pooled(errors: Tensor) -> Tensor:
    """Where windows are few, let each step share the errors of its neighbours."""
    reach = min(-(-_ENOUGH // len(errors)), errors.shape[1]) // 2
    if reach == 0:
        return errors
    padded = F.pad(errors, (reach, reach), value=torch.nan)
    shared = padded.unfold(1, 2 * reach + 1, 1)  # (n, H, 2 reach + 1)
    return shared.permute(0, 2, 1).reshape(-1, errors.shape[1])
