"""Stamps of uneven time, and what a panel makes of them."""

from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal, assert_series_equal

from tsmamba.data.clock import Clock
from tsmamba.data.frequency import Frequency
from tsmamba.data.infer import usual_gap
from tsmamba.data.panel import future_frame, panel_frame, read_panel
from tsmamba.data.place import place_rows
from tsmamba.data.stamps import Stamps
from tsmamba.data.weights import read_weights
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.errors import FrameError, FrequencyError

START = datetime(2024, 1, 1)


def one_series(*stamps, **columns):
    frame = pl.DataFrame({"ds": list(stamps)} | columns)
    return frame if "y" in columns else frame.with_columns(y=pl.int_range(pl.len()) + 1.0)


def read(frame, **kwargs):
    return read_panel(frame, freq="uneven", **kwargs)


@pytest.fixture
def pair():
    """Two series in uneven time."""
    return pl.DataFrame(
        {
            "unique_id": [*"aaaabbb"],
            "ds": [10, 11, 13, 20, 0, 6, 8],
            "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        }
    )


# Reading


def test_each_row_is_a_step_and_the_unit_is_the_median_gap(pair):
    panel = read(pair)
    assert panel.lengths.tolist() == [4, 3]
    assert panel.freq == Frequency(2, uneven=True)
    assert panel.stamps.values.to_list() == pair["ds"].to_list()
    assert panel.stamps.elapsed.tolist() == [0.0, 0.5, 1.5, 5.0, 0.0, 3.0, 4.0]
    assert panel.restored(1).tolist() == pytest.approx([5.0, 6.0, 7.0])


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_rows_without_a_value_are_time_that_passes(pair, missing):
    empty = pl.DataFrame(
        {"unique_id": ["b", "a", "b"], "ds": [-3, 15, 7], "y": [missing] * 3}, schema=pair.schema
    )
    with_empty = pl.concat([pair, empty]).sort("unique_id", "ds")
    one, other = read(with_empty), read(pair)
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.offsets, other.offsets)
    assert_series_equal(one.stamps.values, other.stamps.values)
    assert one.freq == other.freq


def test_a_row_of_a_wide_frame_stays_if_any_target_has_a_value():
    panel = read(
        one_series(1, 2, 5, 9, y=[1.0, None, None, 2.0], z=[1.0, 2.0, None, None]),
        target_col=["y", "z"],
    )
    assert panel.lengths.tolist() == [3, 3]
    assert panel.stamps.values.to_list() == [1, 2, 9] * 2
    assert np.isnan(panel.values).tolist() == [False, True, False, False, False, True]


def test_a_series_without_any_value_is_refused_by_name(pair):
    empty = pair.with_columns(y=pl.when(pl.col("unique_id") == "a").then("y"))
    with pytest.raises(FrameError, match="column 'y' of series 'b' holds missing values only"):
        read(empty)


def test_repeated_stamps_are_refused_even_beside_a_missing_value(pair):
    repeated = pl.concat([pair, pair.tail(1).with_columns(y=None)])
    with pytest.raises(FrameError, match="series 'b' has more than one row at ds=8"):
        read(repeated)


def test_without_two_values_in_a_series_there_is_no_usual_gap():
    with pytest.raises(FrequencyError, match="no series has two rows with a value"):
        read(one_series(1, 2, y=[1.0, None]))
    known = Frequency(3, uneven=True)
    assert read_panel(one_series(4), freq=known).freq == known


def test_stamps_of_another_kind_than_the_usual_gap_are_refused():
    with pytest.raises(FrequencyError, match="does not fit temporal stamps"):
        read_panel(one_series(date(2024, 1, 1)), freq=Frequency(3, uneven=True))


def test_the_usual_gap_is_a_gap_that_is_there():
    assert usual_gap(pl.Series([0, 1, 5]), np.array([0])).every == 1
    days = pl.Series([date(2024, 1, 1), date(2024, 1, 2), date(2024, 3, 1)])
    assert usual_gap(days, np.array([0])) == Frequency("24h", uneven=True)


@pytest.mark.parametrize(
    ("freq", "shown"),
    [
        (Frequency("15m"), "15m"),
        (Frequency(3), "3"),
        (Frequency(1500, uneven=True), "about 1,500 (uneven)"),
        (Frequency("36h", uneven=True), "about 1.5d (uneven)"),
        (Frequency("2345678us", uneven=True), "about 2.3s (uneven)"),
        (Frequency("60s", uneven=True), "about 1m (uneven)"),
        (Frequency("7ns", uneven=True), "about 7ns (uneven)"),
    ],
)
def test_a_usual_gap_is_shown_in_few_digits(freq, shown):
    assert str(freq) == shown


# Stamps of steps, and back


gaps = st.lists(st.lists(st.integers(1, 1000), min_size=1, max_size=8), min_size=1, max_size=4)


