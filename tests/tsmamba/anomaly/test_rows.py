from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tsmamba.anomaly.rows import (
    filled,
    interpolated,
    read_batch,
    read_row,
    read_rows,
    read_stream_rows,
    repeated,
)
from tsmamba.errors import FrameError, ParameterError

A = pl.DataFrame({"ds": range(3), "a": [1.0, None, 3.0], "b": [4, 5, 6]})


@pytest.mark.parametrize("frame", [A, A.to_arrow(), pd.DataFrame(A.to_dict(as_series=False))])
def test_frames_of_every_kind_are_the_same_rows(frame):
    rows = read_rows(frame, "ds")
    assert rows.names == ["a", "b"]
    assert rows.times.to_list() == [0, 1, 2]
    np.testing.assert_array_equal(rows.values, [[1, 4], [np.nan, 5], [3, 6]])


def test_numbered_columns_of_pandas_are_an_array():
    rows = read_rows(pd.DataFrame(np.eye(3)), "ds")
    assert rows.names is None
    np.testing.assert_array_equal(rows.values, np.eye(3))


def test_columns_are_found_by_name():
    rows = read_rows(A.select("b", "ds", "a"), channels=["a", "b"])
    np.testing.assert_array_equal(rows.values, read_rows(A, "ds").values)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (A.rename({"a": "c"}), r"lacks \['a'\] and also has \['c'\]; .* fitted on \['a', 'b'\]"),
        (A.drop("b"), r"the frame lacks \['b'\]"),
        (A.with_columns(c=pl.lit(1)), r"the frame also has \['c'\]"),
        (A.with_columns(a=pl.lit("x")), r"column 'a' is String, channels are numbers"),
        (A.with_columns(b=pl.lit(float("-inf"))), r"column 'b' holds infinity, first in row 0 \(3"),
        (A.reverse(), r"'ds' goes backwards at row 1 \(2 to 1\); sort the frame by time"),
        (A.with_columns(ds=pl.lit("now")), r"'ds' is String, times are integers, dates or stamps"),
        (A.with_columns(ds=pl.lit(None, pl.Int64)), r"'ds' has 3 rows without a time"),
        (A.clear(), r"the frame has no rows; pass at least one"),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused_and_its_column_named(frame, message):
    with pytest.raises(FrameError, match=message):
        read_rows(frame, channels=["a", "b"])


def test_a_frame_without_channels_is_refused():
    with pytest.raises(FrameError, match="none of them a channel; add a numeric one"):
        read_rows(A.select("ds"), "ds")


@pytest.mark.parametrize("day", [date(2024, 1, 1), datetime(2024, 1, 1)])
def test_a_time_that_would_be_a_channel_is_pointed_out(day):
    with pytest.raises(FrameError, match="pass time_col='when' if it is the time"):
        read_rows(A.with_columns(when=pl.lit(day)), "ds")


def test_infinity_in_an_array_is_refused_and_its_channel_named():
    x = np.zeros((4, 3))
    x[2, 1] = x[3, 0] = np.inf
    with pytest.raises(ParameterError, match=r"channel 1 holds infinity, first in row 2 \(2 in"):
        read_rows(x, "ds")


@pytest.mark.parametrize(
    ("x", "channels", "names"),
    [
        (2.0, 1, None),
        ([2], 1, None),
        ([2.0, None], 2, None),
        (np.array([2.0, np.nan]), 2, None),
        ((None, None), 2, ["a", "b"]),
        ({"b": None, "a": 2.0}, 2, ["a", "b"]),
    ],
)
def test_a_row_is_read_in_every_form(x, channels, names):
    row = read_row(x, channels, names)
    assert row.shape == (channels,)
    assert row[0] == 2 or np.isnan(row).all()
    assert np.isnan(row[1:]).all()


