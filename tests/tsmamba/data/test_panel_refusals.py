from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import future_frame, read_panel
from tsmamba.errors import (
    FrameError,
    FrequencyError,
    HorizonError,
    ParameterError,
    SeriesTooShortError,
)

START = datetime(2024, 1, 1)


def refused(frame, error=FrameError, **kwargs):
    with pytest.raises(error) as caught:
        read_panel(frame, **kwargs)
    return str(caught.value)


def test_missing_columns_name_those_there_are():
    frame = pl.DataFrame({"unique_id": ["a"], "Date": [1], "y": [1.0]})
    assert refused(frame) == (
        "the frame has no column 'ds', only 'unique_id', 'Date', 'y'; name the column with "
        "time_col="
    )
    assert "did you mean time_col='Date'?" in refused(frame, time_col="date")
    assert "did you mean target_col='y'?" in refused(frame, time_col="Date", target_col="Y")
    assert "no column 'sensor'" in refused(frame, time_col="Date", id_col="sensor")


def test_a_pandas_index_is_pointed_at():
    dated = pd.DataFrame({"y": [1.0]}, index=pd.DatetimeIndex(["2024-01-01"]))
    assert "call df.rename_axis('ds').reset_index()" in refused(dated)
    named = pd.DataFrame({"y": [1.0], "ds": [1]}).set_index("ds")
    assert "'ds' is in the index: call df.reset_index()" in refused(named)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"target_col": []},
        {"target_col": ["y", "y"]},
        {"target_col": "ds"},
        {"target_col": [1]},
        {"id_col": "ds"},
        {"target_col": ["y"], "time_col": "target"},
    ],
)
def test_column_names_without_sense_are_refused(kwargs):
    refused(pl.DataFrame({"ds": [1], "y": [1.0]}), ParameterError, **kwargs)


def test_no_rows(long_frame):
    assert "the frame has no rows" in refused(long_frame({"a": 3}).clear())


@pytest.mark.parametrize(
    ("ds", "fragments"),
    [
        (
            ["2024-01-01", "2024-01-02"],
            ["'ds' holds text such as '2024-01-01'", "pl.col('ds').str.to_datetime()"],
        ),
        ([1.0, 2.0], ["'ds' is of type Float64", "pl.col('ds').cast(pl.Int64)"]),
        ([True, False], ["'ds' is of type Boolean; dates, date-times or integers are accepted"]),
        ([timedelta(1), timedelta(2)], ["'ds' is of type Duration"]),
        (
            [1, None],
            ["1 of 2 rows have no time stamp in column 'ds' (row 1, the first in series 'a')"],
        ),
        ([1, 2**64 - 1], ["'ds' of type", "beyond Int64"]),
    ],
)
def test_stamps_of_another_type(ds, fragments):
    frame = pl.DataFrame(
        {"unique_id": ["a", "a"], "ds": pl.Series(ds, strict=False), "y": [1.0, 2.0]}
    )
    message = refused(frame)
    for fragment in fragments:
        assert fragment in message


def test_ids_that_are_missing_or_no_names():
    frame = pl.DataFrame({"unique_id": ["a", None], "ds": [1, 2], "y": [1.0, 2.0]})
    assert refused(frame).startswith("1 of 2 rows have no id in column 'unique_id' (row 1)")
    frame = frame.with_columns(unique_id=pl.lit(1.5))
    assert "id column 'unique_id' is of type Float64; text, integers or" in refused(frame)


@pytest.mark.parametrize(
    ("values", "fragments"),
    [
        (
            ["1", "2", "n/a"],
            ["'y' is of type String, first 'n/a' in series 'b' at ds=1", "cast(pl.Float64)"],
        ),
        (["1", "2", "3"], ["'y' is of type String, first '1' in series 'a' at ds=1"]),
        ([None, True, False], ["type Boolean, first True in series 'a' at ds=2", "pl.Int8"]),
        ([[1], [2], [3]], ["is of type List(Int64)", "numbers are accepted"]),
    ],
)
def test_targets_that_are_no_numbers(values, fragments):
    frame = pl.DataFrame({"unique_id": ["a", "a", "b"], "ds": [1, 2, 1], "y": values})
    message = refused(frame)
    for fragment in fragments:
        assert fragment in message


def test_infinite_values_name_series_and_stamp(long_frame):
    frame = long_frame({"a": 2, "b": 3}).with_columns(
        y=pl.Series([1.0, None, float("nan"), -np.inf, np.inf])
    )
    message = refused(frame)
    assert message.startswith(
        "column 'y' of series 'b' at ds=2024-01-01 01:00:00 is infinite (2 such values in all)"
    )
    assert "is_finite()" in message


