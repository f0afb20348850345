"""Quantiles of forecast errors on windows that the model was not fitted on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

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
_WINDOWS_OF_A_SERIES, _MOST_IN_ALL = 8, 16_384  # where series are many
_SHRINKAGE = 4  # windows; the unit of a series with few of them is near that of all
_LEAST_GAIN = 0.01  # of units of the series
_BATCH = 256

Forecaster = Callable[[Windows], Normalised]


@dataclass(frozen=True)
class Residuals:
    """Quantiles of errors, in units of a power of a window's scale and, maybe, of its series.

    Errors grow with the scale of the recent window in some data and not in others, so the power,
    0, 1/2 or 1, is chosen by the quantiles' own loss. So is whether each series has a unit of its
    own: some are harder to forecast than others.
    """

    quantiles: Tensor  # (levels, H), not falling along the levels
    power: float
    ratios: Tensor | None = None  # (S,), errors of each fitted series beside those of all

    def unit(self, scale: Tensor, numbers: Tensor) -> Tensor:
        """Return the unit of some windows, shape (n, 1).

        Parameters
        ----------
        scale : Tensor of shape (n, 1)
            Scale of each window.
        numbers : int Tensor of shape (n,)
            Number of its series among the fitted ones; -1 for others.
        """
        unit = scale**self.power
        if self.ratios is None:
            return unit
        known = (numbers >= 0) & (numbers < len(self.ratios))
        ratio = self.ratios[torch.where(known, numbers, 0)]
        return unit * torch.where(known, ratio, 1.0)[:, None]

    def renumbered(self, numbers: Tensor) -> "Residuals":
        """Return the same for series in another order, -1 for new ones."""
        if self.ratios is None:
            return self
        ratios = torch.where(numbers < 0, 1.0, self.ratios[numbers])
        return replace(self, ratios=ratios)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Return quantiles and ratios by prefixed name, for a model file."""
        tensors = {f"{prefix}quantiles": self.quantiles}
        return tensors if self.ratios is None else tensors | {f"{prefix}ratios": self.ratios}

    def quantile(self, q: float) -> Tensor:
        """Return a quantile of each step in these units, shape (H,), for q from 0 to 1."""
        place = q * (N_LEVELS - 1)
        low = min(int(place), N_LEVELS - 2)
        return torch.lerp(self.quantiles[low], self.quantiles[low + 1], place - low)


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
    n_series = len(store.offsets) - 1
    chosen = windows.thinned(min(max(_MOST_WINDOWS, _WINDOWS_OF_A_SERIES * n_series), _MOST_IN_ALL))
    away, scales, spreads = [], [], []
    for part in chosen.batches(_BATCH):
        point, level, spread = forecast(part)
        values, observed = store.future(part, horizon)
        away.append(torch.where(observed, values - level.restore(point), torch.nan))
        scales.append(level.scale)
        if spread is not None:
            spreads.append(spread)
    errors = _Errors(torch.cat(away), torch.cat(scales), store.numbers(chosen), n_series)
    plain = _best(errors, torch.ones(1))
    if not spreads:
        return Calibration(*plain)
    return Calibration(*plain, *_best(errors, torch.cat(spreads)))


class _Errors(NamedTuple):
    """Errors of some windows, and what may tell how large they are."""

    values: Tensor  # (n, H)
    scale: Tensor  # (n, 1)
    numbers: Tensor  # (n,)
    n_series: int

    def ratios(self, errors: Tensor, windows: Tensor) -> Tensor:
        """Return how large errors of each series are beside all, by some windows, shape (S,)."""
        size, numbers = errors.abs().nanmean(1)[windows], self.numbers[windows]
        counted = ~size.isnan()
        size, numbers = size[counted], numbers[counted]
        if not len(size) or size.mean() == 0:
            return torch.ones(self.n_series)
        total = torch.zeros(self.n_series).index_add(0, numbers, size / size.mean())
        count = torch.bincount(numbers, minlength=self.n_series)
        ratios: Tensor = (total + _SHRINKAGE) / (count + _SHRINKAGE)
        return ratios

    def halves(self) -> Tensor:
        """Return whether each window is an odd one of its series, bool of shape (n,)."""
        _, counts = self.numbers.unique_consecutive(return_counts=True)
        first = (counts.cumsum(0) - counts).repeat_interleave(counts)
        odd: Tensor = (torch.arange(len(self.numbers)) - first) % 2 == 1
        return odd


def _best(errors: _Errors, spread: Tensor) -> tuple[Residuals, float]:
    """Return the residuals of the unit with the least quantile loss."""
    candidates = []
    for power in _POWERS:
        unit = spread * errors.scale**power
        candidates.append(_residuals(errors, unit, power, None))
        if errors.n_series > 1:
            # Judged by units that a half of the windows gives the other.
            own, odd = torch.empty_like(errors.scale), errors.halves()
            for half in (odd, ~odd):
                own[half] = errors.ratios(errors.values / unit, ~half)[errors.numbers[half], None]
            ratios = errors.ratios(errors.values / unit, torch.ones_like(odd))
            residuals, loss = _residuals(errors, unit * own, power, ratios)
            candidates.append((residuals, loss * (1 + _LEAST_GAIN)))
    return min(candidates, key=lambda candidate: candidate[1])


def _residuals(
    errors: _Errors, unit: Tensor, power: float, ratios: Tensor | None
) -> tuple[Residuals, float]:
    """Return quantiles of errors in a unit, and their loss, the mean over a few levels."""
    scaled = errors.values / unit
    every = max(1, len(scaled) // _MOST_WINDOWS)  # sorting them all gains nothing
    levels = torch.linspace(0, 1, N_LEVELS)
    quantiles = torch.nanquantile(_pooled(scaled[::every]), levels, dim=0)
    residuals = Residuals(torch.nan_to_num(quantiles), power, ratios)
    loss = 0.0
    for q in _JUDGED_LEVELS:
        away = errors.values - unit * residuals.quantile(q)
        loss += float(torch.maximum(q * away, (q - 1) * away).nanmean())
    return residuals, loss / len(_JUDGED_LEVELS)


def _pooled(errors: Tensor) -> Tensor:
    """Where windows are few, let each step share the errors of its neighbours."""
    reach = min(-(-_ENOUGH // len(errors)), errors.shape[1]) // 2
    if reach == 0:
        return errors
    padded = F.pad(errors, (reach, reach), value=torch.nan)
    shared = padded.unfold(1, 2 * reach + 1, 1)  # (n, H, 2 reach + 1)
    return shared.permute(0, 2, 1).reshape(-1, errors.shape[1])
