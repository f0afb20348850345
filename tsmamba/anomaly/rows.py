"""What users pass as X, as rows of numbers in the order of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from sklearn.utils.validation import check_array

from tsmamba.data.frame import column_names, to_polars
from tsmamba.errors import FrameError, ParameterError


@dataclass(frozen=True)
class Rows:
    """Rows of a series.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_channels), float64
        NaN where missing.
    names : list of str or None
        Names of the channels, where X was a frame.
    times : polars.Series or None
        Time of each row, never decreasing, where there is a time column.
    """

    values: np.ndarray
    names: list[str] | None = None
    times: pl.Series | None = None


def read_rows(
    X: Any,
    time_col: str = "ds",
    id_col: str = "unique_id",
    channels: Sequence[str] | None = None,
) -> Rows:
    """Read an array or a frame.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_channels), or polars, pandas or pyarrow frame
        Rows in the order of time; numbers, NaN where missing.
    time_col : str
        Column of a frame that holds times; it may be absent.
    id_col : str
        Column of a frame that holds the id of its one series; it may be absent.
    channels : sequence of str, optional
        Columns a frame must have; all but those two by default.

    Returns
    -------
    Rows

    Raises
    ------
    FrameError
        If a frame holds other columns, text, infinities, or times that go backwards.
    ValueError
        If an array is not two-dimensional, empty, or holds infinities or text.
    """
    if not _is_frame(X):
        values = check_array(X, dtype=np.float64, ensure_all_finite=False, input_name="X")
        _refuse_infinite(values, None)
        return Rows(values)
    columns = column_names(X)
    names = [name for name in columns if name not in (time_col, id_col)]
    if channels is not None:
        _refuse_other_columns(names, channels)
        names = list(channels)
    if not names:
        raise FrameError(
            f"the frame has the columns {columns}, none of them a channel; add a numeric one"
        )
    frame = to_polars(X)
    if id_col in columns and frame[id_col].n_unique() > 1:
        raise FrameError(
            f"column {id_col!r} holds {frame[id_col].n_unique()} series; a detector takes one: "
            "filter the frame, or fit on one and score the others with stream(key)"
        )
    for name in names:
        dtype = frame.schema[name]
        if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
            hint = f"; pass time_col={name!r} if it is the time" if dtype.is_temporal() else ""
            raise FrameError(
                f"column {name!r} is {dtype}, channels are numbers; drop it or encode it{hint}"
            )
    values = frame.select(pl.col(names).cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    if not len(values):
        raise FrameError("the frame has no rows; pass at least one")
    _refuse_infinite(values, names)
    times = frame[time_col] if time_col in frame.columns else None
    if times is not None:
        _refuse_times(times)
    return Rows(np.ascontiguousarray(values), names, times)


def read_row(x: Any, n_channels: int, names: Sequence[str] | None) -> np.ndarray:
    """Read one row of a stream.

    Parameters
    ----------
    x : number, sequence of numbers, or mapping of channel name to number
        NaN or None where missing.
    n_channels : int
        As fitted.
    names : sequence of str or None
        Names of the channels.

    Returns
    -------
    ndarray of shape (n_channels,)

    Raises
    ------
    ParameterError
        If it does not fit the channels, or holds text or infinity.

    Examples
    --------
    >>> read_row({"b": 2.0, "a": None}, 2, ["a", "b"])
    array([nan,  2.])
    """
    row: np.ndarray = read_stream_rows([_listed(x, names)], n_channels, names).values[0]
    return row


def read_batch(rows: Sequence[Any], n_channels: int, names: Sequence[str] | None) -> np.ndarray:
    """Read one row of each of some streams.

    Parameters
    ----------
    rows : sequence
        Of what `read_row` takes.
    n_channels, names
        As for `read_row`.

    Returns
    -------
    ndarray of shape (n_streams, n_channels)

    Raises
    ------
    ParameterError
        As of `read_row`.

    Examples
    --------
    >>> read_batch([1.0, [2.0], None], 1, None).ravel()
    array([ 1.,  2., nan])
    """
    listed = [_listed(x, names) for x in rows]
    try:
        return read_stream_rows(listed, n_channels, names).values
    except ParameterError:  # rows of several forms are fine, and others are told one by one
        return np.stack([read_row(x, n_channels, names) for x in listed])


def read_stream_rows(
    X: Any,
    n_channels: int,
    names: Sequence[str] | None,
    time_col: str = "ds",
    id_col: str = "unique_id",
) -> Rows:
    """Read rows of a stream.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_channels), (n_rows,) for one channel, or frame
        NaN or None where missing.
    n_channels : int
        As fitted.
    names : sequence of str or None
        Names of the channels.
    time_col, id_col : str
        Columns of a frame that hold times, and the id of its one series; they may be absent.

    Returns
    -------
    Rows

    Raises
    ------
    ParameterError, FrameError
        If they do not fit the channels, or hold text or infinity.
    """
    rows = read_rows(X, time_col, id_col, names) if _is_frame(X) else Rows(_numbers(X, names))
    values = rows.values
    if values.ndim == 1 and n_channels == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != n_channels:
        shape = " x ".join(str(n) for n in values.shape)
        fitted = "1 channel" if n_channels == 1 else f"{n_channels} channels"
        wanted = "1 number" if n_channels == 1 else f"{n_channels} numbers"
        raise ParameterError(
            f"rows of shape {shape}, but the detector was fitted on {fitted}; pass {wanted} a row"
        )
    _refuse_infinite(values, None)
    return Rows(values, rows.names, rows.times)


def numbers(times: pl.Series) -> np.ndarray:
    """Turn times into numbers: integers as they are, stamps in microseconds.

    Parameters
    ----------
    times : polars.Series
        Integers, dates or stamps.

    Returns
    -------
    ndarray of int64
    """
    if times.dtype.is_integer():
        times = times.cast(pl.Int64)
    else:
        times = times.cast(pl.Datetime("us")).to_physical()
    return np.asarray(times.to_numpy())


def filled(values: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Carry the last value of each channel over what is missing.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_channels)
        NaN where missing.
    before : ndarray of shape (n_channels,)
        Values before the first row.

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> filled(np.array([[np.nan], [2.0], [np.nan]]), np.zeros(1)).ravel()
    array([0., 2., 2.])
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    rows = np.where(missing, -1, np.arange(len(values))[:, None])
    last = np.maximum.accumulate(rows, axis=0)
    columns = np.arange(values.shape[1])
    whole: np.ndarray = np.where(last >= 0, values[last, columns], before)
    return whole


def repeated(values: np.ndarray, period: int) -> np.ndarray:
    """Fill what is missing by what was there a period before, filled or not.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_channels)
        NaN where missing.
    period : int >= 1
        Rows.

    Returns
    -------
    ndarray of the same shape
        NaN where a channel has no value that many rows before, nor any multiple of it.

    Examples
    --------
    >>> repeated(np.array([[1.0], [2.0], [np.nan], [np.nan], [np.nan]]), 2).ravel()
    array([1., 2., 1., 2., 1.])
    """
    out = values.copy()
    for start in range(period, len(out), period):
        rows = out[start : start + period]
        before = out[start - period : start - period + len(rows)]
        np.copyto(rows, before, where=np.isnan(rows))
    return out


def interpolated(values: np.ndarray) -> np.ndarray:
    """Draw a line over what is missing; the ends and empty channels stay level.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_channels)
        NaN where missing.

    Returns
    -------
    ndarray of the same shape
        0 in a channel without any value.

    Examples
    --------
    >>> interpolated(np.array([[np.nan], [2.0], [np.nan], [4.0]])).ravel()
    array([2., 2., 3., 4.])
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    out = values.copy()
    rows = np.arange(len(values))
    for column in np.flatnonzero(missing.any(axis=0)):
        gone = missing[:, column]
        known = rows[~gone]
        out[gone, column] = np.interp(rows[gone], known, values[known, column]) if len(known) else 0
    return out