@settings(deadline=None)
@given(gaps, st.integers(1, 50), st.sampled_from([pl.Int64, pl.Date, pl.Datetime("ms", "UTC")]))
def test_steps_have_stamps_and_stamps_have_steps(gaps, usual, dtype):
    values = pl.Series(np.concatenate([np.cumsum(part) for part in gaps]))
    freq = Frequency(usual, uneven=True)
    if dtype == pl.Date:
        values, freq = values.cast(pl.Int32), Frequency(f"{24 * usual}h", uneven=True)
    elif dtype != pl.Int64:
        freq = Frequency(f"{usual}ms", uneven=True)
    lengths = np.array([len(part) for part in gaps])
    stamps = Stamps(values.cast(dtype), np.append(0, np.cumsum(lengths)), freq)
    series = np.repeat(np.arange(len(gaps)), lengths + 3)
    steps = np.concatenate([np.arange(length + 3) for length in lengths])
    found = stamps.at(series, steps)
    assert found.dtype == dtype
    assert stamps.steps(series, found).tolist() == steps.tolist()
    inside = steps < lengths[series]
    assert_series_equal(found.filter(inside), stamps.values)
    times = stamps.times(series, steps)
    np.testing.assert_array_equal(times[inside], stamps.elapsed)
    assert np.allclose(np.diff(times)[~inside[1:]], 1.0)
    longer = stamps.continued(3)
    assert_series_equal(longer.values, found)
    np.testing.assert_allclose(longer.elapsed, times)


def test_stamps_between_steps_and_before_the_start_have_none(pair):
    panel = read(pair)
    asked = pl.Series([12, 9, 22, 23, 24, 5, 6])
    steps = panel.steps_at(np.array([0, 0, 0, 0, 0, 1, 1]), asked)
    assert steps.tolist() == [-1, -1, 4, -1, 5, -1, 1]


def test_the_future_goes_by_the_usual_gap(pair):
    panel = read(pair)
    ahead = future_frame(panel, 2)
    assert ahead["ds"].to_list() == [22, 24, 10, 12]
    assert_frame_equal(future_frame(panel.continued(np.zeros((2, 1))), 1), ahead[[1, 3]])


def test_rows_are_found_by_their_stamps(pair):
    panel = read(pair)
    other = pair.with_columns(pl.col("ds") + 1)
    placed = place_rows(
        pl.concat([other, pair[::-1]]), panel, ["y"], np.zeros_like(panel.lengths), panel.lengths
    )
    # Of the others, that of 11 in "a" alone stands on a step.
    assert placed.numbers.tolist() == [0, 1, 1, 1, 0, 0, 0, 0]
    assert placed.steps.tolist() == [1, 2, 1, 0, 3, 2, 1, 0]
    weighted = read_weights(pair.with_columns(w=pl.col("y")), panel, "w")
    assert weighted.weights.tolist() == pair["y"].to_list()


def test_a_panel_gives_its_rows_back(pair):
    panel = read(pair)
    assert_frame_equal(panel_frame(panel, np.zeros(2, np.int64), panel.lengths), pair)


def test_a_regular_panel_has_the_stamps_of_its_grid(long_frame):
    frame = long_frame({"a": 5, "b": 3})
    regular, uneven = read_panel(frame), read(frame)
    series, steps = np.array([0, 0, 1, 1]), np.array([0, 4, 2, 7])
    stamps = regular.stamps_at(series, steps)
    assert_series_equal(uneven.stamps_at(series, steps), stamps)
    for panel in (regular, uneven):
        assert panel.steps_at(series, stamps).tolist() == steps.tolist()
        assert panel.times_at(series, steps).tolist() == steps.tolist()


# Time around an origin


def test_later_stamps_are_not_known_at_an_origin(pair):
    panel = read(pair)
    windows = Windows(torch.tensor([2, 6, 7]), torch.tensor([0, 1, 1]))
    times = WindowStore(panel).times(windows, torch.arange(-3, 2))
    assert times.tolist() == [
        [-1.0, 0.0, 0.5, 1.5, 2.5],
        [-1.0, 0.0, 3.0, 4.0, 5.0],
        [0.0, 3.0, 4.0, 5.0, 6.0],
    ]
    regular = WindowStore(read_panel(pair.with_columns(ds=pl.int_range(pl.len()))))
    assert regular.times(windows, torch.arange(-1, 1)).tolist() == [[1, 2], [1, 2], [2, 3]]


def test_phases_are_those_of_the_true_stamps():
    rng = np.random.default_rng(0)
    hours = np.cumsum(rng.integers(1, 9, size=60))
    panel = read(one_series(*(START + timedelta(hours=int(hour)) for hour in hours)))
    clock = Clock.of(panel)
    assert clock.width  # the data have seen two days
    times = torch.from_numpy(panel.times_at(np.zeros(60, np.int64), np.arange(60)))
    found = clock.features(torch.tensor([0]), times[None])[0]
    np.testing.assert_allclose(found[:, 0], np.sin(2 * np.pi * hours / 24), atol=1e-6)
