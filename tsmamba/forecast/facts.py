"""What can be measured about a panel of series without fitting anything to it."""

from dataclasses import dataclass

import numpy as np

from tsmamba.data.panel import Panel

_MOST_SERIES = 256
_MOST_STEPS = 131_072
# Windows of a few seasons, long enough that a standard deviation means something.
_SEASONS_OF_A_WINDOW = 4
_LEAST_WINDOW = 64
_LEAST_SPREAD = 1e-3  # in standard deviations of the series; below it a stretch stands still
_SCALE_FACTOR = 3.0
# A random walk: two standard errors of its variance ratio are a third where the reach is a
# fortieth of the changes.
_CHANGES_OF_A_REACH = 40
_LEAST_REACH, _MOST_REACH = 4, 128
_RATIO_OF_A_WALK = (0.5, 1.5)
_AUTOCORRELATION_OF_A_WALK = 0.2
_SEASON_OF_A_WALK = 0.2
_LEAST_VARIANCE = 1e-9  # of a standardised series; below it there is rounding only
# Measured as the greatest resident memory of fits: the libraries and the least squares need the
# first whatever the data, frame, panel and sums the second a step.
_BYTES_OF_A_FIT = 600_000_000
_BYTES_OF_A_STEP = 110


@dataclass(frozen=True)
class Facts:
    """Numbers about the series of a frame.

    Strength of the season, longest gap, changes of scale and random walks are measured on at most
    256 series, evenly spread over the frame, and on the last 131,072 steps of each.

    Parameters
    ----------
    n_series : int
        Number of series.
    length, longest, shortest : int
        Steps of the median, the longest and the shortest series, missing ones included.
    step : str
        Step of time, such as "1h"; a whole number for integer stamps; "about 40m (uneven)" with
        the median gap where time is uneven.
    step_seconds : float, optional
        Its length; None for integer stamps.
    season : int
        Season in steps; 1 where there is none.
    memory_estimate : int
        Bytes that a fit takes, roughly.
    constant_series : int
        Number of series that never change.
    seasonal_strength : float in [0, 1]
        Share of the variance, moving mean of a season aside, that the same step of the season
        before explains. Near 0 for noise and random walks; the median over series.
    missing_share : float in [0, 1]
        Missing steps among all steps.
    longest_gap : int
        Most missing steps in a row.
    scale_changes : float in [0, 1]
        How often the standard deviation of a window of four seasons is more than three times that
        of its neighbour, or less than a third.
    random_walk : float in [0, 1]
        Share of the series that look like a random walk: a change says nothing about the next
        (autocorrelation within 0.2), the variance of changes over n steps is n times that of
        changes over one, within a half, and there is no season. Here n is a fortieth of the number
        of changes, at most 128; series of less than 160 changes are never taken for one.
    """

    n_series: int
    length: int
    longest: int
    shortest: int
    step: str
    step_seconds: float | None
    season: int
    memory_estimate: int
    constant_series: int
    seasonal_strength: float
    missing_share: float
    longest_gap: int
    scale_changes: float
    random_walk: float


def examine(panel: Panel, season: int) -> Facts:
    """Measure the series of a panel.

    Parameters
    ----------
    panel : Panel
        The series.
    season : int >= 1
        Season in steps.

    Returns
    -------
    Facts
        The numbers; they do not depend on the order of the series as long as all are looked at.

    Examples
    --------
    >>> import polars as pl
    >>> from tsmamba.data.panel import read_panel
    >>> t = np.arange(600)
    >>> panel = read_panel(pl.DataFrame({"ds": t, "y": np.sin(2 * np.pi * t / 24)}))
    >>> examine(panel, season=24).seasonal_strength
    1.0
    """
    lengths = panel.lengths
    chosen = np.linspace(0, len(panel) - 1, min(len(panel), _MOST_SERIES)).round().astype(int)
    begins, ends = panel.offsets[chosen], panel.offsets[chosen + 1]
    begins = np.maximum(begins, ends - _MOST_STEPS)
    parts = [
        panel.values[begin:end].astype(np.float64) for begin, end in zip(begins, ends, strict=True)
    ]
    largest = np.fmax.reduceat(np.abs(panel.values), panel.offsets[:-1])
    return Facts(
        n_series=len(panel),
        length=int(np.median(lengths)),
        longest=int(lengths.max()),
        shortest=int(lengths.min()),
        step=str(panel.freq),
        step_seconds=panel.freq.seconds,
        season=season,
        memory_estimate=_BYTES_OF_A_FIT + _BYTES_OF_A_STEP * len(panel.values),
        constant_series=int(np.count_nonzero(largest == 0)),
        seasonal_strength=_median([_seasonal_strength(y, season) for y in parts]),
        missing_share=float(np.isnan(panel.values).mean()),
        longest_gap=max(_longest_gap(y) for y in parts),
        scale_changes=_median([_scale_changes(y, season) for y in parts]),
        random_walk=float(np.mean([_is_random_walk(y, season) for y in parts])),
    )


