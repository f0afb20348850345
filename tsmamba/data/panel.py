"""One compact panel of many series, and the way from a user frame to it.

A panel stores series after series in one float32 array without any padding. Inside it every series
is univariate: a wide frame with several target columns becomes one inner series for each pair of id
and target, the targets of an id side by side and equally long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.checks import Columns, check_keys, check_targets, listing, resolve_columns
from tsmamba.data.frame import column_names, to_polars
from tsmamba.data.frequency import Frequency
from tsmamba.data.grid import Grid, lay_grid
from tsmamba.data.stamps import Stamps
from tsmamba.errors import FrameError, HorizonError, SeriesTooShortError

_CONSTANT_SCALE = 1e-3  # scale of a constant series, as a part of its value


@dataclass(frozen=True, eq=False)
class Panel:
    """Many series on one regular time grid or in uneven time, standardised, stored end to end.

    `read_panel` makes one from a data frame.

    Parameters
    ----------
    values : ndarray of shape (total,), float32
        ``(y - loc) / scale`` of every step; NaN where a value is missing.
    offsets : ndarray of shape (S + 1,), int64
        Series ``s`` is ``values[offsets[s]:offsets[s + 1]]``.
    loc, scale : ndarray of shape (S,), float64
        Mean and standard deviation of each series; the scale is above 0 for constant ones, too.
    ids : polars.Series of length S
        Id of each series, in the user's type.
    targets : tuple of str of length S
        Target column of each series.
    first, last : polars.Series of length S
        First and last stamp of each series, in the user's type.
    freq : Frequency
        The step of time, or the usual gap.
    columns : Columns
        Names of the user's columns.
    numbers : ndarray of shape (S,), int64
        Number of each series in the scaling that the panel was read with, -1 where it is not in
        there; without one, the series are numbered as they come.
    stamps : Stamps, optional
        Stamps of the steps in uneven time; on a grid the first one and the step tell them.
    weights : ndarray of shape (total,), float32, optional
        Weight of every step, 0 where the user's frame has no row; `read_weights` adds them.

    Examples
    --------
    >>> import polars as pl
    >>> panel = read_panel(pl.DataFrame({"ds": [1, 2, 4], "y": [1.0, 3.0, 5.0]}))
    >>> panel.restored(0).round(3)
    array([ 1.,  3., nan,  5.])
    """

    values: np.ndarray
    offsets: np.ndarray
    loc: np.ndarray
    scale: np.ndarray
    ids: pl.Series
    targets: tuple[str, ...]
    first: pl.Series
    last: pl.Series
    freq: Frequency
    columns: Columns
    numbers: np.ndarray
    stamps: Stamps | None = None
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def continued(self, values: np.ndarray) -> "Panel":
        """Return the panel with more steps behind each series.

        Parameters
        ----------
        values : ndarray of shape (S, H)
            Standardised values of them.

        Returns
        -------
        Panel
            Without weights.

        Examples
        --------
        >>> import polars as pl
        >>> panel = read_panel(pl.DataFrame({"ds": [1, 2], "y": [5.0, 7.0]}))
        >>> panel.continued(np.array([[0.0]])).restored(0)
        array([5., 7., 6.])
        """
        steps = values.shape[1]
        ends = np.repeat(self.offsets[1:], steps)
        return replace(
            self,
            values=np.insert(self.values, ends, values.ravel().astype(np.float32)),
            offsets=self.offsets + steps * np.arange(len(self.offsets)),
            last=self.freq.shift(self.last, pl.Series(np.full(len(self), steps))),
            stamps=None if self.stamps is None else self.stamps.continued(steps),
            weights=None,
        )

    def stamps_at(self, series: np.ndarray, steps: np.ndarray) -> pl.Series:
        """Return the stamps of steps, which may lie beyond the ends of their series.

        Parameters
        ----------
        series, steps : int ndarray of shape (n,)
            Number of the series, and steps since its first.

        Returns
        -------
        polars.Series of length n
            In the user's type.

        Examples
        --------
        >>> frame = pl.DataFrame({"ds": [1, 2, 4, 9], "y": [1.0, 2.0, 3.0, 4.0]})
        >>> series, steps = np.zeros(3, np.int64), np.array([2, 3, 4])
        >>> read_panel(frame).stamps_at(series, steps).to_list()
        [3, 4, 5]
        >>> read_panel(frame, freq="uneven").stamps_at(series, steps).to_list()
        [4, 9, 11]
        """
        if self.stamps is not None:
            return self.stamps.at(series, steps)
        return self.freq.shift(self.first.gather(series), pl.Series(steps))

    def steps_at(self, series: np.ndarray, stamps: pl.Series) -> np.ndarray:
        """Undo `stamps_at`: the step that each stamp stands for, negative where there is none."""
        if self.stamps is not None:
            return self.stamps.steps(series, stamps)
        return self.freq.steps_between(self.first.gather(series), stamps).fill_null(-1).to_numpy()

    def times_at(self, series: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the time from the first stamp to steps, in steps or usual gaps."""
        return steps if self.stamps is None else self.stamps.times(series, steps)

    @property
    def lengths(self) -> np.ndarray:
        """Number of steps of each series, missing ones included, of shape (S,)."""
        lengths: np.ndarray = np.diff(self.offsets)
        return lengths

    def restored(self, series: int) -> np.ndarray:
        """Give a series on its original scale.

        Parameters
        ----------
        series : int
            Its number, from 0 to S - 1.

        Returns
        -------
        ndarray of shape (steps,), float64
            Values as the user gave them, NaN where missing.

        Examples
        --------
        >>> import polars as pl
        >>> read_panel(pl.DataFrame({"ds": [1, 2], "y": [5, 7]})).restored(0)
        array([5., 7.])
        """
        part = self.values[self.offsets[series] : self.offsets[series + 1]]
        restored: np.ndarray = part * self.scale[series] + self.loc[series]
        return restored


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and scale of series that a model was fitted on, so that later rows get the same.

    Parameters
    ----------
    ids, targets, loc, scale
        As in `Panel`.
    """

    ids: pl.Series
    targets: tuple[str, ...]
    loc: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, panel: Panel) -> "Scaling":
        """Return that of a panel."""
        return cls(panel.ids, panel.targets, panel.loc, panel.scale)


def read_panel(
    df: Any,
    *,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str | Sequence[str] = "y",
    freq: str | int | Frequency | None = None,
    min_length: int = 1,
    require_targets: bool = True,
    scaling: Scaling | Panel | None = None,
) -> Panel:
    """Check a user frame and turn it into a panel.

    Missing stamps inside a series, null and NaN values become missing steps. In uneven time each
    row is a step, and rows without any value are left out. Series keep the order in which they
    first appear; rows that step back in time are sorted, with one warning.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        One row for each series and stamp. Without the column "unique_id" it is one series.
    id_col, time_col : str
        Columns of the ids and of the stamps: dates, date-times or integers.
    target_col : str or sequence of str, default "y"
        Column of the values, or columns of a wide frame.
    freq : str, int or Frequency, optional
        The step, such as "1h" or 1; found by default. "uneven" takes each row as a step, whatever
        its distance in time.
    min_length : int, default 1
        Least number of steps of a series.
    require_targets : bool, default True
        Whether target columns must be there and hold a value in every series.
    scaling : Scaling or Panel, optional
        Take mean and scale of a series from here where it is known here.

    Returns
    -------
    Panel
        All series of the frame.

    Raises
    ------
    FrameError
        If the frame cannot be used as it is.
    FrequencyError
        If its stamps are not on one regular grid.
    SeriesTooShortError
        If a series has fewer than `min_length` steps.
    ParameterError
        If `freq` or the column names make no sense.

    Warns
    -----
    FrameWarning
        If rows had to be sorted.

    Examples
    --------
    >>> frame = pl.DataFrame({"unique_id": ["a", "a", "b"], "ds": [1, 2, 1], "y": [1, 3, 5]})
    >>> panel = read_panel(frame)
    >>> panel.offsets
    array([0, 2, 3])
    """
    columns = resolve_columns(df, id_col, time_col, target_col, require_targets=require_targets)
    present = set(column_names(df))
    frame = to_polars(df, [name for name in columns.read if name in present])
    check_keys(frame, columns)
    grid = lay_grid(check_targets(frame, columns), columns, freq)
    lengths = grid.lengths
    if (lengths < min_length).any():
        raise _too_short(grid.rows.ids, lengths, min_length, columns)

    inner = np.repeat(np.arange(len(grid.rows.ids)), len(columns.targets))
    offsets = np.concatenate([[0], np.cumsum(lengths[inner])])
    raw = _scatter(grid, columns, offsets)
    loc, scale, seen = _moments(raw, offsets)
    stamps = grid.rows.stamps
    ids = grid.rows.ids.gather(inner)
    targets = columns.targets * len(grid.rows.ids)
    if require_targets and not seen.all():
        raise _all_missing(ids, targets, seen, columns)
    numbers = np.arange(len(ids))
    if scaling is not None:
        loc, scale, numbers = _known_scaling(scaling, ids, targets, loc, scale)
    steps = np.diff(offsets)
    raw -= np.repeat(loc, steps)
    raw /= np.repeat(scale, steps)
    return Panel(
        values=raw.astype(np.float32),
        offsets=offsets,
        loc=loc,
        scale=scale,
        ids=ids,
        targets=targets,
        first=stamps.gather(grid.rows.starts[inner]),
        last=stamps.gather(grid.rows.ends[inner]),
        freq=grid.freq,
        columns=columns,
        numbers=numbers,
        stamps=_stamps(grid, inner, offsets) if grid.freq.uneven else None,
    )


def future_frame(panel: Panel, horizon: int, *, by_target: bool = True) -> pl.DataFrame:
    """List the stamps that follow each series.

    Parameters
    ----------
    panel : Panel
        The series.
    horizon : int
        Number of steps, at least 1.
    by_target : bool, default True
        Whether a wide frame gets a row for each of its targets; otherwise one for all of them, as
        in the frame it came from.

    Returns
    -------
    polars.DataFrame of S * horizon rows
        The user's id and time columns, and the column "target" for a wide frame by target; all
        steps of the first series, then of the second, and so on.

    Raises
    ------
    HorizonError
        If `horizon` is below 1.
    FrequencyError
        If the type of the stamps cannot hold the result.

    Examples
    --------
    >>> panel = read_panel(pl.DataFrame({"ds": [1, 2, 4], "y": [1.0, 3.0, 5.0]}))
    >>> future_frame(panel, 2)["ds"].to_list()
    [5, 6]
    """
    if horizon < 1:
        raise HorizonError(f"horizon={horizon} asks for no step; it takes whole numbers from 1 on")
    columns = panel.columns
    listed = np.arange(0, len(panel), 1 if by_target else len(columns.targets))
    series = np.repeat(listed, horizon)
    out = [panel.freq.future(panel.last.gather(listed), horizon).alias(columns.time_col)]
    if columns.id_given:
        out.insert(0, panel.ids.gather(series).alias(columns.id_col))
    if columns.wide and by_target:
        out.append(pl.Series("target", panel.targets).gather(series))
    return pl.DataFrame(out)


def panel_frame(panel: Panel, begin: np.ndarray, end: np.ndarray) -> pl.DataFrame:
    """Give stretches of the series back as a frame like the one they were read from.

    Parameters
    ----------
    panel : Panel
        The series.
    begin, end : int ndarray of shape (S,)
        First step of each series to give, and the step after the last.

    Returns
    -------
    polars.DataFrame
        The user's id, time and target columns; missing steps are rows with NaN.

    Examples
    --------
    >>> panel = read_panel(pl.DataFrame({"ds": [1, 2, 4], "y": [1.0, 3.0, 5.0]}))
    >>> panel_frame(panel, np.array([1]), panel.lengths)["ds"].to_list()
    [2, 3, 4]
    """
    columns = panel.columns
    width = len(columns.targets)
    lead = np.arange(0, len(panel), width)  # the series of the first target of each id
    counts = (end - begin)[lead]
    series = np.repeat(lead, counts)
    steps = np.arange(len(series)) - np.repeat(np.cumsum(counts) - counts - begin[lead], counts)
    out = [panel.stamps_at(series, steps).alias(columns.time_col)]
    if columns.id_given:
        out.insert(0, panel.ids.gather(series).alias(columns.id_col))
    for number, target in enumerate(columns.targets):
        one = series + number
        values = panel.values[panel.offsets[one] + steps] * panel.scale[one] + panel.loc[one]
        out.append(pl.Series(target, values))
    return pl.DataFrame(out)


def _scatter(grid: Grid, columns: Columns, offsets: np.ndarray) -> np.ndarray:
    """Put every value on its step; steps without one stay NaN."""
    raw = np.full(offsets[-1], np.nan)
    width = len(columns.targets)
    for number, target in enumerate(columns.targets):
        if target in grid.rows.frame.columns:
            begins = np.repeat(offsets[:-1][number::width], grid.rows.counts)
            raw[begins + grid.places] = grid.rows.frame.get_column(target).to_numpy()
    return raw


def _stamps(grid: Grid, inner: np.ndarray, offsets: np.ndarray) -> Stamps:
    """Give each inner series the stamps of the rows of its id."""
    shift = np.repeat(grid.rows.starts[inner] - offsets[:-1], np.diff(offsets))
    rows = np.arange(offsets[-1]) + shift
    return Stamps(grid.rows.stamps.gather(rows), offsets, grid.freq)


def _moments(raw: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation and presence of values of each series, safe for any magnitude."""
    begins, steps = offsets[:-1], np.diff(offsets)
    missing = np.isnan(raw)
    count = steps - np.add.reduceat(missing, begins, dtype=np.int64)
    seen = count > 0
    count = np.maximum(count, 1)
    # Dividing before adding keeps sums of huge values finite.
    loc = np.add.reduceat(np.where(missing, 0.0, raw / np.repeat(count, steps)), begins)
    low, high = np.fmin.reduceat(raw, begins), np.fmax.reduceat(raw, begins)
    constant = low == high
    loc[constant] = low[constant]
    away = np.where(missing, 0.0, raw - np.repeat(loc, steps))
    peak = np.maximum.reduceat(np.abs(away), begins)
    peak[peak == 0] = 1.0
    away /= np.repeat(peak, steps)
    scale = peak * np.sqrt(np.add.reduceat(away * away, begins) / count)
    scale[constant] = _CONSTANT_SCALE * np.abs(loc[constant])
    scale[scale == 0] = 1.0
    return loc, np.maximum(scale, np.finfo(np.float64).tiny), seen


