import warnings
from dataclasses import replace
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
from tsmamba.data.panel import Scaling, future_frame, read_panel
from tsmamba.errors import FrameWarning

START = datetime(2024, 1, 1)


def series_of(panel, number):
    return panel.restored(number).tolist()


# What is accepted


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow"])
def test_every_kind_of_frame_gives_the_same_panel(long_frame, kind):
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
    shared = expected.filter(pl.col("target") == "v").drop("target")
    assert_frame_equal(future_frame(panel, 2, by_target=False), shared)


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


def test_interleaved_series_are_in_order(long_frame):
    frame = long_frame({"b": 5, "a": 5}).sort("ds", maintain_order=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel = read_panel(frame)
    assert panel.ids.to_list() == ["b", "a"]


def test_rows_that_step_back_are_sorted_with_one_warning(long_frame):
    frame = long_frame({"b": 5, "a": 5})
    shuffled = frame[[3, 9, 1, 0, 2, 4, 8, 5, 6, 7]]
    with pytest.warns(FrameWarning, match=r"not in order of 'ds' and have been sorted") as caught:
        panel = read_panel(shuffled)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(panel.values, read_panel(frame).values)


def test_single_rows_take_the_frequency_of_the_others(long_frame):
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


def test_known_scaling_is_used_and_unknown_series_get_their_own(long_frame):
    old = read_panel(long_frame({"a": 50}))
    new = read_panel(long_frame({"b": 9, "a": 9}), scaling=old)
    own = read_panel(long_frame({"b": 9, "a": 9}))
    assert new.loc.tolist() == [own.loc[0], old.loc[0]]
    assert new.scale.tolist() == [own.scale[0], old.scale[0]]
    np.testing.assert_allclose(new.restored(1), own.restored(1), rtol=1e-6)


def test_a_scaling_is_all_that_is_needed_of_the_old_panel(long_frame):
    old, frame = read_panel(long_frame({"a": 50, "b": 30})), long_frame({"b": 9, "c": 9, "a": 9})
    scaling = Scaling.of(old)
    new, by_panel = (read_panel(frame, scaling=known) for known in (scaling, old))
    np.testing.assert_array_equal(new.loc, by_panel.loc)
    np.testing.assert_array_equal(new.scale, by_panel.scale)
    assert new.loc.tolist() == [old.loc[1], read_panel(frame).loc[1], old.loc[0]]


def test_a_scaling_knows_the_targets_of_a_wide_frame(long_frame):
    frame = long_frame({"a": 9}).with_columns(z=pl.col("y") * 3)
    old = read_panel(frame, target_col=["y", "z"])
    new = read_panel(frame.head(4), target_col=["z", "y"], scaling=Scaling.of(old))
    np.testing.assert_array_equal(new.loc, old.loc[::-1])


@pytest.mark.parametrize("steps", [1, 5])
def test_a_continued_panel_is_that_of_the_longer_frame(long_frame, steps):
    lengths = {"b": 9, "a": 4}
    longer = long_frame({key: length + steps for key, length in lengths.items()})
    rank = pl.int_range(pl.len(), 0, -1).over("unique_id")
    panel = read_panel(longer.filter(rank > steps))
    expected = read_panel(longer, scaling=panel)
    values = np.stack([expected.values[end - steps : end] for end in expected.offsets[1:]])
    continued = panel.continued(values)
    np.testing.assert_array_equal(continued.values, expected.values)
    np.testing.assert_array_equal(continued.offsets, expected.offsets)
    assert_series_equal(continued.last, expected.last)
    assert_series_equal(continued.first, expected.first)
    assert_frame_equal(future_frame(continued, 2), future_frame(expected, 2))


def test_continuing_a_panel_leaves_it_as_it_was_and_drops_its_weights(long_frame):
    panel = read_panel(long_frame({"a": 3}))
    weighted = replace(panel, weights=np.ones(3, np.float32))
    assert weighted.continued(np.zeros((1, 2))).weights is None
    assert panel.lengths.tolist() == [3]
    assert weighted.weights.tolist() == [1, 1, 1]


def test_targets_may_be_absent_where_they_are_not_required(long_frame):
    frame = long_frame({"a": 3}).drop("y")
    panel = read_panel(frame, require_targets=False)
    assert np.isnan(panel.values).all()
    assert panel.scale.tolist() == [1.0]


def test_other_columns_are_not_touched(long_frame):
    frame = long_frame({"a": 3}).with_columns(note=pl.Series([b"x", b"y", None]))
    assert read_panel(frame).lengths.tolist() == [3]


# Laws

law = settings(deadline=None, max_examples=40)


@st.composite
def panels(draw, long_frame, least=1):
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
@given(st.data(), st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant(long_frame, data, random):
    frame = data.draw(panels(long_frame))
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
@given(st.data())
def test_dropping_rows_inside_equals_missing_values(long_frame, data):
    frame = data.draw(panels(long_frame, least=3))
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
@given(st.data())
def test_values_come_back(long_frame, data):
    frame = data.draw(panels(long_frame))
    panel = read_panel(frame)
    expected = frame["y"].to_numpy()
    largest = np.nanmax(np.abs(expected))
    restored = np.concatenate([panel.restored(number) for number in range(len(panel))])
    np.testing.assert_allclose(restored, expected, rtol=1e-6, atol=1e-6 * largest)


@law
@given(st.data(), st.integers(1, 5))
def test_the_future_continues_exactly(long_frame, data, horizon):
    frame = data.draw(panels(long_frame, least=2))
    rest = pl.len().over("unique_id") - pl.int_range(pl.len()).over("unique_id") <= horizon
    frame = frame.filter((pl.len() > 2 * horizon).over("unique_id"))
    coming = frame.select(rest).to_series()
    panel = read_panel(frame.filter(~coming))
    expected = frame.filter(coming).select("unique_id", "ds")
    assert_frame_equal(future_frame(panel, horizon), expected)


@law
@given(st.data())
def test_kinds_of_frames_agree(long_frame, data):
    frame = data.draw(panels(long_frame))
    panel = read_panel(frame)
    other = read_panel(pa.table(frame))
    np.testing.assert_array_equal(panel.values, other.values)
    assert_series_equal(panel.ids, other.ids)
    assert_series_equal(panel.last, other.last)
