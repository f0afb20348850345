"""Native data frames to polars, and polars back to the caller's own kind of frame.

Polars is the only frame the library computes with. pandas and pyarrow are reached through narwhals
and through methods of the objects the caller passed, never by import, so neither has to be
installed, and pandas frames work where pyarrow is absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl

from tsmamba.errors import FrameError

Library: TypeAlias = Literal["polars", "pandas", "pyarrow"]

_ACCEPTED = "a polars DataFrame or LazyFrame, a pandas DataFrame or a pyarrow Table"


@dataclass(frozen=True)
class FrameKind:
    """The kind of data frame a caller uses, so that answers come back in kind.

    Keep the one that `frame_kind` gives for the frame at hand; where that frame is long gone, as
    after loading a model, `FrameKind("pandas")` alone is enough.

    Parameters
    ----------
    library : {"polars", "pandas", "pyarrow"}
        Library of the frame.
    dtypes : mapping of str to object, optional
        The library's own type of each column, restored on columns of the same name.

    Examples
    --------
    >>> import polars as pl
    >>> frame_kind(pl.DataFrame({"y": [1.0]})).library
    'polars'
    """

    library: Library
    dtypes: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def frame_kind(df: Any) -> FrameKind:
    """Tell which library a frame comes from, and its column types there.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        The caller's frame.

    Returns
    -------
    FrameKind
        What `to_native` needs to answer in the same kind.

    Raises
    ------
    FrameError
        If `df` is not a data frame of one of these libraries.

    Examples
    --------
    >>> import polars as pl
    >>> frame_kind(pl.LazyFrame({"y": [1.0]}))
    FrameKind(library='polars')
    """
    frame = _open(df)
    if frame.implementation.is_polars():
        return FrameKind("polars")
    native = frame.to_native()
    if frame.implementation.is_pandas():
        return FrameKind("pandas", dict(native.dtypes))
    return FrameKind("pyarrow", dict(zip(native.schema.names, native.schema.types, strict=True)))


def column_names(df: Any) -> list[str]:
    """List the columns of a frame without reading any of it.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        The caller's frame.

    Returns
    -------
    list of str
        Column names in order.

    Raises
    ------
    FrameError
        If `df` is not a data frame, or names two columns alike.

    Examples
    --------
    >>> import polars as pl
    >>> column_names(pl.LazyFrame({"ds": [1], "y": [1.0]}))
    ['ds', 'y']
    """
    return _open(df).collect_schema().names()


def to_polars(df: Any, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Turn the caller's frame into a polars frame.

    Types are kept: time zones, time units, decimals, categories. A pandas index is ignored, and
    pandas' NaN in text columns becomes null. Lazy frames are collected.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        The caller's frame.
    columns : sequence of str, optional
        The columns to read; all by default.

    Returns
    -------
    polars.DataFrame
        The same rows.

    Raises
    ------
    FrameError
        If `df` is not a data frame, or a column is of a type that polars cannot hold.

    Examples
    --------
    >>> import polars as pl
    >>> to_polars(pl.LazyFrame({"ds": [1], "y": [1.0]}), columns=["y"]).shape
    (1, 1)
    """
    frame = _open(df)
    if columns is not None:
        frame = frame.select(*columns)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if frame.implementation.is_pandas():
        return pl.DataFrame([_from_pandas(series) for series in frame.iter_columns()])
    native = frame.to_native()
    return native if isinstance(native, pl.DataFrame) else pl.DataFrame(native)


def to_native(frame: pl.DataFrame, like: FrameKind) -> Any:
    """Turn a polars frame into the caller's kind of frame.

    Parameters
    ----------
    frame : polars.DataFrame
        The answer.
    like : FrameKind
        Kind of the frame that came in. Its column types are restored on columns of the same name,
        except where the answer holds floating point numbers.

    Returns
    -------
    polars.DataFrame, pandas.DataFrame or pyarrow.Table
        The same rows; pandas frames get a plain range index.

    Examples
    --------
    >>> import polars as pl
    >>> to_native(pl.DataFrame({"y": [1.0]}), FrameKind("pandas"))
         y
    0  1.0
    """
    if like.library == "polars":
        return frame
    restored = {
        name: like.dtypes[name]
        for name, dtype in frame.schema.items()
        if name in like.dtypes and not dtype.is_float()
    }
    if like.library == "pandas":
        out = _to_pandas(frame)
        return out.astype(restored) if restored else out
    # Arrow casts text to any dictionary type, but not one dictionary type to another.
    plain = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    table = plain.to_arrow()
    for name, dtype in restored.items():
        table = table.set_column(
            table.column_names.index(name), name, table.column(name).cast(dtype)
        )
    return table


