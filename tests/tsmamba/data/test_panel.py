import warnings
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal, assert_series_equal

from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import future_frame, read_panel
from tsmamba.errors import (
    FrameError,
    FrameWarning,
    FrequencyError,
    HorizonError,
    ParameterError,
    SeriesTooShortError,
)

START = datetime(2024, 1, 1)


def long_frame(lengths, every="1h", start=START):
    parts = []
    for key, length in lengths.items():
        end = start + timedelta(days=40_000)
        ds = pl.datetime_range(start, end, every, eager=True).head(length)
        parts.append(pl.DataFrame({"unique_id": [key] * length, "ds": ds}))
    frame = pl.concat(parts)
    return frame.with_columns(y=pl.int_range(pl.len()).cast(pl.Float64).sin() * 10 + 100)


def series_of(panel, number):
    return panel.restored(number).tolist()


# What is accepted


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow"])
def test_every_kind_of_frame_gives_the_same_panel(kind):
    frame = long_frame({"b": 5, "a": 3})
    given = {
        "polars": frame,
        "lazy": frame.lazy(),
        "pandas": pd.DataFrame(
            {
                "unique_id": frame["unique_id"].to_list(),
                "ds": frame["ds"].to_numpy(),
                "y": frame["y"].to_numpy(),
            }
        ),
        "pyarrow": frame.to_arrow(),
    }[kind]
    panel = read_panel(given)
    assert panel.ids.to_list() == ["b", "a"]
    assert panel.offsets.tolist() == [0, 5, 8]
    assert panel.lengths.tolist() == [5, 3]
    assert len(panel) == 2
    assert panel.targets == ("y", "y")
    assert panel.freq == Frequency("1h")
    assert panel.values.dtype == np.float32
    assert panel.values.flags.c_contiguous
    assert panel.first.to_list() == [START, START]
    assert panel.last.to_list() == [START + timedelta(hours=4), START + timedelta(hours=2)]
    np.testing.assert_allclose(panel.restored(0), frame["y"][:5], rtol=1e-6)
    assert panel.values[:5].mean() == pytest.approx(0, abs=1e-6)
    assert panel.values[:5].std() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "dtype",
    [pl.String, pl.Categorical, pl.Enum(["7", "3"]), pl.Int8, pl.UInt64, pl.Int64],
)
def test_the_type_of_ids_is_kept(dtype):
    frame = pl.DataFrame({"unique_id": ["7", "7", "3"], "ds": [1, 2, 1], "y": [1, 2, 3]})
    panel = read_panel(frame.cast({"unique_id": dtype}))
    assert panel.ids.dtype == dtype
    assert panel.ids.cast(pl.String).to_list() == ["7", "3"]
    assert future_frame(panel, 1)["unique_id"].dtype == dtype


@pytest.mark.parametrize(
    "dtype",
    [pl.Date, pl.Datetime("ms"), pl.Datetime("ns", "Asia/Tokyo"), pl.Int16, pl.UInt32],
)
def test_the_type_of_stamps_is_kept(dtype):
    days = pl.Series([19_000, 19_001, 19_002], dtype=pl.Int32)
    ds = days.cast(dtype) if dtype.is_integer() else days.cast(pl.Date)
    if isinstance(dtype, pl.Datetime):
        ds = ds.cast(pl.Datetime(dtype.time_unit)).dt.replace_time_zone(dtype.time_zone)
    panel = read_panel(pl.DataFrame({"ds": ds, "y": [1.0, 2.0, 3.0]}))
    assert panel.first.dtype == panel.last.dtype == future_frame(panel, 2)["ds"].dtype == dtype
    assert panel.last.to_list() == [ds[2]]


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([1.0, 2.0, 4.0], dtype=pl.Float32),
        pl.Series([1, 2, 4], dtype=pl.UInt8),
        pl.Series([Decimal("1.0"), Decimal("2.0"), Decimal("4.0")]),
    ],
)
def test_any_numbers_are_targets(values):
    panel = read_panel(pl.DataFrame({"ds": [1, 2, 3], "y": values}))
    np.testing.assert_allclose(panel.restored(0), [1, 2, 4], rtol=1e-6)


