"""From checked rows to steps: places on a regular grid, or in uneven time one row after another.

What fits no grid is refused in words that name the two stamps.
"""

import sys
import warnings
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tsmamba.data.checks import Columns
from tsmamba.data.frequency import UNEVEN, Frequency
from tsmamba.data.infer import infer_frequency, neighbour_gaps, usual_gap, with_month_end
from tsmamba.errors import FrameError, FrameWarning, FrequencyError

_SERIES = "__series__"
_EVIDENCE = 3  # gaps after which a series that never makes a single step counts as coarser
_STEPS_PER_ROW = 100  # longest grid for each row of the frame, so that memory stays bounded ...
_ALWAYS_FINE = 1_000_000  # ... unless it has no more steps than this


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in order: series after series as they first appear, rising in time inside each.

    Parameters
    ----------
    frame : polars.DataFrame of n rows
        The rows.
    ids : polars.Series of length S
        Id of each series.
    starts : ndarray of shape (S,)
        First row of each series.
    columns : Columns
        Names of the columns.
    """

    frame: pl.DataFrame
    ids: pl.Series
    starts: np.ndarray
    columns: Columns

    @property
    def stamps(self) -> pl.Series:
        """Stamp of each row."""
        return self.frame.get_column(self.columns.time_col)

    @property
    def counts(self) -> np.ndarray:
        """Number of rows of each series, of shape (S,)."""
        counts: np.ndarray = np.diff(self.starts, append=self.frame.height)
        return counts

    @property
    def ends(self) -> np.ndarray:
        """Last row of each series, of shape (S,)."""
        ends: np.ndarray = self.starts + self.counts - 1
        return ends

    def name(self, series: int) -> str:
        """Name a series in a message."""
        return self.columns.name(self.ids[series])

    def own_frequency(self, series: int) -> Frequency | None:
        """Frequency that a series has by itself, if it has one."""
        stamps = self.stamps.slice(self.starts[series], self.counts[series])
        alone = np.zeros(1, np.int64)
        own = infer_frequency(stamps, alone)
        gaps = neighbour_gaps(own.line(stamps), alone)
        return None if (gaps % own.step_length(stamps.dtype)).any() else own

    def locate(self, gap: int) -> tuple[int, int]:
        """Series and later row of a gap, as `neighbour_gaps` numbers them."""
        # Every series has one gap fewer than rows.
        first_gaps = self.starts - np.arange(len(self.starts))
        series = int(np.searchsorted(first_gaps, gap, side="right")) - 1
        return series, gap + series + 1


@dataclass(frozen=True, eq=False)
class Grid:
    """Rows, and the step that each of them stands on.

    Parameters
    ----------
    rows : Rows
        The rows.
    freq : Frequency
        Their frequency.
    places : ndarray of shape (n,)
        Step number of each row inside its series, from 0.
    """

    rows: Rows
    freq: Frequency
    places: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Number of steps of each series, of shape (S,)."""
        lengths: np.ndarray = self.places[self.rows.ends] + 1
        return lengths


def lay_grid(
    frame: pl.DataFrame, columns: Columns, freq: str | int | Frequency | None = None
) -> Grid:
    """Sort rows, and find the step of the grid and the place of every row on it.

    In uneven time each row with a value is a step; rows without any are left out, so that they are
    nothing but time that passes.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows with checked ids and stamps.
    columns : Columns
        Its columns.
    freq : str, int or Frequency, optional
        The step, if the user knows it, or "uneven".

    Returns
    -------
    Grid
        The rows on their grid.

    Raises
    ------
    FrameError
        If a series has two rows at one stamp.
    FrequencyError
        If the stamps are not on one regular grid, or one too long for memory.
    ParameterError
        If `freq` makes no sense.

    Warns
    -----
    FrameWarning
        If rows had to be sorted.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=False, wide=False)
    >>> lay_grid(pl.DataFrame({"ds": [10, 12, 14, 18]}), columns).places
    array([0, 1, 2, 4])
    >>> lay_grid(pl.DataFrame({"ds": [10, 12, 14, 19]}), columns, "uneven").places
    array([0, 1, 2, 3])
    """
    unmeasured = isinstance(freq, str) and freq == UNEVEN
    given = None if freq is None or unmeasured else Frequency.of(freq)
    rows = _in_order(frame, columns)
    _check_duplicates(rows)
    if unmeasured or (given is not None and given.uneven):
        return _row_by_row(rows, given)
    return _on_grid(rows, given)


