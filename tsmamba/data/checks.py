"""Every check on the columns of a user frame, and the words of every refusal."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import polars as pl

from tsmamba.data.frame import column_names
from tsmamba.errors import FrameError, ParameterError

DEFAULT_ID = "unique_id"
SHOWN = 5  # how many offenders a message names
SHOWN_COLUMNS = 20


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a long frame.

    Parameters
    ----------
    id_col, time_col : str
        Columns of the series ids and of the time stamps.
    targets : tuple of str
        Columns of the values.
    id_given : bool
        Whether the frame has the id column; one without is a single series.
    wide : bool
        Whether the user named a list of target columns.

    Examples
    --------
    >>> Columns("unique_id", "ds", ("y",), id_given=False, wide=False).read
    ('ds', 'y')
    """

    id_col: str
    time_col: str
    targets: tuple[str, ...]
    id_given: bool
    wide: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that together name a row."""
        return (self.id_col, self.time_col) if self.id_given else (self.time_col,)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns to read from the frame."""
        return (*self.keys, *self.targets)

    def name(self, series_id: Any) -> str:
        """Name a series in a message."""
        return f"series {series_id!r}" if self.id_given else "the series"


def resolve_columns(
    df: Any, id_col: str, time_col: str, target_col: str | Sequence[str], *, require_targets: bool
) -> Columns:
    """Find the columns a user named in the frame.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        The user's frame.
    id_col, time_col : str
        Names of the id and time columns.
    target_col : str or sequence of str
        Name of the value column, or names of several in a wide frame.
    require_targets : bool
        Whether a frame without the target columns is an error.

    Returns
    -------
    Columns
        The names.

    Raises
    ------
    FrameError
        If a column is not in the frame.
    ParameterError
        If the names themselves make no sense.

    Examples
    --------
    >>> resolve_columns(
    ...     pl.DataFrame({"ds": [1], "y": [2.0]}), "unique_id", "ds", "y", require_targets=True
    ... )
    Columns(id_col='unique_id', time_col='ds', targets=('y',), id_given=False, wide=False)
    """
    wide = not isinstance(target_col, str)
    targets = tuple(target_col) if wide else (str(target_col),)
    named = (id_col, time_col, *targets)
    if not targets or not all(isinstance(name, str) for name in named):
        raise ParameterError(
            "id_col, time_col and target_col take column names, and target_col a list of at least "
            f"one; got {id_col!r}, {time_col!r}, {target_col!r}"
        )
    if len(set(named)) < len(named) or (wide and "target" in (id_col, time_col)):
        raise ParameterError(
            f"id_col={id_col!r}, time_col={time_col!r} and target_col={target_col!r} must be "
            "different columns, and 'target' names a column of the answer for a wide frame"
        )
    present = column_names(df)
    if time_col not in present:
        raise _missing("time_col", time_col, present, _index_hint(df, time_col))
    id_given = id_col in present
    if not id_given and id_col != DEFAULT_ID:
        raise _missing("id_col", id_col, present, _index_hint(df, id_col))
    for target in targets if require_targets else ():
        if target not in present:
            raise _missing("target_col", target, present, "")
    return Columns(id_col, time_col, targets, id_given, wide)


