"""What people send, as the frames that models read: times, ids and missing values in one form."""

from datetime import UTC, datetime

import polars as pl
from polars import selectors as cs

from tsmamba.errors import FrameError

_ISO = "ISO text such as '2024-03-31T17:05:00' or '2024-03-31T17:05:00+02:00'"


def tidy(
    rows: pl.DataFrame, id_col: str, time_col: str, like: pl.DataType | None = None
) -> pl.DataFrame:
    """Bring the ids, times and missing values of a frame into one form.

    Parameters
    ----------
    rows : polars.DataFrame
        Rows as they were sent.
    id_col, time_col : str
        Columns of ids and times; either may be absent.
    like : polars.DataType, optional
        Type of the times that the model was fitted on; without it any type will do.

    Returns
    -------
    polars.DataFrame
        Ids are text. Times are integers, dates, or date-times without a zone, in UTC, or in the
        zone of ``like``. Missing numbers are null.

    Raises
    ------
    FrameError
        If a time cannot be read, or is not of the kind that the model knows.

    Examples
    --------
    >>> rows = pl.DataFrame({"unique_id": [7], "ds": ["2024-01-01T01:00+01:00"], "y": [1]})
    >>> tidy(rows, "unique_id", "ds").row(0)
    ('7', datetime.datetime(2024, 1, 1, 0, 0), 1)
    """
    changed = []
    if id_col in rows.columns:
        changed.append(_as_text(rows[id_col]))
    if time_col in rows.columns:
        changed.append(_as_times(rows[time_col], like))
    return rows.with_columns(cs.float().fill_nan(None)).with_columns(changed)


def without_zone(rows: pl.DataFrame) -> pl.DataFrame:
    """Turn zoned date-times into UTC without a zone.

    Parameters
    ----------
    rows : polars.DataFrame
        Any rows.

    Returns
    -------
    polars.DataFrame
        The same, other columns as they were.

    Examples
    --------
    >>> zoned = pl.Series("ds", ["2024-01-01T01:00+01:00"]).str.to_datetime()
    >>> without_zone(pl.DataFrame([zoned])).item()
    datetime.datetime(2024, 1, 1, 0, 0)
    """
    zoned = cs.datetime(time_zone="*")
    return rows.with_columns(zoned.dt.convert_time_zone("UTC").dt.replace_time_zone(None))


def _as_text(ids: pl.Series) -> pl.Series:
    """Return ids as text; a whole number is written without a fraction."""
    if ids.dtype.is_nested() or ids.dtype == pl.Object:
        return ids  # refused, with the column's name, by whoever reads it
    if ids.dtype.is_float():
        whole = ids.cast(pl.Int64, strict=False)
        if (whole == ids).all():
            ids = whole
    return ids.cast(pl.String)


def _as_times(times: pl.Series, like: pl.DataType | None) -> pl.Series:
    if times.dtype == pl.Null:
        return times
    if like is not None and like.is_integer():
        return _step_numbers(times)
    if times.dtype == pl.String:
        times = _parsed(times)
    elif times.dtype.is_numeric() and like is not None:
        first = times.drop_nulls().first()
        raise FrameError(
            f"time column {times.name!r} holds numbers, first {first!r}, and the model was fitted "
            f"on dates or date-times; a number does not say its unit and zone: give {_ISO}. "
            f"Milliseconds since 1970 become date-times by pl.from_epoch({times.name!r}, "
            f"time_unit='ms'), in pandas pd.to_datetime(df[{times.name!r}], unit='ms')"
        )
    if times.dtype == pl.Date and not (like is None or like == pl.Date):
        times = times.cast(pl.Datetime("us"))
    if isinstance(times.dtype, pl.Datetime):
        if times.dtype.time_zone is not None:
            times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        _check_years(times)
        if isinstance(like, pl.Datetime) and like.time_zone is not None:
            times = times.dt.replace_time_zone("UTC").dt.convert_time_zone(like.time_zone)
    return times


def _check_years(times: pl.Series) -> None:
    """Refuse what no datetime of Python holds, such as the first day of year 1 east of UTC."""
    strange = times.dt.year()
    strange = strange.filter(~strange.is_between(1, 9999))
    if len(strange):
        raise FrameError(
            f"time column {times.name!r} holds a time in year {strange[0]}; years 1 to 9999 are "
            "accepted"
        )


def _step_numbers(times: pl.Series) -> pl.Series:
    """Return integer times; whole numbers become floats where rows lack a time."""
    whole = times.cast(pl.Int64, strict=False) if times.dtype.is_numeric() else None
    if whole is None or not (whole == times).all() or whole.null_count() > times.null_count():
        first = times.drop_nulls().first()
        raise FrameError(
            f"time column {times.name!r} is of type {times.dtype}, first {first!r}, and the model "
            "was fitted on whole numbers as times; give whole numbers, as in "
            f"pl.col({times.name!r}).cast(pl.Int64)"
        )
    return whole


def _parsed(times: pl.Series) -> pl.Series:
    """Read ISO text, all of it with an offset, which is taken into account, or none of it."""
    if times.str.contains(r"^\d{4}-\d\d-\d\d").all():
        try:
            return times.str.to_datetime(time_unit="us")  # fast, and of one form only
        except pl.exceptions.PolarsError:
            pass
    moments: list[datetime | None] = []
    for row, text in enumerate(times):
        try:
            moments.append(None if text is None else _moment(text.strip()))
        except ValueError:
            raise FrameError(
                f"time column {times.name!r} holds {text!r} in row {row}, which is no time; give "
                f"{_ISO}"
            ) from None
    zoned = [moment.tzinfo is not None for moment in moments if moment is not None]
    if any(zoned) and not all(zoned):
        raise FrameError(
            f"time column {times.name!r} holds {sum(zoned)} times with an offset from UTC and "
            f"{len(zoned) - sum(zoned)} without one; give all of them with one, or none"
        )
    if any(zoned):
        try:
            moments = [m and m.astimezone(UTC).replace(tzinfo=None) for m in moments]
        except OverflowError:
            raise FrameError(
                f"time column {times.name!r} holds a time before year 1 or after year 9999 of UTC; "
                "give another"
            ) from None
    return pl.Series(times.name, moments, dtype=pl.Datetime("us"))


def _moment(text: str) -> datetime:
    """Read ISO text. Digits alone are a day, YYYYMMDD; more of them are seconds since 1970."""
    if text.isdigit() and len(text) != 8:
        raise ValueError(text)
    return datetime.fromisoformat(text)