def _is_frame(X: Any) -> bool:
    """Tell frames from arrays; a pandas frame whose columns are numbered is an array."""
    if hasattr(X, "schema") and hasattr(X, "column_names"):  # pyarrow
        return True
    return hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns)


def _listed(x: Any, names: Sequence[str] | None) -> Any:
    """Put the values of a mapping in the order of the channels; leave other rows as they are."""
    if isinstance(x, float) or not isinstance(x, Mapping):
        return x
    if names is None:
        raise ParameterError(
            "the detector was fitted on an array, whose channels have no names; "
            "pass a sequence of numbers"
        )
    _refuse_other_columns(list(x), names)
    return [x[name] for name in names]


def _numbers(X: Any, names: Sequence[str] | None) -> np.ndarray:
    """Turn rows into floats, but not text, of which numpy would read numbers."""
    message = "rows must be numbers, with NaN or None where missing"
    try:
        values = np.asarray(X)
    except ValueError:
        raise ParameterError(message) from None
    if values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    values = np.asarray(X, dtype=object)
    _refuse_text(values, names)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(message) from None


def _refuse_text(values: np.ndarray, names: Sequence[str] | None) -> None:
    for place, value in np.ndenumerate(values):
        if isinstance(value, str | bytes):
            i = place[1] if len(place) > 1 else 0
            where = f"channel {i}" if names is None or i >= len(names) else f"column {names[i]!r}"
            raise ParameterError(
                f"{where} holds text, {value!r}; pass numbers, with NaN or None where missing"
            )


def _refuse_other_columns(names: list[str], channels: Sequence[str]) -> None:
    missing = [name for name in channels if name not in names]
    extra = [name for name in names if name not in channels]
    if missing or extra:
        parts = [f"lacks {missing}"] * bool(missing) + [f"also has {extra}"] * bool(extra)
        raise FrameError(
            f"the frame {' and '.join(parts)}; the detector was fitted on {list(channels)}: "
            "rename, add or drop columns to match"
        )


def _refuse_infinite(values: np.ndarray, names: list[str] | None) -> None:
    bad = np.isinf(values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        where = f"column {names[column]!r}" if names else f"channel {column}"
        kind = FrameError if names else ParameterError
        raise kind(
            f"{where} holds infinity, first in row {row} ({int(bad.sum())} in all); use NaN for "
            "what is missing"
        )


def _refuse_times(times: pl.Series) -> None:
    if not (times.dtype.is_integer() or times.dtype in (pl.Date, pl.Datetime)):
        raise FrameError(
            f"column {times.name!r} is {times.dtype}, times are integers, dates or stamps; "
            "convert it, e.g. with str.to_datetime()"
        )
    if times.null_count():
        raise FrameError(f"column {times.name!r} has {times.null_count()} rows without a time")
    steps = np.diff(numbers(times))
    if (steps < 0).any():
        row = int(np.argmax(steps < 0)) + 1
        raise FrameError(
            f"column {times.name!r} goes backwards at row {row} ({times[row - 1]} to "
            f"{times[row]}); sort the frame by time"
        )
