"""Text columns to time stamps, where the text can mean only one thing."""

import polars as pl

from tsmamba.errors import FrameError

_ISO_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y%m%d")
# The pairs that read the same text as two different days.
_OTHER_DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "%H:%M:%S%.f%#z", "%H:%M%#z")
_SAMPLE = 100
_FIRST_YEAR = 1000  # below it, a year of two digits was read as one of four
_ACCEPTED = (
    "dates and date-times in the ISO form are accepted, such as 2024-03-31 or 2024-03-31 17:05:00, "
    "with or without an offset such as +02:00, and 31.03.2024, 31/03/2024 and 03/31/2024"
)


def parse_times(column: pl.Series) -> pl.Series | None:
    """Read text as dates or date-times.

    Parameters
    ----------
    column : polars.Series of String
        The text.

    Returns
    -------
    polars.Series of Date or Datetime, or None
        None where no accepted format fits every value. Text with offsets becomes UTC.

    Raises
    ------
    FrameError
        If day and month can be read either way.

    Examples
    --------
    >>> parse_times(pl.Series(["2024-03-31T17:05Z"])).to_list()
    [datetime.datetime(2024, 3, 31, 17, 5, tzinfo=zoneinfo.ZoneInfo(key='UTC'))]
    """
    text = _tidy(column)
    sample = text.drop_nulls().head(_SAMPLE)
    if sample.is_empty() or not sample.str.contains(r"^\d").all():
        return None
    fitting = [style for style in _styles() if _read(sample, style) is not None]
    read = {style: times for style in fitting if (times := _read(text, style)) is not None}
    if len(read) > 1:
        raise FrameError(
            f"column {column.name!r} can be read in {len(read)} ways: {sample[0]!r} fits "
            f"{' and '.join(read)}; write dates in the ISO form, such as 2024-03-31"
        )
    return next(iter(read.values()), None)


def require_times(column: pl.Series) -> pl.Series:
    """Read text as dates or date-times, or say what cannot be read.

    Parameters
    ----------
    column : polars.Series of String
        The text.

    Returns
    -------
    polars.Series of Date or Datetime
        The stamps.

    Raises
    ------
    FrameError
        If no accepted format fits every value, or more than one does.

    Examples
    --------
    >>> require_times(pl.Series(["31.03.2024"])).to_list()
    [datetime.date(2024, 3, 31)]
    """
    times = parse_times(column)
    if times is not None:
        return times
    text = _tidy(column)
    # The format that reads the most rows is the one that was meant.
    unread = min(
        (text.filter(_convert(text, style).is_null() & text.is_not_null()) for style in _styles()),
        key=len,
    )
    example = unread[0] if len(unread) else None
    raise FrameError(
        f"time column {column.name!r} holds text that is no time stamp, such as {example!r}; "
        f"{_ACCEPTED}"
    )


def _styles() -> list[str]:
    days = [*_ISO_DAYS, *_OTHER_DAYS]
    return ["%Y-%m", *days, *(f"{day} {clock}" for day in days for clock in _CLOCKS)]


def _tidy(column: pl.Series) -> pl.Series:
    """Bring the variants of the ISO form into one."""
    text = column.str.strip_chars().str.replace(r"^(\S*\d)[Tt](\d)", "${1} ${2}")
    return text.str.replace(r"\s*(Z|UTC)$", "+00:00")


def _convert(text: pl.Series, style: str) -> pl.Series:
    if style == "%Y-%m":
        text, style = text + "-01", "%Y-%m-%d"
    if "%H" not in style and "%I" not in style:
        return text.str.strptime(pl.Date, style, strict=False)
    return text.str.to_datetime(style, time_unit="us", strict=False)


def _read(text: pl.Series, style: str) -> pl.Series | None:
    times = _convert(text, style)
    if times.null_count() > text.null_count():
        return None
    early = (times.dt.year() < _FIRST_YEAR).any()
    return None if early else times
