"""Moments of stays, and what was known of a stay by then."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl

from tsmamba.data.frame import column_names, to_polars
from tsmamba.errors import FrameError
from tsmamba.records.events import MICROSECONDS, EventColumns, Events, read_times

__all__ = ["Moments", "prefixes", "read_moments"]

# Events that are laid out at once: more of them take more memory, and are no faster.
_MOST = 1_000_000
_SHOWN = 3


@dataclass(frozen=True)
class Moments:
    """Moments at which something is known or asked about stays.

    Parameters
    ----------
    stay : int ndarray of shape (n,)
        Number of the stay of each.
    time : ndarray of shape (n,)
        Since its start; infinite for the stay as a whole.
    """

    stay: np.ndarray
    time: np.ndarray

    def __len__(self) -> int:
        return len(self.stay)

    @classmethod
    def ends(cls, events: Events) -> Self:
        """Return the end of each stay, so that everything is known of it."""
        count = len(events.ids)
        return cls(np.arange(count), np.full(count, np.inf))

    @property
    def cut(self) -> bool:
        """Whether any stands at a time, not at the end of its stay."""
        return bool(np.isfinite(self.time).any())

    def only(self, which: np.ndarray) -> Self:
        """Return those of a mask or of numbers."""
        return type(self)(self.stay[which], self.time[which])


def read_moments(
    at: Any, given: Events, starts: pl.Series, columns: EventColumns, clock: pl.DataType
) -> tuple[pl.DataFrame, Moments]:
    """Read the ids and times of a frame.

    Parameters
    ----------
    at : DataFrame
        A row for each moment.
    given : Events
        Of the stays, as they were read.
    starts : polars.Series
        Start of each stay, on the clock of its times.
    columns : EventColumns
        Names, of the id and of the time.
    clock : polars.DataType
        Of the times of the events.

    Returns
    -------
    polars.DataFrame
        Its rows.
    Moments
        Where they stand among the events.

    Raises
    ------
    FrameError
        If a column is missing, times are of another kind than those of the events, or a row has no
        time, one before the start of its stay, or a stay without events.
    """
    present = column_names(at)
    for name in (columns.id_col, columns.time_col):
        if name not in present:
            raise FrameError(
                f"the frame of times has no column {name!r}, but {', '.join(map(repr, present))}; "
                "rename one, or name it: id_col=, time_col="
            )
    frame = to_polars(at)
    times = frame[columns.time_col]
    kinds = [_kind(dtype) for dtype in (clock, times.dtype)]
    if kinds[0] != kinds[1] and times.dtype != pl.Null:
        raise FrameError(
            f"times are {kinds[0]} in the events and {kinds[1]} in the frame of times; cast one"
        )
    stay = _numbers(frame[columns.id_col], given.ids, columns.id_col)
    _refuse(frame, stay.is_null(), columns, "are of stays without events", "leave them out")
    clocked = read_times(times)
    timeless = ~clocked.is_finite().fill_null(value=False)
    _refuse(frame, timeless, columns, "have no time", "drop them")
    since = clocked
    if not given.from_zero:
        since = ((clocked - starts.gather(stay)) * MICROSECONDS).round() / MICROSECONDS
        # Of a stay that no time is known of, all there is stands at the start.
        since = since.fill_null(0.0)
    start = "zero" if given.from_zero else "its first event"
    what = f"are before the start of their stay, which is {start}"
    _refuse(frame, since < 0, columns, what, "ask from there on")
    return frame, Moments(stay.to_numpy(), since.to_numpy())


def prefixes(events: Events, moments: Moments) -> Iterator[Events]:
    """Cut stays at moments, some at a time, so that memory is bounded.

    Parameters
    ----------
    events : Events
        Cleaned.
    moments : Moments
        Each makes a stay of its own: the events up to and with its time.

    Yields
    ------
    Events
        Of the next moments, in their order; at least one.

    Examples
    --------
    >>> rows = {"stay": [0, 0], "time": [1.0, 2.0], "code": ["HR", "HR"], "value": [80.0, 90.0]}
    >>> rows = pl.DataFrame(rows, schema_overrides={"stay": pl.UInt32})
    >>> events = Events(pl.Series([7]), rows, from_zero=True)
    >>> (cut,) = prefixes(events, Moments(np.array([0, 0]), np.array([1.5, np.inf])))
    >>> cut.rows["stay"].to_list()
    [0, 1, 1]
    """
    begin, end = _ranges(events, moments)
    length = end - begin
    chunk = (np.cumsum(length) - length) // _MOST
    for part in np.split(np.arange(len(moments)), np.flatnonzero(np.diff(chunk)) + 1):
        if len(part):
            counts = length[part]
            first = np.cumsum(counts) - counts
            place = np.arange(counts.sum()) + np.repeat(begin[part] - first, counts)
            number = np.repeat(np.arange(len(part), dtype=np.uint32), counts)
            rows = events.rows[place].with_columns(pl.Series("stay", number))
            yield Events(events.ids.gather(moments.stay[part]), rows, events.from_zero)


def _ranges(events: Events, moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Return where the events of each moment begin and end; rows are sorted by stay and time."""
    stays = events.rows["stay"].to_numpy()
    begin = np.searchsorted(stays, moments.stay)
    ends = (
        events.rows.select("stay", "time")
        .with_row_index("end", offset=1)
        .group_by("stay", "time", maintain_order=True)
        .agg(pl.col("end").max())
    )
    asked = pl.DataFrame({"stay": moments.stay.astype(np.uint32), "time": moments.time})
    order = asked.with_row_index("row").sort("time")
    found = order.join_asof(ends.sort("time"), on="time", by="stay", check_sortedness=False)
    end = found.sort("row")["end"].cast(pl.Int64).to_numpy()
    return begin, np.where(np.isnan(end), begin, end).astype(np.int64)


def _numbers(given: pl.Series, ids: pl.Series, name: str) -> pl.Series:
    """Return the number of the stay of each row, null where there is none."""
    known = pl.DataFrame({name: ids}).with_row_index("stay")
    try:
        joined = pl.DataFrame({name: given}).join(known, on=name, how="left", maintain_order="left")
    except pl.exceptions.SchemaError:
        raise FrameError(
            f"ids are of type {ids.dtype} in the events and {given.dtype} in the frame of times; "
            f'cast one, e.g. pl.col("{name}").cast(pl.String)'
        ) from None
    return joined["stay"]


def _kind(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Duration):
        return "durations"
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return "stamps with a time zone"
    return "stamps" if dtype.is_temporal() else "numbers"


def _refuse(
    frame: pl.DataFrame, wrong: pl.Series, columns: EventColumns, what: str, repair: str
) -> None:
    """Raise where rows are wrong, naming some."""
    if not wrong.any():
        return
    rows = frame.filter(wrong).select(columns.id_col, columns.time_col)
    shown = ", ".join(f"{stay!r} at {time}" for stay, time in rows.head(_SHOWN).rows())
    raise FrameError(f"{len(rows)} of {len(frame)} rows {what}: {shown}; {repair}")
