"""What an estimator chooses when the user leaves it open: season, horizon, context."""

from dataclasses import dataclass

import numpy as np

from tsmamba.data.panel import Panel
from tsmamba.errors import HorizonError, ParameterError, SeriesTooShortError
from tsmamba.forecast.base import Context

MAX_CONTEXT = 8192
_RECENT = 512
_LONGEST_SEASON = 512
_NEAREST_WIDTH = 4
_STEPS_PER_INPUT = 16
_MOST_WINDOWS = 40_000
# Season of each calendar step, in steps.
_CALENDAR_SEASONS = {"1d": 7, "1w": 52, "1mo": 12, "1q": 4, "1y": 1}
_CLOCK_CYCLES = (86_400, 3_600, 60)
_LEAST_AUTOCORRELATION = 0.3
_LEAST_CHANGE = 1e-6  # of a standardised series; below it there is rounding only
_DEFAULT_PATCH = 48


@dataclass(frozen=True)
class Plan:
    """The sizes a model is built with.

    Parameters
    ----------
    season, horizon : int
        Steps.
    context : Context
        What a forecast sees.
    patch : int
        Steps of a token of the corrector.
    stride : int
        Every so many origins are used to fit the base.
    """

    season: int
    horizon: int
    context: Context
    patch: int
    stride: int


def choose_season(panel: Panel) -> int:
    """Return the season of a panel in steps.

    The calendar decides where there is one: the greatest of day, hour and minute that holds at
    most 512 steps, a week for days, a year for weeks, months and quarters. Integer stamps are
    judged by their autocorrelation. Rows in uneven time have no season.

    Parameters
    ----------
    panel : Panel
        The series.

    Returns
    -------
    int
        1 where there is none.
    """
    if panel.freq.uneven:
        return 1
    every, seconds = panel.freq.every, panel.freq.seconds
    if isinstance(every, int) or seconds is None:
        return _season_by_autocorrelation(panel)
    if every in _CALENDAR_SEASONS:
        return _CALENDAR_SEASONS[every]
    for cycle in _CLOCK_CYCLES:
        steps = cycle / seconds
        if 2 <= steps <= _LONGEST_SEASON and steps == int(steps):
            return int(steps)
    return 1


