"""Whole-number arithmetic on calendar days and months, and on the clock of a time zone."""

import polars as pl

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}


def ticks_per_day(dtype: pl.DataType) -> int:
    """Count what a day holds of the unit in which stamps are stored.

    Parameters
    ----------
    dtype : polars.Date or polars.Datetime
        Type of the stamps.

    Returns
    -------
    int
        1 for dates.

    Examples
    --------
    >>> ticks_per_day(pl.Datetime("ms"))
    86400000
    """
    if isinstance(dtype, pl.Datetime):
        return NANOSECONDS["d"] // NANOSECONDS[dtype.time_unit]
    return 1


def month_width(dtype: pl.DataType) -> int:
    """Room that every month takes on a line of months, enough for the longest.

    Parameters
    ----------
    dtype : polars.Date or polars.Datetime
        Type of the stamps.

    Returns
    -------
    int
        In the unit of the stamps.

    Examples
    --------
    >>> month_width(pl.Date())
    31
    """
    return 31 * ticks_per_day(dtype)


def month_start(month: pl.Series) -> pl.Series:
    """Find the first day of months.

    Parameters
    ----------
    month : polars.Series of Int64
        Months since January 1970.

    Returns
    -------
    polars.Series of Int64
        Days since 1970.

    Examples
    --------
    >>> month_start(pl.Series([1])).to_list()
    [31]
    """
    first = pl.date(pl.lit(month // 12 + 1970), pl.lit(month % 12 + 1), 1)
    return pl.select(first.cast(pl.Int64)).to_series()


def month_days(month: pl.Series) -> pl.Series:
    """Count the days of months.

    Parameters
    ----------
    month : polars.Series of Int64
        Months since January 1970.

    Returns
    -------
    polars.Series of Int64
        28 to 31.

    Examples
    --------
    >>> month_days(pl.Series([12 * 54 + 1])).to_list()
    [29]
    """
    return month_start(month + 1) - month_start(month)


def wall_clock(stamps: pl.Series) -> pl.Series:
    """Drop the time zone and keep what a clock on the wall shows.

    Where clocks go forward at midnight the day starts at 01:00, and this counts as 00:00: days
    stay evenly spaced.

    Parameters
    ----------
    stamps : polars.Series
        Dates or date-times.

    Returns
    -------
    polars.Series
        The same without a time zone.

    Examples
    --------
    >>> from datetime import datetime
    >>> noon = pl.Series([datetime(2024, 7, 1, 12)]).dt.replace_time_zone("Asia/Tokyo")
    >>> wall_clock(noon).to_list()
    [datetime.datetime(2024, 7, 1, 12, 0)]
    """
    if not isinstance(stamps.dtype, pl.Datetime) or stamps.dtype.time_zone is None:
        return stamps
    shown = stamps.dt.replace_time_zone(None)
    day = ticks_per_day(stamps.dtype)
    clock = shown.to_physical() % day
    # Clocks never skip more than three hours, so only stamps soon after midnight need a look.
    early = ((clock > 0) & (clock * 8 <= day)).arg_true()
    if early.is_empty():
        return shown
    instant = pl.Series([1]).cast(pl.Duration(stamps.dtype.time_unit))
    unmoved = (stamps.gather(early) - instant).dt.replace_time_zone(None) + instant
    skipped = (unmoved < shown.gather(early)) & (unmoved.to_physical() % day == 0)
    return shown.scatter(early.filter(skipped), unmoved.filter(skipped))


def from_wall_clock(wall: pl.Series, zone: str) -> pl.Series:
    """Undo `wall_clock`.

    Parameters
    ----------
    wall : polars.Series
        Date-times without a time zone.
    zone : str
        The time zone to give them.

    Returns
    -------
    polars.Series
        The instants at which a clock there shows these times: the first of two, and where clocks
        skip the time, the instant at which they do.

    Examples
    --------
    >>> from datetime import datetime
    >>> from_wall_clock(pl.Series([datetime(2024, 9, 8)]), "America/Santiago").dt.hour().to_list()
    [1]
    """

    def localise(naive: pl.Expr) -> pl.Expr:
        return naive.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")

    shown = pl.lit(wall)
    skipped = localise(shown.dt.offset_by("-1d")).dt.offset_by("24h")
    return pl.select(pl.coalesce(localise(shown), skipped)).to_series()