def check_keys(frame: pl.DataFrame, columns: Columns) -> None:
    """Refuse ids and time stamps of an unusable type, and missing ones.

    Parameters
    ----------
    frame : polars.DataFrame
        The user's frame.
    columns : Columns
        Its columns.

    Raises
    ------
    FrameError
        Naming the column, the series where there is one, and the repair.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=False, wide=False)
    >>> check_keys(pl.DataFrame({"ds": [1, 2]}), columns)
    """
    if frame.height == 0:
        raise FrameError("the frame has no rows; give at least one series of values")
    time = frame.get_column(columns.time_col)
    name = columns.time_col
    if columns.id_given:
        ids = frame.get_column(columns.id_col)
        _refuse_missing(frame, columns, ids.name, "id")
        if ids.dtype.is_float() or ids.dtype.is_nested() or ids.dtype == pl.Object:
            raise FrameError(
                f"id column {ids.name!r} is of type {ids.dtype}; text, integers or categories are "
                f"accepted: pl.col({ids.name!r}).cast(pl.String)"
            )
    if time.dtype == pl.String:
        sample = time.drop_nulls().first()
        raise FrameError(
            f"time column {name!r} holds text such as {sample!r}; dates, date-times or integers "
            f"are accepted: parse it with pl.col({name!r}).str.to_datetime(), "
            f"in pandas pd.to_datetime(df[{name!r}])"
        )
    if time.dtype.is_float():
        raise FrameError(
            f"time column {name!r} is of type {time.dtype}; dates, date-times or integers are "
            f"accepted: pl.col({name!r}).cast(pl.Int64) for step numbers, "
            f"pl.from_epoch({name!r}) for seconds since 1970"
        )
    usable = time.dtype.is_integer() or isinstance(time.dtype, pl.Date | pl.Datetime | pl.Null)
    if not usable:
        raise FrameError(
            f"time column {name!r} is of type {time.dtype}; dates, date-times or integers are "
            "accepted"
        )
    _refuse_missing(frame, columns, name, "time stamp")
    if time.dtype.is_integer() and time.cast(pl.Int64, strict=False).null_count():
        raise FrameError(f"time column {name!r} of type {time.dtype} holds stamps beyond Int64")