def _row_by_row(rows: Rows, given: Frequency | None) -> Grid:
    """Take each row with a value as a step; the usual gap is measured where it is not given."""
    rows = _with_values(rows)
    stamps = rows.stamps
    freq = usual_gap(stamps, rows.starts) if given is None else given
    freq.step_length(stamps.dtype)  # refuses stamps of another kind than those it was measured on
    return Grid(rows, freq, np.arange(len(stamps)) - np.repeat(rows.starts, rows.counts))


def _with_values(rows: Rows) -> Rows:
    """Leave out rows without a value, but for series that have none at all."""
    targets = [name for name in rows.columns.targets if name in rows.frame.columns]
    if not targets:
        return rows
    has_value = pl.any_horizontal(pl.col(targets).is_not_null())
    kept = rows.frame.select(has_value).to_series().to_numpy().copy()
    empty = ~np.logical_or.reduceat(kept, rows.starts)
    kept |= np.repeat(empty, rows.counts)
    counts = np.add.reduceat(kept, rows.starts, dtype=np.int64)
    return replace(rows, frame=rows.frame.filter(kept), starts=np.cumsum(counts) - counts)


def _on_grid(rows: Rows, given: Frequency | None) -> Grid:
    """Find the step where it is not given, and refuse rows that do not lie on its grid."""
    stamps = rows.stamps
    if given is None:
        freq = infer_frequency(stamps, rows.starts)
    else:
        freq = given if given.month_end else with_month_end(given, stamps)
    line, step = freq.line(stamps), freq.step_length(stamps.dtype)
    off_grid = neighbour_gaps(line, rows.starts) % step != 0
    if off_grid.any():
        raise _irregular(rows, freq, int(off_grid.argmax()), given)
    begins = line.gather(rows.starts).to_numpy()
    places = (line.to_numpy() - np.repeat(begins, rows.counts)) // step
    grid = Grid(rows, freq, places)
    if given is None:
        _check_coarse(grid)
    _check_size(grid)
    return grid


def _in_order(frame: pl.DataFrame, columns: Columns) -> Rows:
    """Sort by series and time; warn if a series stepped back in time."""
    first_row = pl.lit(0, pl.UInt32)
    if columns.id_given:
        first_row = pl.col(_SERIES).first().over(columns.id_col)
    frame = frame.with_row_index(_SERIES).with_columns(first_row.alias(_SERIES))
    if not frame.get_column(_SERIES).is_sorted():
        frame = frame.sort(_SERIES, maintain_order=True)
    series = frame.get_column(_SERIES).to_numpy().astype(np.int64)
    starts = np.flatnonzero(np.diff(series, prepend=-1))
    stamps = frame.get_column(columns.time_col)
    if (neighbour_gaps(stamps.to_physical().cast(pl.Int64), starts) < 0).any():
        warnings.warn(
            f"rows were not in order of {columns.time_col!r} and have been sorted; pass "
            f"df.sort({list(columns.keys)}) to avoid this warning",
            FrameWarning,
            stacklevel=_level_of_caller(),
        )
        frame = frame.sort(_SERIES, columns.time_col)
    ids = pl.Series(columns.id_col, ["series"])
    if columns.id_given:
        ids = frame.get_column(columns.id_col).gather(starts)
    return Rows(frame.drop(_SERIES), ids, starts, columns)


