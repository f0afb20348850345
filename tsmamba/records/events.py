"""Events of stays as users send them, read into one table: stay, time, code, value."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.frame import column_names, to_polars
from tsmamba.errors import FrameError, FrameWarning

__all__ = [
    "LARGEST",
    "MICROSECONDS",
    "EventColumns",
    "Events",
    "Repairs",
    "brief",
    "is_stamp",
    "read_events",
    "read_time",
    "read_times",
    "sample",
    "tell",
    "write_times",
]

# Of an hour. Times between stamps are rounded to them, so that no shift of a stay changes anything.
MICROSECONDS = 3_600_000_000
# Networks compute in single precision, where more than this is infinite.
LARGEST = float(np.finfo(np.float32).max)
_SHOWN = 3
_MOST_KINDS = 8
_MOST_LETTERS = 40


@dataclass(frozen=True)
class EventColumns:
    """Names of the columns of an event frame.

    Parameters
    ----------
    id_col, time_col : str
        Columns of the stay and of the time.
    code_col, value_col : str
        Columns of what was measured and of its value. A frame without the first is wide: every
        other column is a code, and what is missing was not measured.
    label_col : str, optional
        Column of labels; where it stands in a wide frame it is no code, which would tell the class.
    """

    id_col: str
    time_col: str
    code_col: str
    value_col: str
    label_col: str | None = None


@dataclass
class Repairs:
    """Rows that were set aside or mended, counted by what was wrong with them."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    grave: set[str] = field(default_factory=set)

    def note(self, what: str, count: int, example: str = "", *, grave: bool = False) -> None:
        """Count rows; zero of them leave no trace. What is grave, as no answer, comes first."""
        if count:
            self.counts[what] = self.counts.get(what, 0) + count
            self.examples.setdefault(what, example)
            self.grave |= {what} if grave else set()

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each thing that was wrong, most rows first, and one for the rest."""
        kinds = sorted(self.counts, key=lambda what: (what not in self.grave, -self.counts[what]))
        for what in kinds[:_MOST_KINDS]:
            example = self.examples[what]
            yield f"{self.counts[what]:,} × {what}" + (f" ({example})" if example else "")
        rest = kinds[_MOST_KINDS:]
        if rest:
            rows = sum(self.counts[what] for what in rest)
            yield f"{rows:,} × {len(rest)} other things"


@dataclass(frozen=True)
class Events:
    """Events of some stays.

    Parameters
    ----------
    ids : polars.Series
        Id of each stay, in the order in which they came.
    rows : polars.DataFrame
        ``stay`` (number of the id), ``time``, ``code`` and ``value``; the last is missing where an
        event has none, a time where it holds for the whole stay.
    from_zero : bool
        Whether times count from the start of the stay, as numbers and durations do. Stamps are in
        hours of a common clock.
    """

    ids: pl.Series
    rows: pl.DataFrame
    from_zero: bool

    def only(self, keep: np.ndarray) -> "Events":
        """Return the stays that `keep`, bool of shape (n,), says, numbered anew."""
        number = pl.Series(np.cumsum(keep) - keep, dtype=pl.UInt32)
        here = pl.Series(keep).gather(self.rows["stay"])
        rows = self.rows.filter(here)
        rows = rows.with_columns(number.gather(rows["stay"]).alias("stay"))
        return Events(self.ids.filter(pl.Series(keep)), rows, self.from_zero)


def read_events(df: Any, columns: EventColumns, repairs: Repairs) -> Events:
    """Read a frame of events; nothing is resampled.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        A row for each event, or for each time with a column for each code.
    columns : EventColumns
        Its names.
    repairs : Repairs
        What cannot be read is counted there.

    Returns
    -------
    Events
        What can.

    Raises
    ------
    FrameError
        If a column is missing or of a type that cannot be read, or the frame has no rows.

    Examples
    --------
    >>> names = EventColumns("subject_id", "time", "code", "numeric_value")
    >>> frame = pl.DataFrame({"subject_id": [7, 7], "time": [0, 3], "HR": [80.0, None]})
    >>> read_events(frame, names, Repairs()).rows.rows()
    [(0, 0.0, 'HR', 80.0)]
    """
    present = column_names(df)
    for name in (columns.id_col, columns.time_col):
        if name not in present:
            raise FrameError(
                f"the frame has no column {name!r}, but {', '.join(map(repr, present))}; rename "
                "one, or name it: id_col=, time_col="
            )
    frame = to_polars(df)
    if frame.is_empty():
        raise FrameError("the frame has no rows; pass at least one event")
    if frame[columns.id_col].dtype.is_float():
        frame = frame.with_columns(pl.col(columns.id_col).fill_nan(None))
    nobody = frame[columns.id_col].is_null()
    repairs.note(f"nothing in {columns.id_col!r}", int(nobody.sum()))
    frame = frame.filter(~nobody)
    ids = frame[columns.id_col].unique(maintain_order=True)
    number = pl.DataFrame({"id": ids, "stay": np.arange(len(ids), dtype=np.uint32)})
    given = pl.DataFrame({"id": frame[columns.id_col]})
    times = frame[columns.time_col]
    place = given.join(number, on="id", how="left", maintain_order="left").select(
        "stay", read_times(times).alias("time")
    )
    long = columns.code_col in present and columns.code_col != columns.id_col
    rows = (_long if long else _wide)(frame, place, columns, repairs)
    return Events(ids, rows, from_zero=not is_stamp(times))


def read_time(time: float | timedelta | datetime | date | None) -> tuple[float, bool]:
    """Return one time as `read_events` reads a column of them.

    Parameters
    ----------
    time : float, timedelta, datetime or date
        A stamp, or time since the start of a stay.

    Returns
    -------
    hours : float
        Of a common clock or since the start; a number stays as it is.
    from_zero : bool
        Whether it counts from the start.

    Raises
    ------
    FrameError
        If it is anything else, or not finite.

    Examples
    --------
    >>> read_time(timedelta(minutes=30))
    (0.5, True)
    """
    column = pl.Series("time", [time], strict=False)
    hours = read_times(column)[0]
    if hours is None or not math.isfinite(hours):
        raise FrameError(f"{time!r} is not a time; pass a stamp, a duration or a finite number")
    return hours, not is_stamp(column)


def tell(repairs: Repairs, stacklevel: int) -> None:
    """Warn of all that was mended or set aside, at once.

    Parameters
    ----------
    repairs : Repairs
        What was counted.
    stacklevel : int
        As in `warnings.warn`, from the caller's point of view.
    """
    if repairs.counts:
        told = "; ".join(repairs.lines())
        warnings.warn(
            f"events were mended or set aside: {told}", FrameWarning, stacklevel=stacklevel + 1
        )


def sample(rows: pl.DataFrame) -> str:
    """Name some codes and values, so that the reader knows where to look."""
    shown = rows.select("code", "value").head(_SHOWN).rows()
    return ", ".join(brief(f"{code} {value}") for code, value in shown)


def brief(text: str) -> str:
    """Cut a text that would fill the screen."""
    return text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "..."


def is_stamp(column: pl.Series) -> bool:
    """Say whether times are stamps of a common clock, not counted from the start of a stay."""
    return column.dtype.is_temporal() and not isinstance(column.dtype, pl.Duration)


def read_times(column: pl.Series) -> pl.Series:
    """Return a column of times as numbers: hours of stamps and durations, numbers as they are.

    Parameters
    ----------
    column : polars.Series
        Stamps, durations or numbers.

    Returns
    -------
    polars.Series
        Float64; null where there is none.

    Raises
    ------
    FrameError
        If it is of another type.

    Examples
    --------
    >>> read_times(pl.Series([timedelta(minutes=30)])).to_list()
    [0.5]
    """
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime | pl.Date):
        return column.cast(pl.Datetime("us")).dt.epoch("us") / MICROSECONDS
    if isinstance(dtype, pl.Duration):
        return column.dt.total_microseconds() / MICROSECONDS
    if dtype.is_numeric() or dtype == pl.Null:
        return column.cast(pl.Float64).fill_nan(None)
    raise FrameError(
        f"column {column.name!r} is of type {dtype}; pass stamps, durations or numbers, e.g. "
        f'pl.col("{column.name}").str.to_datetime()'
    )


def write_times(hours: np.ndarray, like: pl.DataType) -> pl.Series:
    """Undo `read_times`.

    Parameters
    ----------
    hours : ndarray of shape (n,)
        As `read_times` returns them; NaN for none.
    like : polars.DataType
        Of the column that was read.

    Returns
    -------
    polars.Series
        Numbers, durations or stamps, to the microsecond.

    Examples
    --------
    >>> write_times(np.array([0.5]), pl.Duration("ms")).to_list()
    [datetime.timedelta(seconds=1800)]
    """
    if not like.is_temporal():
        return pl.Series("time", hours, nan_to_null=True)
    ticks = pl.Series("time", np.round(hours * MICROSECONDS), nan_to_null=True).cast(pl.Int64)
    if isinstance(like, pl.Duration):
        return ticks.cast(pl.Duration("us"))
    zone = like.time_zone if isinstance(like, pl.Datetime) else None
    return ticks.cast(pl.Datetime("us", zone))


def _long(
    frame: pl.DataFrame, place: pl.DataFrame, columns: EventColumns, repairs: Repairs
) -> pl.DataFrame:
    """Read a row for each event; `place` has their stays and times."""
    if columns.value_col not in frame.columns:
        raise FrameError(
            f"the frame has codes in {columns.code_col!r} but no values in {columns.value_col!r}; "
            "name their column: value_col="
        )
    rows = place.with_columns(
        frame[columns.code_col].cast(pl.String).alias("code"),
        frame[columns.value_col].alias("value"),
    )
    unnamed = (rows["code"] == "").fill_null(value=True)
    repairs.note(f"nothing in {columns.code_col!r}", int(unnamed.sum()))
    return _numbers(rows.filter(~unnamed), columns.value_col, repairs)


def _wide(
    frame: pl.DataFrame, place: pl.DataFrame, columns: EventColumns, repairs: Repairs
) -> pl.DataFrame:
    """Read a column for each code; what is missing was not measured."""
    others = columns.id_col, columns.time_col, columns.label_col
    codes = [name for name in frame.columns if name not in others]
    parts = [place.clear().with_columns(pl.lit("").alias("code"), pl.lit(0.0).alias("value"))]
    for name in codes:
        values = frame[name]
        if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
            raise FrameError(
                f"column {name!r} is of type {values.dtype}; turn it into numbers or drop it. A "
                f"frame with a row for each event needs a column {columns.code_col!r} (code_col=)"
            )
        values = values.cast(pl.Float64).fill_nan(None).alias("value")
        rows = place.with_columns(pl.lit(name).alias("code"), values)
        parts.append(rows.filter(pl.col("value").is_not_null()))
    return _numbers(pl.concat(parts), "value", repairs)


def _numbers(rows: pl.DataFrame, name: str, repairs: Repairs) -> pl.DataFrame:
    """Turn values into finite numbers, or set their rows aside."""
    dtype = rows["value"].dtype
    if dtype == pl.String:
        parsed = rows["value"].str.strip_chars().cast(pl.Float64, strict=False)
        text = parsed.is_null() & rows["value"].is_not_null()
        repairs.note("text in place of a number", int(text.sum()), sample(rows.filter(text)))
        rows = rows.with_columns(parsed.alias("value")).filter(~text)
    elif not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise FrameError(f"column {name!r} is of type {dtype}; pass numbers")
    rows = rows.with_columns(pl.col("value").cast(pl.Float64).fill_nan(None))
    infinite = (rows["value"].abs() > LARGEST).fill_null(value=False)
    repairs.note("an infinite value", int(infinite.sum()), sample(rows.filter(infinite)))
    return rows.filter(~infinite)