def _season_by_autocorrelation(panel: Panel) -> int:
    """Return the lag of the highest peak of the autocorrelation of the longest series."""
    longest = int(panel.lengths.argmax())
    values = panel.values[panel.offsets[longest] : panel.offsets[longest + 1]]
    changes = np.nan_to_num(np.diff(values[-16 * MAX_CONTEXT :].astype(np.float64)))
    most = min(_LONGEST_SEASON, len(changes) // 3)
    changes -= changes.mean() if changes.size else 0.0
    if most < 3 or changes.std() < _LEAST_CHANGE:
        return 1
    spectrum = np.abs(np.fft.rfft(changes, 2 * len(changes))) ** 2
    correlation = np.fft.irfft(spectrum)[: most + 2]
    correlation /= correlation[0]
    # Before it first falls below zero the correlation shows smoothness, not a season.
    below = np.flatnonzero(correlation[: most + 1] < 0)
    lags = np.arange(max(2, below[0]) if below.size else most + 1, most + 1)
    peak = (correlation[lags] >= correlation[lags - 1]) & (
        correlation[lags] >= correlation[lags + 1]
    )
    if not peak.any():
        return 1
    best = lags[peak][correlation[lags[peak]].argmax()]
    return int(best) if correlation[best] >= _LEAST_AUTOCORRELATION else 1


def plan(
    panel: Panel,
    *,
    horizon: int | None,
    context_length: int | None,
    season_length: int | None,
    patch_length: int | None,
    most_context: int | None = None,
) -> Plan:
    """Choose every size that the user left open.

    Parameters
    ----------
    panel : Panel
        The series.
    horizon, context_length, season_length, patch_length : int, optional
        What the user asked for.
    most_context : int, optional
        Most steps of context where the user asked for nothing.

    Returns
    -------
    Plan
        Sizes that fit the series.

    Raises
    ------
    SeriesTooShortError
        If no series holds a single training window.
    """
    season = season_length or choose_season(panel)
    length = int(np.median(panel.lengths))
    longest = int(panel.lengths.max())
    if horizon is None:
        horizon = max(1, min(season if season > 1 else 24, longest // 4))
    if longest < horizon + 4:
        raise SeriesTooShortError(
            f"{panel.columns.name(panel.ids[int(panel.lengths.argmax())])}, the longest, has "
            f"{longest} steps, too few to learn a forecast of {horizon}: "
            f"at least horizon + 4 = {horizon + 4} are needed; give longer history or ask for "
            f"horizon={max(1, longest - 4)} or less"
        )
    usable = max(length, horizon + 4)
    recent = _choose_recent(usable, len(panel), season)
    recent = min(recent, max(2, (usable - horizon) // 2))
    if context_length is None:
        context_length = min(most_context or MAX_CONTEXT, max(recent, usable // 8))
    recent = min(recent, context_length)
    context = Context(
        context_length,
        recent,
        level=min(2 * recent, context_length),
        stretches=_stretches(context_length, recent),
    )
    return complete_plan(season, horizon, context, patch_length, panel.lengths - recent)


def complete_plan(
    season: int, horizon: int, context: Context, patch_length: int | None, steps: np.ndarray
) -> Plan:
    """Choose what follows from the other sizes.

    Parameters
    ----------
    season, horizon, context
        As in `Plan`.
    patch_length : int, optional
        What the user asked for.
    steps : int ndarray of shape (S,)
        Steps of each series from the first window to fit on.

    Returns
    -------
    Plan
        All sizes.
    """
    patch = patch_length or _choose_patch(season)
    windows = int((steps - horizon + 1).clip(min=0).sum())
    stride = _coprime_stride(max(1, windows // _MOST_WINDOWS), season)
    return Plan(season, horizon, context, patch, stride)


def _choose_recent(steps: int, n_series: int, season: int) -> int:
    """Return two seasons, or as many steps as the data can bear, up to 512.

    Series of one panel move together, so many of them count for less than as much time.
    """
    borne = int(steps * n_series**0.5 / _STEPS_PER_INPUT)
    return max(2 * season, min(_RECENT, borne))


def _stretches(length: int, recent: int) -> tuple[tuple[int, int], ...]:
    """Return stretches from the recent window back, twice as wide in each doubling of the past."""
    stretches, width, edge = [], _NEAREST_WIDTH, recent
    while (count := (min(2 * edge, length) - edge) // width) > 0:
        stretches.append((width, count))
        edge, width = edge + width * count, 2 * width
    return tuple(stretches)


def _choose_patch(season: int) -> int:
    """Return whole seasons or a part of one, near 48 steps."""
    patch = _DEFAULT_PATCH
    if 1 < season <= _DEFAULT_PATCH:
        patch = season * max(1, _DEFAULT_PATCH // season)
    elif season > _DEFAULT_PATCH:
        patch = next(
            (season // k for k in range(2, 12) if not season % k and season // k <= 64), patch
        )
    return patch


def _coprime_stride(stride: int, season: int) -> int:
    """Return the next stride that shares no factor with the season, so that every phase is seen."""
    while np.gcd(stride, season) > 1:
        stride += 1
    return stride


def check_parameters(least: int = 1, **given: object) -> None:
    """Refuse sizes that make no sense, before any data are read.

    Parameters
    ----------
    least : int, default 1
        What is accepted.
    **given
        Whole numbers by name; None is left to be chosen.

    Raises
    ------
    ParameterError
        Naming the parameter, what came and what is accepted; a HorizonError for ``horizon``.
    """
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            refusal = HorizonError if name == "horizon" else ParameterError
            raise refusal(f"{name}={value!r}; pass a whole number of at least {least}")