def _check_duplicates(rows: Rows) -> None:
    stamps, columns = rows.stamps, rows.columns
    repeated = neighbour_gaps(stamps.to_physical().cast(pl.Int64), rows.starts) == 0
    if not repeated.any():
        return
    series, row = rows.locate(int(repeated.argmax()))
    keys = list(columns.keys)
    several = "" if columns.id_given else "; if it holds several series, name their id with id_col="
    raise FrameError(
        f"{rows.name(series)} has more than one row at {columns.time_col}={stamps[row]} "
        f"({repeated.sum()} repeated rows in all); a series takes one row for each stamp: "
        f"df.unique(subset={keys}), in pandas df.drop_duplicates({keys}), or aggregate them"
        f"{several}"
    )


def _irregular(rows: Rows, freq: Frequency, gap: int, given: Frequency | None) -> FrequencyError:
    """Word the refusal of two neighbours that are no whole number of steps apart."""
    stamps, columns = rows.stamps, rows.columns
    series, row = rows.locate(gap)
    if given is None:
        own = rows.own_frequency(series)
        if own is not None:
            return _mixed(rows, freq, series, own)
    source = "given" if given else "the most common one"
    return FrequencyError(
        f"{rows.name(series)} goes from {columns.time_col}={stamps[row - 1]} to {stamps[row]}, "
        f"which is no whole number of steps of {freq.every!r} ({source}); "
        f"{_resample(freq, columns)}, pass freq={UNEVEN!r} to take each row as a step, or freq= "
        "if the true step is another"
    )


def _check_coarse(grid: Grid) -> None:
    """Refuse a series with a longer step than the rest, which would be mostly missing steps."""
    starts = grid.rows.starts
    if len(starts) == 1:
        return
    jumps = np.diff(grid.places, prepend=0)
    jumps[starts] = np.iinfo(np.int64).max
    coarse = (np.minimum.reduceat(jumps, starts) > 1) & (grid.rows.counts > _EVIDENCE)
    if coarse.any():
        series = int(coarse.argmax())
        own = grid.rows.own_frequency(series)
        if own is not None:
            raise _mixed(grid.rows, grid.freq, series, own)


def _mixed(rows: Rows, freq: Frequency, series: int, own: Frequency) -> FrequencyError:
    """Word the refusal of a series whose frequency is not that of the others."""
    stamps, columns = rows.stamps, rows.columns
    gaps = neighbour_gaps(freq.line(stamps), rows.starts)
    other, _ = rows.locate(int((gaps == freq.step_length(stamps.dtype)).argmax()))
    return FrequencyError(
        f"{rows.name(other)} steps by {freq.every!r} in column {columns.time_col!r}, and "
        f"{rows.name(series)} by {own.every!r}; all series need one frequency: use one frame for "
        f"each, {_resample(freq, columns)}, or pass freq= to read the coarser ones as gappy"
    )


def _check_size(grid: Grid) -> None:
    """Refuse a grid that is out of proportion to the data, as one stray stamp can make it."""
    rows, steps = grid.rows, grid.lengths.sum()
    if steps <= max(_ALWAYS_FINE, _STEPS_PER_ROW * rows.frame.height):
        return
    jumps = np.delete(np.diff(grid.places), rows.starts[1:] - 1)
    series, row = rows.locate(int(jumps.argmax()))
    raise FrequencyError(
        f"at steps of {grid.freq.every!r} the {rows.frame.height:,} rows need {steps:,} steps; "
        f"{rows.name(series)} alone jumps {jumps.max():,} steps from "
        f"{rows.columns.time_col}={rows.stamps[row - 1]} to {rows.stamps[row]}; remove a stray "
        "stamp, or pass a longer freq="
    )


def _resample(freq: Frequency, columns: Columns) -> str:
    group = f", group_by={columns.id_col!r}" if columns.id_given else ""
    every = f"{freq.every}i" if freq.is_integer else freq.every
    return (
        f"resample, e.g. df.group_by_dynamic({columns.time_col!r}, every={every!r}{group})"
        f".agg(pl.col({columns.targets[0]!r}).mean())"
    )


def _level_of_caller() -> int:
    """Return the stack level, seen from the caller, of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tsmamba."):
        level, frame = level + 1, frame.f_back
    return level
