"""Find the frequency of time stamps, or the usual gap of uneven ones."""

from operator import itemgetter

import numpy as np
import polars as pl

from tsmamba.data.calendar import NANOSECONDS, month_width, ticks_per_day, wall_clock
from tsmamba.data.frequency import MONTHS, Frequency
from tsmamba.errors import FrequencyError


def infer_frequency(stamps: pl.Series, starts: np.ndarray) -> Frequency:
    """Find the most common step of a set of series.

    Parameters
    ----------
    stamps : polars.Series of length n
        Integers, dates or date-times, series after series, rising inside each.
    starts : ndarray of shape (S,)
        Row at which each series starts.

    Returns
    -------
    Frequency
        The most common difference of neighbours, as calendar months where those fit more of the
        differences than days do, and as days where those fit as many as hours do. Some differences
        may be no whole number of steps: that is for the caller to check.

    Raises
    ------
    FrequencyError
        If no series has two stamps.

    Examples
    --------
    >>> from datetime import date
    >>> days = pl.Series([date(2024, 1, 1), date(2024, 2, 1), date(2024, 3, 1)])
    >>> infer_frequency(days, np.array([0])).every
    '1mo'
    """
    if len(stamps) == len(starts):
        raise FrequencyError(
            f"no series has two stamps in column {stamps.name!r}, so their frequency cannot be "
            "found; pass freq=, e.g. freq='1h', or freq=1 for integer stamps"
        )
    clock_gaps = neighbour_gaps(stamps.to_physical().cast(pl.Int64), starts)
    clock = _modal(clock_gaps)
    if stamps.dtype.is_integer():
        return Frequency(clock)
    day = ticks_per_day(stamps.dtype)
    candidates = []
    if clock * 24 >= day * 23:  # the shortest day, when clocks go forward
        candidates = _calendar_candidates(wall_clock(stamps), starts)
    if stamps.dtype != pl.Date:
        name = f"{clock * (NANOSECONDS['d'] // day)}ns"
        candidates.append((Frequency.of(name), _whole(clock_gaps, clock)))
    return max(candidates, key=itemgetter(1))[0]


def usual_gap(stamps: pl.Series, starts: np.ndarray) -> Frequency:
    """Measure the median gap of stamps in uneven time.

    Parameters
    ----------
    stamps, starts
        As in `infer_frequency`.

    Returns
    -------
    Frequency
        The median over all series, the lower one of two.

    Raises
    ------
    FrequencyError
        If no series has two stamps.

    Examples
    --------
    >>> usual_gap(pl.Series([0, 2, 3, 13]), np.array([0])).every
    2
    """
    if len(stamps) == len(starts):
        raise FrequencyError(
            f"no series has two rows with a value, so the usual gap in column {stamps.name!r} "
            "cannot be measured; give longer series"
        )
    gaps = neighbour_gaps(stamps.to_physical().cast(pl.Int64), starts)
    # A gap that is there, so that it is a whole number whatever the unit.
    gap = int(np.quantile(gaps, 0.5, method="lower"))
    if stamps.dtype.is_integer():
        return Frequency(gap, uneven=True)
    name = f"{gap * (NANOSECONDS['d'] // ticks_per_day(stamps.dtype))}ns"
    return Frequency(Frequency.of(name).every, uneven=True)


def _calendar_candidates(wall: pl.Series, starts: np.ndarray) -> list[tuple[Frequency, int]]:
    """Frequencies in months and in days, each with the number of gaps that it explains."""
    candidates = []
    day, width = ticks_per_day(wall.dtype), month_width(wall.dtype)
    gaps = neighbour_gaps(wall.to_physical().cast(pl.Int64), starts)
    modal = _modal(gaps)
    if modal >= 28 * day:
        monthly = with_month_end(Frequency("1mo"), wall)
        month_gaps = neighbour_gaps(monthly.line(wall), starts)
        months = max(1, round(_modal(month_gaps) / width))
        freq = Frequency(Frequency.of(f"{months}mo").every, month_end=monthly.month_end)
        candidates.append((freq, _whole(month_gaps, months * width)))
    if modal % day == 0:
        freq = Frequency.of(f"{modal // day}d")
        candidates.append((freq, _whole(gaps, modal)))
    return candidates


def with_month_end(freq: Frequency, stamps: pl.Series) -> Frequency:
    """Mark a frequency in months as one of month ends if every stamp is the last of its month.

    Parameters
    ----------
    freq : Frequency
        Any frequency.
    stamps : polars.Series
        Stamps that have it.

    Returns
    -------
    Frequency
        `freq`, or its month-end form.

    Examples
    --------
    >>> from datetime import date
    >>> with_month_end(Frequency("1mo"), pl.Series([date(2024, 2, 29)])).month_end
    True
    """
    if not str(freq.every).endswith(tuple(MONTHS)):
        return freq
    days = wall_clock(stamps).cast(pl.Date)
    return Frequency(freq.every, month_end=bool((days == days.dt.month_end()).all()))


def neighbour_gaps(line: pl.Series, starts: np.ndarray) -> np.ndarray:
    """Differences of neighbouring rows, without those from one series to the next.

    Parameters
    ----------
    line : polars.Series of length n
        Places of stamps, as `Frequency.line` gives them.
    starts : ndarray of shape (S,)
        Row at which each series starts.

    Returns
    -------
    ndarray of shape (n - S,), int64
        The differences.

    Examples
    --------
    >>> neighbour_gaps(pl.Series([0, 2, 10, 11]), np.array([0, 2])).tolist()
    [2, 1]
    """
    return np.delete(np.diff(line.to_numpy()), starts[1:] - 1)


def _modal(gaps: np.ndarray) -> int:
    """Most common value, the smallest one where several are."""
    counts = pl.Series("gap", gaps).value_counts()
    return int(counts.sort("count", "gap", descending=[True, False]).item(0, "gap"))


def _whole(gaps: np.ndarray, step: int) -> int:
    """Count the gaps that are whole numbers of steps."""
    return int(np.count_nonzero(gaps % step == 0))
