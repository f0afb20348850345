"""What is to be forecast of which stay and when, as frames ask for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tsmamba.data.frame import column_names, to_polars
from tsmamba.errors import FrameError
from tsmamba.records.events import (
    MICROSECONDS,
    EventColumns,
    Repairs,
    brief,
    is_stamp,
    read_times,
    write_times,
)
from tsmamba.records.tokens import bin_of

__all__ = ["Origins", "Questions", "ask_all", "read_questions"]

_SHOWN = 5
_EXAMPLES = 3


@dataclass(frozen=True)
class Origins:
    """From where stays are forecast.

    Parameters
    ----------
    ids : polars.Series
        Of the stays.
    starts : ndarray of shape (n,)
        Start of each stay on the clock of its times, NaN where it has none.
    last : ndarray of shape (n,)
        Time of the last measurement since the start, -1 where there is none.
    width : float
        Length of a bin.
    like : polars.DataType
        Of the column of times.
    """

    ids: pl.Series
    starts: NDArray[np.float64]
    last: NDArray[np.float64]
    width: float
    like: pl.DataType

    @property
    def bins(self) -> NDArray[np.int64]:
        """The bin of the last measurement of each stay, the first where there is none."""
        return bin_of(np.maximum(self.last, 0.0), self.width)


@dataclass(frozen=True)
class Questions:
    """Rows to answer.

    Parameters
    ----------
    rows : polars.DataFrame
        Columns of id, time and code, as they go out.
    stay, code, step : int ndarray of shape (n,)
        Numbers of stay and code, and bins ahead from 1 on; 0 where there is no answer.
    """

    rows: pl.DataFrame
    stay: NDArray[np.int64]
    code: NDArray[np.int64]
    step: NDArray[np.int64]


def ask_all(origins: Origins, columns: EventColumns, codes: list[str], horizon: int) -> Questions:
    """Ask for every code at the end of each bin after the last measurement of each stay.

    Parameters
    ----------
    origins : Origins
        The stays.
    columns : EventColumns
        Names of the columns.
    codes : list of str
        All that can be forecast.
    horizon : int
        So many bins.

    Returns
    -------
    Questions
        By stay, time and code.
    """
    shape = len(origins.ids), horizon, len(codes)
    stay, step, code = (each.ravel() for each in np.indices(shape))
    ends = (origins.bins[stay] + 2.0 + step) * origins.width
    rows = pl.DataFrame(
        {
            columns.id_col: origins.ids.gather(stay),
            columns.time_col: write_times(origins.starts[stay] + ends, origins.like),
            columns.code_col: pl.Series(codes, dtype=pl.String).gather(code),
        }
    )
    return Questions(rows, stay, code, step + 1)


def read_questions(
    X_df: Any,
    origins: Origins,
    columns: EventColumns,
    codes: list[str],
    horizon: int,
    repairs: Repairs,
) -> Questions:
    """Read the rows that a user asks for.

    Parameters
    ----------
    X_df : frame
        Ids and times, and codes, if not all are wanted.
    origins : Origins
        The stays.
    columns : EventColumns
        Names of the columns.
    codes : list of str
        All that can be forecast.
    horizon : int
        Most bins ahead.
    repairs : Repairs
        Rows without an answer are counted there.

    Returns
    -------
    Questions
        In the order of the rows.

    Raises
    ------
    FrameError
        If a column is missing or of another type, or a row names a stay or a code that is not
        there, or no time.
    """
    present = column_names(X_df)
    for name in (columns.id_col, columns.time_col):
        if name not in present:
            raise FrameError(
                f"X_df has no column {name!r}, but {', '.join(map(repr, present))}; give it the "
                "columns of id and time of the events, and a code where not all are wanted"
            )
    coded = [columns.code_col] if columns.code_col in present else []
    rows = to_polars(X_df, [columns.id_col, columns.time_col, *coded])
    stay = _stays(rows[columns.id_col], origins)
    step = _steps(
        rows, _since(rows[columns.time_col], stay, origins), stay, origins, horizon, repairs
    )
    names = pl.Series(columns.code_col, codes, dtype=pl.String)
    if coded:
        rows = rows.with_columns(pl.col(columns.code_col).cast(pl.String))
        return Questions(rows, stay, _codes(rows[columns.code_col], names), step)
    each = np.repeat(np.arange(len(rows)), len(codes))
    code = np.tile(np.arange(len(codes)), len(rows))
    return Questions(rows[each].with_columns(names[code]), stay[each], code, step[each])


def _codes(asked: pl.Series, known: pl.Series) -> NDArray[np.int64]:
    shown = ", ".join(brief(repr(code)) for code in known.head(_SHOWN))
    more = " ..." if len(known) > _SHOWN else ""
    return _numbers(asked, known, "code", f"those of the fit are {shown}{more}")


def _stays(ids: pl.Series, origins: Origins) -> NDArray[np.int64]:
    known = origins.ids
    if ids.dtype.is_integer() and known.dtype.is_integer():
        ids, known = ids.cast(pl.Int64), known.cast(pl.Int64)
    try:
        return _numbers(ids, known, "stay", "pass its events in df, or leave its rows out of X_df")
    except pl.exceptions.SchemaError:
        raise FrameError(
            f"ids are of type {origins.ids.dtype} in the events and {ids.dtype} in X_df; cast "
            f'one, e.g. pl.col("{ids.name}").cast(pl.String)'
        ) from None


def _numbers(names: pl.Series, known: pl.Series, what: str, repair: str) -> NDArray[np.int64]:
    """Return the place of each name among those that are known."""
    table = pl.DataFrame({"name": known, "number": np.arange(len(known))})
    asked = pl.DataFrame({"name": names})
    found = asked.join(table, on="name", how="left", maintain_order="left")
    strange = found.filter(pl.col("number").is_null())["name"]
    if len(strange):
        shown = ", ".join(
            brief(repr(name)) for name in strange.unique(maintain_order=True)[:_SHOWN]
        )
        raise FrameError(
            f"{len(strange):,} of {len(names):,} rows of X_df ask for a {what} that is not known: "
            f"{shown}; {repair}"
        )
    return found["number"].to_numpy()


def _since(times: pl.Series, stay: NDArray[np.int64], origins: Origins) -> NDArray[np.float64]:
    """Return times from the start of the stay, as cleaning counts them."""
    if _kind(times.dtype) != _kind(origins.like):
        raise FrameError(
            f"times are {_kind(origins.like)} in the events and {_kind(times.dtype)} in X_df "
            f"(column {times.name!r}); give both alike"
        )
    hours = read_times(times)
    lost = len(hours) - int(hours.is_finite().sum())
    if lost:
        raise FrameError(
            f"{lost:,} of {len(hours):,} rows of X_df have no time in {times.name!r}; fill or drop "
            "them"
        )
    since = hours.to_numpy() - origins.starts[stay]
    if is_stamp(times):
        since = np.round(since * MICROSECONDS) / MICROSECONDS
    return since


def _kind(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Duration):
        return "durations"
    return "stamps" if dtype.is_temporal() else "numbers"


def _steps(
    rows: pl.DataFrame,
    since: NDArray[np.float64],
    stay: NDArray[np.int64],
    origins: Origins,
    horizon: int,
    repairs: Repairs,
) -> NDArray[np.int64]:
    """Return how many bins ahead each time lies; what has no answer is counted."""
    last = origins.last[stay]
    early = ~(since > last)  # also where a stay without events has no start
    # What is left of the bin of the last measurement is forecast as the next one.
    step = np.maximum(bin_of(np.where(early, 0.0, since), origins.width) - origins.bins[stay], 1)
    late = ~early & (step > horizon) & (last >= 0)
    wrong = {
        "a time of X_df that is not after the last event, answered with null": early,
        f"a time of X_df more than {horizon} bins of {origins.width:.4g} after the last event, "
        "answered with null": late,
    }
    for what, here in wrong.items():
        first = rows.filter(pl.Series(here))[:, :2].head(_EXAMPLES)
        shown = ", ".join(brief(f"{name} at {time}") for name, time in first.rows())
        repairs.note(what, int(here.sum()), shown, grave=True)
    step = np.where(last >= 0, step, 1)
    answered: NDArray[np.int64] = np.where(early | late, 0, step)
    return answered