def _open(df: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    """Wrap a frame of an accepted library, or say what would be accepted."""
    try:
        frame = nw.from_native(df, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise FrameError(f"two columns of the frame share a name; rename one: {error}") from None
    if isinstance(frame, nw.DataFrame | nw.LazyFrame):
        kind = frame.implementation
        if kind.is_polars() or kind.is_pandas() or kind.is_pyarrow():
            return frame
    given = f"{type(df).__module__.split('.')[0]}.{type(df).__qualname__}".removeprefix("builtins.")
    hint = ""
    if isinstance(df, str):
        hint = ", e.g. pl.read_parquet(path) or pl.read_csv(path, try_parse_dates=True)"
    elif isinstance(df, list | tuple | np.ndarray) or hasattr(df, "to_numpy"):
        hint = ', e.g. pl.DataFrame({"ds": range(len(y)), "y": y})'
    raise FrameError(f"expected {_ACCEPTED}, got {given}; build a frame first{hint}")


def _from_pandas(series: nw.Series[Any]) -> pl.Series:
    """Convert one pandas column, without pyarrow."""
    name, dtype, native = series.name, series.dtype, series.to_native()
    try:
        if isinstance(dtype, nw.Datetime):
            return _stamps_from_pandas(series, dtype)
        if isinstance(dtype, nw.Categorical | nw.Enum):
            labels = pl.Series(name, native.cat.categories.tolist())
            codes = pl.Series(native.cat.codes.to_numpy()).cast(pl.Int64)
            values = labels.gather(codes.set(codes < 0, None))
            return values.cast(pl.Categorical) if values.dtype == pl.String else values
        if isinstance(native.dtype, np.dtype) and dtype.is_numeric():
            return pl.Series(name, native.to_numpy())
        items = [
            None if missing else value
            for value, missing in zip(native.tolist(), native.isna().tolist(), strict=True)
        ]
        known = dtype.is_numeric() or isinstance(dtype, nw.String | nw.Boolean)
        target = getattr(pl, type(dtype).__name__) if known and dtype != nw.Decimal else None
        if _mixed_numbers(items):
            target, items = pl.Float64, [None if item is None else float(item) for item in items]
        column = pl.Series(name, items, dtype=target)
        if column.dtype == pl.Object:
            raise TypeError(f"it holds {type(items[0]).__name__} objects")
        return column
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise FrameError(
            f"column {name!r} of dtype {native.dtype} cannot be read ({reason}); convert it to "
            "numbers, text, dates or stamps first"
        ) from None


def _mixed_numbers(items: list[Any]) -> bool:
    """Tell whole numbers among fractions, as JSON brings them, which polars does not take."""
    kinds = {type(item) for item in items if item is not None}
    return len(kinds) > 1 and bool not in kinds and all(issubclass(kind, Real) for kind in kinds)


def _stamps_from_pandas(series: nw.Series[Any], dtype: nw.Datetime) -> pl.Series:
    """Convert a pandas time stamp column; polars has no seconds, so those become milliseconds."""
    unit = "ms" if dtype.time_unit == "s" else dtype.time_unit
    # narwhals gives zoned stamps as naive ones in UTC
    utc = pl.Series(series.name, series.to_numpy().astype(f"datetime64[{unit}]"))
    if dtype.time_zone is None:
        return utc
    return utc.dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)


def _to_pandas(frame: pl.DataFrame) -> Any:
    """Convert to pandas, without pyarrow."""
    columns: dict[str, Any] = {}
    zones: dict[str, str] = {}
    for series in frame.iter_columns():
        if isinstance(series.dtype, pl.Datetime):
            if series.dtype.time_zone is not None:
                zones[series.name] = series.dtype.time_zone
            # numpy's NaT is the least integer.
            ticks = series.to_physical().fill_null(np.iinfo(np.int64).min).to_numpy()
            columns[series.name] = ticks.view(f"datetime64[{series.dtype.time_unit}]")
        elif series.dtype.is_numeric() and not series.dtype.is_decimal():
            columns[series.name] = series.to_numpy()
        else:
            columns[series.name] = series.to_list()
    out = nw.DataFrame.from_dict(columns, backend="pandas")
    if zones:
        out = out.with_columns(
            nw.col(name).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
            for name, zone in zones.items()
        )
    return out.to_native()