def test_a_frame_without_ids_is_one_series():
    panel = read_panel(pl.DataFrame({"t": [1, 2], "v": [3.0, 4.0]}), time_col="t", target_col="v")
    assert len(panel) == 1
    assert not panel.columns.id_given
    assert_frame_equal(future_frame(panel, 2), pl.DataFrame({"t": [3, 4]}))


def test_a_wide_frame_becomes_a_series_for_each_id_and_target():
    frame = pl.DataFrame(
        {"unique_id": ["b", "b", "a"], "ds": [1, 3, 1], "u": [1.0, 2.0, 5.0], "v": [3, 4, 6]}
    )
    panel = read_panel(frame, target_col=["v", "u"], freq=1)
    assert panel.ids.to_list() == ["b", "b", "a", "a"]
    assert panel.targets == ("v", "u", "v", "u")
    assert panel.lengths.tolist() == [3, 3, 1, 1]
    np.testing.assert_allclose(panel.restored(0), [3, np.nan, 4], rtol=1e-6)
    np.testing.assert_allclose(panel.restored(1), [1, np.nan, 2], rtol=1e-6)
    assert series_of(panel, 2) == [6]
    assert series_of(panel, 3) == [5]
    expected = pl.DataFrame(
        {
            "unique_id": ["b"] * 4 + ["a"] * 4,
            "ds": [4, 5, 4, 5, 2, 3, 2, 3],
            "target": ["v", "v", "u", "u"] * 2,
        }
    )
    assert_frame_equal(future_frame(panel, 2), expected)


def test_a_list_of_one_target_is_wide():
    panel = read_panel(pl.DataFrame({"ds": [1, 2], "y": [1, 2]}), target_col=["y"])
    assert panel.columns.wide
    assert future_frame(panel, 1).columns == ["ds", "target"]


def test_gaps_nulls_and_nans_are_missing_steps_and_so_are_the_ends():
    frame = pl.DataFrame({"ds": [1, 2, 3, 4, 6, 7], "y": [None, 2.0, float("nan"), 4.0, 6.0, None]})
    np.testing.assert_allclose(
        read_panel(frame).restored(0),
        [np.nan, 2, np.nan, 4, np.nan, 6, np.nan],
        rtol=1e-6,
    )


def test_interleaved_series_are_in_order():
    frame = long_frame({"b": 5, "a": 5}).sort("ds", maintain_order=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel = read_panel(frame)
    assert panel.ids.to_list() == ["b", "a"]


def test_rows_that_step_back_are_sorted_with_one_warning():
    frame = long_frame({"b": 5, "a": 5})
    shuffled = frame[[3, 9, 1, 0, 2, 4, 8, 5, 6, 7]]
    with pytest.warns(FrameWarning, match=r"not in order of 'ds' and have been sorted") as caught:
        panel = read_panel(shuffled)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(panel.values, read_panel(frame).values)


def test_single_rows_take_the_frequency_of_the_others():
    frame = long_frame({"one": 1, "many": 4}, "1d")
    panel = read_panel(frame)
    assert panel.freq == Frequency("1d")
    assert panel.lengths.tolist() == [1, 4]
    alone = read_panel(frame.head(1), freq="1d")
    assert future_frame(alone, 1)["ds"].to_list() == [START + timedelta(days=1)]


def test_a_given_frequency_fills_gaps_and_knows_month_ends():
    frame = pl.DataFrame({"ds": [date(2024, 1, 31), date(2024, 4, 30)], "y": [1.0, 2.0]})
    panel = read_panel(frame, freq="1mo")
    assert panel.lengths.tolist() == [4]
    assert future_frame(panel, 1)["ds"].to_list() == [date(2024, 5, 31)]


def test_large_offsets_lose_no_digits():
    y = 1e9 + np.sin(np.arange(500))
    panel = read_panel(pl.DataFrame({"ds": np.arange(500), "y": y}))
    np.testing.assert_allclose(panel.restored(0) - 1e9, y - 1e9, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -5e7, 1e300, 1e-300])
