"""Rows of any frame to steps of a panel that is already there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from polars import selectors as cs

from tsmamba.data.checks import check_keys, resolve_columns
from tsmamba.data.frame import to_polars
from tsmamba.data.panel import Panel
from tsmamba.errors import FrameError

_NUMBER = "__number__"


@dataclass(frozen=True, eq=False)
class Placed:
    """Rows of a frame, and the step of a panel that each of them stands on.

    The inner series of a wide frame count as one here: they share their rows.

    Parameters
    ----------
    frame : polars.DataFrame of n rows
        The rows, in the order of the frame.
    numbers : ndarray of shape (n,)
        Number of the id, counted as the panel orders them.
    steps : ndarray of shape (n,)
        Steps since the first stamp of the id.
    """

    frame: pl.DataFrame
    numbers: np.ndarray
    steps: np.ndarray


def place_rows(
    df: Any, panel: Panel, names: Sequence[str], begin: np.ndarray, end: np.ndarray
) -> Placed:
    """Find the rows of a frame that stand on given stretches of the steps of a panel.

    Rows of other ids, at other stamps or between the steps are left out.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        A frame with the id and time columns of the panel.
    panel : Panel
        The series.
    names : sequence of str
        Columns to read, all of them in the frame; NaN becomes null in them.
    begin, end : int ndarray of shape (S,)
        First step of each series to look for, and the step after the last.

    Returns
    -------
    Placed
        The rows.

    Raises
    ------
    FrameError
        If ids or stamps are missing, or of a type that cannot match those of the panel.

    Examples
    --------
    >>> from tsmamba.data.panel import read_panel
    >>> frame = pl.DataFrame({"ds": [1, 2, 4], "y": [1.0, 3.0, 5.0]})
    >>> panel = read_panel(frame)
    >>> place_rows(frame, panel, ["y"], np.array([1]), panel.lengths).steps
    array([1, 3])
    """
    columns = panel.columns
    target = columns.targets if columns.wide else columns.targets[0]
    given = resolve_columns(df, columns.id_col, columns.time_col, target, require_targets=False)
    if columns.id_given and not given.id_given:
        raise FrameError(
            f"the frame has no column {columns.id_col!r}, which names the series of each row"
        )
    frame = to_polars(df, [*columns.keys, *names]).with_columns(cs.float().fill_nan(None))
    if frame.height:
        check_keys(frame, columns)
        check_stamps(frame.get_column(columns.time_col), panel.first)
    width = len(columns.targets)
    table = pl.DataFrame({_NUMBER: np.arange(len(panel) // width)})
    if columns.id_given:
        table = table.with_columns(panel.ids.gather_every(width).alias(columns.id_col))
        frame = frame.cast({columns.id_col: panel.ids.dtype}, strict=False)
        frame = frame.join(table, on=columns.id_col, maintain_order="left")
    else:
        frame = frame.join(table, how="cross")
    numbers = frame.get_column(_NUMBER).to_numpy()
    stamps = frame.get_column(columns.time_col).cast(panel.first.dtype, strict=False)
    steps = panel.steps_at(numbers * width, stamps)
    wanted = (steps >= begin[::width][numbers]) & (steps < end[::width][numbers])
    return Placed(frame.drop(_NUMBER).filter(wanted), numbers[wanted], steps[wanted])


def check_stamps(given: pl.Series, known: pl.Series) -> None:
    """Refuse stamps that a cast would move in time: steps for dates, or another kind of zone.

    Parameters
    ----------
    given, known : polars.Series
        Stamps of a frame, and those of the history.

    Raises
    ------
    FrameError
        If they are of two kinds.
    """
    kinds = [_stamp_kind(given.dtype), _stamp_kind(known.dtype)]
    if kinds[0] != kinds[1]:
        raise FrameError(
            f"time column {given.name!r} is of type {given.dtype}, {kinds[0]}, and in the history "
            f"of type {known.dtype}, {kinds[1]}; give both in one type"
        )


def _stamp_kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "integers"
    zoned = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    return "stamps with a time zone" if zoned else "stamps without a time zone"