@pytest.mark.parametrize(
    ("x", "names", "error", "message"),
    [
        ([1.0], None, ParameterError, "rows of shape 1 x 1, .* on 2 channels; pass 2 numbers a"),
        (3.0, None, ParameterError, "fitted on 2 channels"),
        ([1.0, np.inf], None, ParameterError, "channel 1 holds infinity"),
        ([1.0, [2.0]], None, ParameterError, "rows must be numbers"),
        ([1.0, date(2024, 1, 1)], None, ParameterError, "rows must be numbers"),
        ([1.0, "3.0"], None, ParameterError, "channel 1 holds text, '3.0'; pass numbers, with NaN"),
        ({"b": "3.0", "a": 1.0}, ["a", "b"], ParameterError, "column 'b' holds text, '3.0'"),
        ([None, None, "x"], ["a", "b"], ParameterError, "channel 2 holds text"),
        ({"a": 1.0, "b": 2.0}, None, ParameterError, "fitted on an array, whose channels have no"),
        ({"a": 1.0}, ["a", "b"], FrameError, r"lacks \['b'\]"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(x, names, error, message):
    with pytest.raises(error, match=message):
        read_row(x, 2, names)


def test_rows_of_a_stream_may_be_a_frame_of_as_many_channels():
    rows = read_stream_rows(A, 2, None)
    np.testing.assert_array_equal(rows.values, read_rows(A).values)
    assert rows.times.to_list() == [0, 1, 2]
    with pytest.raises(ParameterError, match=r"shape 3 x 2, .* on 1 channel; pass 1 number a row"):
        read_stream_rows(A, 1, None)


def test_filled_in_two_parts_is_filled_in_one(rng):
    x = rng.normal(size=(60, 3))
    x[rng.random(x.shape) < 0.6] = np.nan
    start = np.array([7.0, 8.0, 9.0])
    first = filled(x[:25], start)
    both = np.concatenate([first, filled(x[25:], first[-1])])
    np.testing.assert_array_equal(both, filled(x, start))
    assert np.isfinite(both).all()


def test_repeated_is_the_value_some_periods_before(rng):
    x = rng.normal(size=(50, 2))
    x[rng.random(x.shape) < 0.5] = np.nan
    whole = repeated(x, 7)
    for i, j in np.ndindex(x.shape):
        chain = x[i::-7, j]
        known = chain[~np.isnan(chain)]
        np.testing.assert_array_equal(whole[i, j], known[0] if len(known) else np.nan)
    past = repeated(x[:30], 7)
    np.testing.assert_array_equal(repeated(np.concatenate([past, x[30:]]), 7), whole)


def test_interpolated_leaves_what_is_there_and_draws_lines_between(rng):
    line = np.arange(50.0)[:, None] * [1.0, -2.0]
    x = line.copy()
    x[rng.permutation(np.arange(1, 49))[:30]] = np.nan
    np.testing.assert_allclose(interpolated(x), line)


def test_the_id_of_a_series_is_no_channel():
    rows = read_rows(A.with_columns(unique_id=pl.lit("pump")))
    np.testing.assert_array_equal(rows.values, read_rows(A).values)
    two = A.with_columns(unique_id=pl.Series(["x"] + ["y"] * (len(A) - 1)))
    with pytest.raises(FrameError, match="'unique_id' holds 2 series; a detector takes one"):
        read_rows(two)


@pytest.mark.parametrize(
    "rows",
    [
        [1.0, 2, np.float32(0.1), True],
        [[1.0], [None], (2,), np.array([3.0])],
        [1.0, [2.0], None, {"a": 3.0}],
        [{"a": None}, {"a": 1}],
    ],
)
def test_a_batch_is_its_rows(rows):
    found = read_batch(rows, 1, ["a"])
    np.testing.assert_array_equal(found, [read_row(x, 1, ["a"]) for x in rows])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1.0], "rows of shape 1 x 1, but the detector was fitted on 2 channels; pass 2 numbers"),
        (3.0, "rows of shape 1, but the detector was fitted on 2 channels"),
        ([np.inf, 1.0], r"channel 0 holds infinity, first in row 0 \(1 in all\)"),
        ([1.0, "2"], "column 'b' holds text, '2'; pass numbers, with NaN"),
    ],
)
def test_a_row_of_a_batch_is_refused_as_by_itself(row, message):
    for read in (lambda: read_row(row, 2, "ab"), lambda: read_batch([[0, 1], row], 2, "ab")):
        with pytest.raises(ParameterError, match=message):
            read()


def test_a_batch_of_numbers_is_no_row_of_as_many_channels():
    with pytest.raises(ParameterError, match="rows of shape 1, but the detector was fitted on 2"):
        read_batch([1.0, 2.0], 2, None)