def test_constant_series_have_a_scale(value):
    panel = read_panel(pl.DataFrame({"ds": [1, 2, 3], "y": [value] * 3}))
    assert panel.scale[0] > 0
    assert panel.values.tolist() == [0, 0, 0]
    assert series_of(panel, 0) == [value] * 3


def test_huge_values_stay_finite():
    panel = read_panel(pl.DataFrame({"ds": [1, 2, 3], "y": [1e307, -1e307, 9e307]}))
    np.testing.assert_allclose(panel.restored(0), [1e307, -1e307, 9e307], rtol=1e-6)


def test_known_scaling_is_used_and_unknown_series_get_their_own():
    old = read_panel(long_frame({"a": 50}))
    new = read_panel(long_frame({"b": 9, "a": 9}), scaling=old)
    own = read_panel(long_frame({"b": 9, "a": 9}))
    assert new.loc.tolist() == [own.loc[0], old.loc[0]]
    assert new.scale.tolist() == [own.scale[0], old.scale[0]]
    np.testing.assert_allclose(new.restored(1), own.restored(1), rtol=1e-6)


def test_targets_may_be_absent_where_they_are_not_required():
    frame = long_frame({"a": 3}).drop("y")
    panel = read_panel(frame, require_targets=False)
    assert np.isnan(panel.values).all()
    assert panel.scale.tolist() == [1.0]


def test_other_columns_are_not_touched():
    frame = long_frame({"a": 3}).with_columns(note=pl.Series([b"x", b"y", None]))
    assert read_panel(frame).lengths.tolist() == [3]


# What is refused


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


def test_no_rows():
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


def test_infinite_values_name_series_and_stamp():
    frame = long_frame({"a": 2, "b": 3}).with_columns(
        y=pl.Series([1.0, None, float("nan"), -np.inf, np.inf])
    )
    message = refused(frame)
    assert message.startswith(
        "column 'y' of series 'b' at ds=2024-01-01 01:00:00 is infinite (2 such values in all)"
    )
    assert "is_finite()" in message


def test_a_series_without_any_value():
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


def test_an_irregular_stamp_names_the_pair_and_the_repair():
    frame = long_frame({"a": 5, "b": 5})
    moved = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(pl.col("ds").dt.offset_by("5m")).otherwise("ds")
    )
    assert refused(moved, FrequencyError) == (
        "series 'b' goes from ds=2024-01-01 01:00:00 to 2024-01-01 02:05:00, which is no whole "
        "number of steps of '1h' (the most common one); resample, e.g. df.group_by_dynamic('ds', "
        "every='1h', group_by='unique_id').agg(pl.col('y').mean()), or pass freq= if the true step "
        "is another"
    )
    assert "steps of '2h' (given)" in refused(frame, FrequencyError, freq="2h")
    assert read_panel(moved, freq="5m").lengths.tolist() == [49, 49]


@pytest.mark.parametrize("lengths", [(40, 8), (8, 40)])
def test_series_of_two_frequencies_name_one_of_each(lengths):
    hourly = long_frame({"h": lengths[0]})
    daily = long_frame({"d": lengths[1]}, "1d")
    message = refused(pl.concat([hourly, daily]), FrequencyError)
    assert "series 'h'" in message
    assert "series 'd'" in message
    assert "'1h'" in message
    assert "'1d'" in message
    assert "all series need one frequency" in message
    assert read_panel(pl.concat([hourly, daily]), freq="1h").freq == Frequency("1h")


def test_short_gappy_series_are_no_other_frequency():
    gappy = pl.DataFrame(
        {"unique_id": ["g"] * 3, "ds": [START + timedelta(hours=h) for h in (0, 2, 4)], "y": 1.0}
    )
    assert read_panel(pl.concat([long_frame({"a": 20}), gappy])).lengths.tolist() == [20, 5]


def test_no_series_with_two_stamps():
    assert "pass freq=" in refused(long_frame({"a": 1, "b": 1}), FrequencyError)