def test_a_series_without_any_value(long_frame):
    frame = long_frame({"a": 2, "b": 2, "c": 2})
    frame = frame.with_columns(y=pl.when(pl.col("unique_id") == "a").then("y"))
    assert refused(frame).startswith(
        "column 'y' of series 'b' holds missing values only (2 such series in all)"
    )
    null = pl.DataFrame({"ds": [1, 2], "y": [None, None]})
    assert refused(null).startswith("column 'y' of the series holds missing values only;")


def test_repeated_stamps():
    frame = pl.DataFrame(
        {"unique_id": ["a", "a", "b", "b", "b"], "ds": [1, 2, 1, 1, 1], "y": [1.0] * 5}
    )
    assert refused(frame) == (
        "series 'b' has more than one row at ds=1 (2 repeated rows in all); a series takes one row "
        "for each stamp: df.unique(subset=['unique_id', 'ds']), in pandas "
        "df.drop_duplicates(['unique_id', 'ds']), or aggregate them"
    )
    assert refused(frame.drop("unique_id").sort("ds")).endswith("name their id with id_col=")


def test_an_irregular_stamp_names_the_pair_and_the_repair(long_frame):
    frame = long_frame({"a": 5, "b": 5})
    moved = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(pl.col("ds").dt.offset_by("5m")).otherwise("ds")
    )
    assert refused(moved, FrequencyError) == (
        "series 'b' goes from ds=2024-01-01 01:00:00 to 2024-01-01 02:05:00, which is no whole "
        "number of steps of '1h' (the most common one); resample, e.g. df.group_by_dynamic('ds', "
        "every='1h', group_by='unique_id').agg(pl.col('y').mean()), pass freq='uneven' to take "
        "each row as a step, or freq= if the true step is another"
    )
    assert "steps of '2h' (given)" in refused(frame, FrequencyError, freq="2h")
    assert read_panel(moved, freq="5m").lengths.tolist() == [49, 49]


@pytest.mark.parametrize("lengths", [(40, 8), (8, 40)])
def test_series_of_two_frequencies_name_one_of_each(long_frame, lengths):
    hourly = long_frame({"h": lengths[0]})
    daily = long_frame({"d": lengths[1]}, "1d")
    message = refused(pl.concat([hourly, daily]), FrequencyError)
    assert "series 'h'" in message
    assert "series 'd'" in message
    assert "'1h'" in message
    assert "'1d'" in message
    assert "all series need one frequency" in message
    assert read_panel(pl.concat([hourly, daily]), freq="1h").freq == Frequency("1h")


def test_short_gappy_series_are_no_other_frequency(long_frame):
    gappy = pl.DataFrame(
        {"unique_id": ["g"] * 3, "ds": [START + timedelta(hours=h) for h in (0, 2, 4)], "y": 1.0}
    )
    assert read_panel(pl.concat([long_frame({"a": 20}), gappy])).lengths.tolist() == [20, 5]


def test_no_series_with_two_stamps(long_frame):
    assert "pass freq=" in refused(long_frame({"a": 1, "b": 1}), FrequencyError)


def test_a_stray_stamp_cannot_fill_the_memory():
    frame = pl.DataFrame({"ds": [1, 2, 3, 10**9], "y": [1.0, 2.0, 3.0, 4.0]})
    message = refused(frame, FrequencyError)
    assert "the 4 rows need 1,000,000,000 steps" in message
    assert "the series alone jumps 999,999,997 steps from ds=3 to 1000000000" in message


def test_short_series_are_named(long_frame):
    frame = long_frame({f"s{number}": number for number in range(1, 9)})
    message = refused(frame, SeriesTooShortError, min_length=8)
    assert message.startswith(
        "7 of 8 series ('s1', 's2', 's3', 's4', 's5' and 2 more) too short: 1 to 7 steps, and at "
        "least 8 are needed"
    )
    assert "df.filter(pl.len().over('unique_id') >= 8)" in message
    single = long_frame({"a": 3}).drop("unique_id")
    message = refused(single, SeriesTooShortError, min_length=4)
    assert message.startswith("the series too short: 3 steps")


@pytest.mark.parametrize("horizon", [0, -1])
def test_a_horizon_of_nothing(long_frame, horizon):
    panel = read_panel(long_frame({"a": 3}))
    with pytest.raises(HorizonError, match=f"horizon={horizon} asks for no step"):
        future_frame(panel, horizon)