def check_targets(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Refuse values that are no finite numbers, and turn the rest into Float64 with nulls.

    Parameters
    ----------
    frame : polars.DataFrame
        The user's frame.
    columns : Columns
        Its columns.

    Returns
    -------
    polars.DataFrame
        The frame with Float64 targets; NaN has become null.

    Raises
    ------
    FrameError
        Naming the column, the first offending value, its series and its stamp.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=False, wide=False)
    >>> check_targets(pl.DataFrame({"ds": [1, 2], "y": [1, None]}), columns)["y"].to_list()
    [1.0, None]
    """
    present = [target for target in columns.targets if target in frame.columns]
    for target in present:
        values = frame.get_column(target)
        if not values.dtype.is_numeric() and values.dtype != pl.Null:
            raise _not_numeric(frame, columns, values)
    frame = frame.with_columns(pl.col(present).cast(pl.Float64).fill_nan(None))
    for target in present:
        refuse_infinite(frame, columns, target)
    return frame


def check_weights(frame: pl.DataFrame, columns: Columns, name: str) -> None:
    """Refuse sample weights that are no finite numbers from 0 on.

    Parameters
    ----------
    frame : polars.DataFrame
        The user's frame.
    columns : Columns
        Its columns.
    name : str
        Column of the weights.

    Raises
    ------
    FrameError
        Naming the column, the first offending value, its series and its stamp.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=False, wide=False)
    >>> check_weights(pl.DataFrame({"ds": [1, 2], "w": [0.0, 1.5]}), columns, "w")
    """
    weights = frame.get_column(name)
    accepted = "finite numbers from 0 on are accepted"
    if not weights.dtype.is_numeric():
        raise FrameError(
            f"weight column {name!r} is of type {weights.dtype}; {accepted}: "
            f"pl.col({name!r}).cast(pl.Float64)"
        )
    numbers = weights.cast(pl.Float32)
    refused = ~((numbers >= 0) & numbers.is_finite()).fill_null(value=False)
    if refused.any():
        row = refused.arg_max() or 0
        given = "missing" if numbers[row] is None else numbers[row]
        raise FrameError(
            f"weight column {name!r} of {where(frame, columns, row)} is {given} "
            f"({refused.sum()} such values in all); {accepted}: give weight 0 to what should not "
            "count"
        )
    if not (numbers > 0).any():
        raise FrameError(
            f"weight column {name!r} holds no weight above 0; give one to what should count"
        )


def refuse_infinite(frame: pl.DataFrame, columns: Columns, name: str) -> None:
    """Refuse infinite numbers.

    Parameters
    ----------
    frame : polars.DataFrame
        The user's frame.
    columns : Columns
        Its columns.
    name : str
        A column of numbers.

    Raises
    ------
    FrameError
        Naming the column, the series and the stamp of the first.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=False, wide=False)
    >>> refuse_infinite(pl.DataFrame({"ds": [1, 2], "y": [1.0, None]}), columns, "y")
    """
    infinite = frame.get_column(name).is_infinite().fill_null(value=False)
    if infinite.any():
        row = infinite.arg_max() or 0
        raise FrameError(
            f"column {name!r} of {where(frame, columns, row)} is infinite "
            f"({infinite.sum()} such values in all); finite numbers and missing values are "
            f"accepted: pl.when(pl.col({name!r}).is_finite()).then({name!r}) makes it "
            "missing"
        )


def where(frame: pl.DataFrame, columns: Columns, row: int) -> str:
    """Name the series and the stamp of a row in a message.

    Parameters
    ----------
    frame : polars.DataFrame
        The user's frame.
    columns : Columns
        Its columns.
    row : int
        Number of the row.

    Returns
    -------
    str
        For example "series 'a' at ds=7".

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=True, wide=False)
    >>> where(pl.DataFrame({"unique_id": ["a"], "ds": [7]}), columns, 0)
    "series 'a' at ds=7"
    """
    series_id = frame.item(row, columns.id_col) if columns.id_given else None
    stamp = frame.item(row, columns.time_col)
    return f"{columns.name(series_id)} at {columns.time_col}={stamp}"


def listing(names: Sequence[Any], most: int = SHOWN) -> str:
    """Name the first few of many in a message.

    Parameters
    ----------
    names : sequence
        All of them.
    most : int
        How many to name.

    Returns
    -------
    str
        For example "'a', 'b' and 7 more".

    Examples
    --------
    >>> listing(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _refuse_missing(frame: pl.DataFrame, columns: Columns, name: str, what: str) -> None:
    missing = frame.get_column(name).is_null()
    if not missing.any():
        return
    row = missing.arg_max() or 0
    owner = ""
    if name != columns.id_col and columns.id_given:
        owner = f", the first in {columns.name(frame.item(row, columns.id_col))}"
    raise FrameError(
        f"{missing.sum()} of {frame.height} rows have no {what} in column {name!r} "
        f"(row {row}{owner}); every row needs one: drop them with df.drop_nulls({name!r}), in "
        f"pandas df.dropna(subset=[{name!r}])"
    )


def _not_numeric(frame: pl.DataFrame, columns: Columns, values: pl.Series) -> FrameError:
    """Word the refusal of a target that holds no numbers."""
    name = values.name
    offending = values.is_not_null()
    repair = "convert it to numbers first"
    if values.dtype == pl.String:
        unreadable = offending & values.str.strip_chars().cast(pl.Float64, strict=False).is_null()
        offending = unreadable if unreadable.any() else offending
        repair = f"pl.col({name!r}).cast(pl.Float64), in pandas pd.to_numeric(df[{name!r}])"
    elif values.dtype == pl.Boolean:
        repair = f"pl.col({name!r}).cast(pl.Int8) if 0 and 1 are meant"
    row = offending.arg_max() or 0
    return FrameError(
        f"target column {name!r} is of type {values.dtype}, first {values[row]!r} in "
        f"{where(frame, columns, row)}; numbers are accepted: {repair}"
    )


def _missing(parameter: str, name: str, present: Sequence[Any], hint: str) -> FrameError:
    """Word the refusal of a frame without a column."""
    by_lower = {str(column).lower(): str(column) for column in present}
    close = get_close_matches(name.lower(), by_lower, n=1)
    if not hint:
        guess = f"; did you mean {parameter}={by_lower[close[0]]!r}?" if close else ""
        hint = guess or f"; name the column with {parameter}="
    return FrameError(
        f"the frame has no column {name!r}, only {listing(present, SHOWN_COLUMNS)}{hint}"
    )


def _index_hint(df: Any, name: str) -> str:
    """Notice a column that a pandas user left in the index, or the dates there."""
    index = getattr(df, "index", None)
    if name in (getattr(index, "names", None) or ()):
        return f"; {name!r} is in the index: call df.reset_index()"
    if name and type(index).__name__ in ("DatetimeIndex", "PeriodIndex"):
        return f"; the index holds dates: call df.rename_axis({name!r}).reset_index()"
    return ""
