"""Quantiles of forecast errors on windows that the model was not fitted on."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.correction import Normalised

N_LEVELS = 201  # quantiles are kept at 0, 0.005, ..., 1
_ENOUGH = 400
_POWERS = (1.0, 0.5, 0.0)
_JUDGED_LEVELS = (0.05, 0.25, 0.75, 0.95)
_MOST_WINDOWS = 2048
_BATCH = 256

Forecaster = Callable[[Windows], Normalised]


@dataclass(frozen=True)
class Residuals:
    """Quantiles of errors, in units of a power of a window's scale.

    Errors grow with the scale of the recent window in some data and not in others, so the power,
    0, 1/2 or 1, is chosen by the quantiles' own loss.
    """

    quantiles: Tensor  # (levels, H), not falling along the levels
    power: float

    def quantile(self, q: float, scale: Tensor) -> Tensor:
        """Return what to add to a forecast for a quantile of it, shape (n, H).

        Parameters
        ----------
        q : float in (0, 1)
            The quantile.
        scale : Tensor of shape (n, 1)
            Scale of each window.
        """
        place = q * (N_LEVELS - 1)
        low = min(int(place), N_LEVELS - 2)
        residual = torch.lerp(self.quantiles[low], self.quantiles[low + 1], place - low)
        return residual * scale**self.power


@dataclass(frozen=True)
class Calibration:
    """Residuals with and without a learned spread, and the quantile loss of either.

    The errors themselves judge the spread, so that it is used only where it helps.
    """

    plain: Residuals
    plain_loss: float
    spread: Residuals | None = None  # of errors divided by the spread, where there is one
    spread_loss: float = torch.inf

    @property
    def spread_helps(self) -> bool:
        """Whether intervals that follow the spread are the better ones."""
        return self.spread_loss < self.plain_loss


@torch.no_grad()
def calibrate(
    store: WindowStore, windows: Windows, horizon: int, forecast: Forecaster
) -> Calibration:
    """Return quantiles of the errors of each step on windows the forecast was not fitted on.

    Added to a forecast they give split-conformal intervals.

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
    Calibration
        By step and level.
    """
    errors, scales, spreads = [], [], []
    for part in windows.thinned(_MOST_WINDOWS).batches(_BATCH):
        point, level, spread = forecast(part)
        values, observed = store.future(part, horizon)
        errors.append(torch.where(observed, values - level.restore(point), torch.nan))
        scales.append(level.scale)
        if spread is not None:
            spreads.append(spread)
    error, scale = torch.cat(errors), torch.cat(scales)
    plain = _best(error, scale, torch.ones(1))
    if not spreads:
        return Calibration(*plain)
    return Calibration(*plain, *_best(error, scale, torch.cat(spreads)))


def _best(error: Tensor, scale: Tensor, spread: Tensor) -> tuple[Residuals, float]:
    """Return the residuals, in units of the spread, of the best power of the scale."""
    levels = torch.linspace(0, 1, N_LEVELS)
    candidates = []
    for power in _POWERS:
        quantiles = torch.nanquantile(_pooled(error / (spread * scale**power)), levels, dim=0)
        residuals = Residuals(torch.nan_to_num(quantiles), power)
        candidates.append((residuals, _pinball(error, scale, spread, residuals)))
    return min(candidates, key=lambda candidate: candidate[1])


def _pinball(error: Tensor, scale: Tensor, spread: Tensor, residuals: Residuals) -> float:
    """Return the quantile loss averaged over a few levels."""
    total = 0.0
    for q in _JUDGED_LEVELS:
        away = error - spread * residuals.quantile(q, scale)
        total += float(torch.maximum(q * away, (q - 1) * away).nanmean())
    return total / len(_JUDGED_LEVELS)


def _pooled(errors: Tensor) -> Tensor:
    """Where windows are few, let each step share the errors of its neighbours."""
    reach = min(-(-_ENOUGH // len(errors)), errors.shape[1]) // 2
    if reach == 0:
        return errors
    padded = F.pad(errors, (reach, reach), value=torch.nan)
    shared = padded.unfold(1, 2 * reach + 1, 1)  # (n, H, 2 reach + 1)
    return shared.permute(0, 2, 1).reshape(-1, errors.shape[1])