def _median(values: list[float]) -> float:
    """Return the median of what could be measured, 0 if nothing could."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.median(known)) if known else 0.0


def _longest_gap(y: np.ndarray) -> int:
    seen = np.flatnonzero(np.isfinite(y))
    return int(np.diff(seen, prepend=-1, append=len(y)).max()) - 1


def _seasonal_strength(y: np.ndarray, season: int) -> float:
    """Return the autocorrelation one season apart, NaN where it cannot be measured.

    A mean over exactly one season takes the trend away and leaves the season whole; of a random
    walk it leaves what is uncorrelated one season later.
    """
    if season < 2 or len(y) < 3 * season:
        return np.nan
    seen = np.isfinite(y)
    sums = np.concatenate([[0.0], np.cumsum(np.where(seen, y, 0.0))])
    counts = np.concatenate([[0], np.cumsum(seen)])
    totals, observed = (x[season:] - x[:-season] for x in (sums, counts))
    trend = totals / np.maximum(observed, 1)
    away = y[season // 2 :][: len(trend)] - trend
    now, before = away[season:], away[:-season]
    both = np.isfinite(now + before)
    now, before = now[both], before[both]
    power = (now @ now + before @ before) / 2
    if power <= _LEAST_VARIANCE * len(now):
        return np.nan
    return float(np.clip(now @ before / power, 0.0, 1.0))


def _scale_changes(y: np.ndarray, season: int) -> float:
    """Return the share of neighbouring windows of unlike spread, NaN where there are too few."""
    width = max(_LEAST_WINDOW, _SEASONS_OF_A_WINDOW * season)
    windows = y[len(y) % width :].reshape(-1, width)
    windows = windows[np.isfinite(windows).sum(axis=1) >= width // 2]
    if len(windows) < 2:
        return np.nan
    spread = np.log(np.maximum(np.nanstd(windows, axis=1), _LEAST_SPREAD))
    return float(np.mean(np.abs(np.diff(spread)) > np.log(_SCALE_FACTOR)))


def _is_random_walk(y: np.ndarray, season: int) -> bool:
    """Tell whether only the last value of a series says something about the next ones."""
    changes = _changes(y, 1)
    products = changes[1:] * changes[:-1]
    reach = min(_MOST_REACH, np.isfinite(products).sum() // _CHANGES_OF_A_REACH)
    if reach < _LEAST_REACH or _seasonal_strength(y, season) > _SEASON_OF_A_WALK:
        return False
    variance = _mean(changes**2)
    if variance <= _LEAST_VARIANCE:
        return False
    autocorrelation = _mean(products) / variance
    ratio = _mean(_changes(y, reach) ** 2) / (reach * variance)
    least, most = _RATIO_OF_A_WALK
    return abs(autocorrelation) < _AUTOCORRELATION_OF_A_WALK and least < ratio < most


def _changes(y: np.ndarray, reach: int) -> np.ndarray:
    """Return the changes over ``reach`` steps, their mean, the drift, taken off."""
    changes: np.ndarray = y[reach:] - y[:-reach]
    return changes - _mean(changes)


def _mean(x: np.ndarray) -> float:
    """Return the mean of what is not missing, NaN if nothing is left."""
    x = x[np.isfinite(x)]
    return float(x.mean()) if x.size else np.nan