def _known_scaling(
    known: Scaling | Panel,
    ids: pl.Series,
    targets: tuple[str, ...],
    loc: np.ndarray,
    scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and scale of each series from `known`, or its own where it is not there; its number."""
    table = pl.DataFrame(
        {"id": known.ids, "target": known.targets, "loc": known.loc, "scale": known.scale}
    ).with_row_index("number")
    own = pl.DataFrame({"id": ids.cast(known.ids.dtype, strict=False), "target": targets})
    found = own.join(table, on=["id", "target"], how="left", maintain_order="left")
    return (
        found.get_column("loc").fill_null(pl.Series(loc)).to_numpy(),
        found.get_column("scale").fill_null(pl.Series(scale)).to_numpy(),
        found.get_column("number").cast(pl.Int64).fill_null(-1).to_numpy(writable=True),
    )


def _too_short(
    ids: pl.Series, lengths: np.ndarray, min_length: int, columns: Columns
) -> SeriesTooShortError:
    short = np.flatnonzero(lengths < min_length)
    named = listing(ids.gather(short).to_list())
    who = f"{len(short)} of {len(ids)} series ({named})" if columns.id_given else "the series"
    least, most = lengths[short].min(), lengths[short].max()
    span = f"{least}" if least == most else f"{least} to {most}"
    drop = ""
    if columns.id_given:
        drop = f": df.filter(pl.len().over({columns.id_col!r}) >= {min_length}) drops them"
    return SeriesTooShortError(
        f"{who} too short: {span} steps, and at least {min_length} are needed; give longer "
        f"history, ask for a shorter horizon or context, or leave such series out{drop}"
    )


def _all_missing(
    ids: pl.Series, targets: tuple[str, ...], seen: np.ndarray, columns: Columns
) -> FrameError:
    empty = np.flatnonzero(~seen)
    series = int(empty[0])
    more = f" ({len(empty)} such series in all)" if len(empty) > 1 else ""
    return FrameError(
        f"column {targets[series]!r} of {columns.name(ids[series])} holds missing values only"
        f"{more}; every series needs at least one number: leave such series out"
    )