def test_a_stray_stamp_cannot_fill_the_memory():
    frame = pl.DataFrame({"ds": [1, 2, 3, 10**9], "y": [1.0, 2.0, 3.0, 4.0]})
    message = refused(frame, FrequencyError)
    assert "the 4 rows need 1,000,000,000 steps" in message
    assert "the series alone jumps 999,999,997 steps from ds=3 to 1000000000" in message


def test_short_series_are_named():
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
def test_a_horizon_of_nothing(horizon):
    panel = read_panel(long_frame({"a": 3}))
    with pytest.raises(HorizonError, match=f"horizon={horizon} asks for no step"):
        future_frame(panel, horizon)


# Laws

law = settings(deadline=None, max_examples=40)


@st.composite
def panels(draw, least=1):
    """A long frame of a few series with gaps, in a random order of series."""
    every = draw(st.sampled_from(["1h", "1d", "1w", "1mo"]))
    zone = draw(st.sampled_from([None, "Europe/Berlin"]))
    lengths = draw(st.dictionaries(st.text(max_size=3), st.integers(least, 12), max_size=4))
    frame = long_frame({"anchor": 20, **lengths}, every)
    size = frame.height
    values = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
    y = draw(st.lists(values | st.none(), min_size=size, max_size=size))
    first = pl.int_range(pl.len()).over("unique_id") == 0
    return frame.with_columns(
        ds=pl.col("ds").dt.replace_time_zone(zone), y=pl.Series(y, dtype=pl.Float64)
    ).with_columns(y=pl.when(first).then(pl.col("y").fill_null(1.0)).otherwise("y"))


@law
@given(panels(), st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant(frame, random):
    rows = list(range(frame.height))
    random.shuffle(rows)
    panel = read_panel(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)
        other = read_panel(frame[rows])
    where = {key: number for number, key in enumerate(other.ids.to_list())}
    assert other.ids.to_list() == frame[rows]["unique_id"].unique(maintain_order=True).to_list()
    for number, key in enumerate(panel.ids.to_list()):
        np.testing.assert_array_equal(panel.restored(number), other.restored(where[key]))


@law
@given(panels(least=3), st.data())
def test_dropping_rows_inside_equals_missing_values(frame, data):
    place = pl.int_range(pl.len()).over("unique_id")
    inner = (place > 0) & (place < pl.len().over("unique_id") - 1)
    drawn = data.draw(st.lists(st.booleans(), min_size=frame.height, max_size=frame.height))
    drop = frame.select(inner & pl.Series(drawn)).to_series()
    freq = read_panel(frame).freq
    dropped = read_panel(frame.filter(~drop), freq=freq)
    blanked = read_panel(frame.with_columns(y=pl.when(~drop).then("y")), freq=freq)
    np.testing.assert_array_equal(dropped.values, blanked.values)
    np.testing.assert_array_equal(dropped.offsets, blanked.offsets)


@law
@given(panels())
def test_values_come_back(frame):
    panel = read_panel(frame)
    expected = frame["y"].to_numpy()
    largest = np.nanmax(np.abs(expected))
    restored = np.concatenate([panel.restored(number) for number in range(len(panel))])
    np.testing.assert_allclose(restored, expected, rtol=1e-6, atol=1e-6 * largest)


@law
@given(panels(least=2), st.integers(1, 5))
def test_the_future_continues_exactly(frame, horizon):
    rest = pl.len().over("unique_id") - pl.int_range(pl.len()).over("unique_id") <= horizon
    frame = frame.filter((pl.len() > 2 * horizon).over("unique_id"))
    coming = frame.select(rest).to_series()
    panel = read_panel(frame.filter(~coming))
    expected = frame.filter(coming).select("unique_id", "ds")
    assert_frame_equal(future_frame(panel, horizon), expected)


@law
@given(panels())
def test_kinds_of_frames_agree(frame):
    panel = read_panel(frame)
    other = read_panel(pa.table(frame))
    np.testing.assert_array_equal(panel.values, other.values)
    assert_series_equal(panel.ids, other.ids)
    assert_series_equal(panel.last, other.last)
