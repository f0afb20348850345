import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tsmamba.data.windows import Windows, WindowStore, _filled

NAN = np.nan


def naive_history(panel, store, window, length):
    """The last steps before a window by slicing, the first step standing in at the left edge."""
    series = int(window.series)
    begin, end = panel.offsets[series], panel.offsets[series + 1]
    values = store.values.numpy()[begin:end]
    at = int(window.origin) - begin
    padded = np.concatenate([np.full(length, values[0]), values[:at]])
    return padded[len(padded) - length :]


@pytest.fixture(scope="module")
def panel(make_panel):
    rng = np.random.default_rng(3)
    holed = rng.normal(size=23)
    holed[[0, 1, 7, 8, 9, 20]] = NAN
    return make_panel(rng.normal(size=17), holed, rng.normal(size=1), rng.normal(size=9))


@pytest.fixture(scope="module")
def store(panel):
    return WindowStore(panel, season=4)


# Which windows there are


@pytest.mark.parametrize("horizon", [1, 3, 16, 30])
@pytest.mark.parametrize("stride", [1, 2, 5])
@pytest.mark.parametrize("min_history", [0, 1, 6])
def test_windows_are_all_that_fit(panel, store, min_history, horizon, stride):
    expected = [
        (series, begin + step)
        for series, (begin, length) in enumerate(
            zip(panel.offsets[:-1].tolist(), panel.lengths.tolist(), strict=True)
        )
        for step in range(min_history, length - horizon + 1, stride)
    ]
    windows = store.windows(min_history, horizon, stride)
    assert list(zip(windows.series.tolist(), windows.origin.tolist(), strict=True)) == expected
    assert len(windows) == len(expected)


@pytest.mark.parametrize("min_history", [0, 4])
def test_windows_from_a_step_on_are_the_later_ones(panel, store, min_history):
    steps = np.array([5, 23, 0, 3])
    every = store.windows(min_history, horizon=2)
    later = store.elapsed(every) >= torch.from_numpy(steps)[every.series]
    started = store.starting(steps)
    windows = started.windows(min_history, horizon=2)
    assert windows.origin.tolist() == every.origin[later].tolist()
    assert windows.series.tolist() == every.series[later].tolist()
    assert torch.equal(started.history(windows, 6), store.history(windows, 6))
    assert len(store.windows(min_history, horizon=2)) == len(every)


def test_progress_and_length_count_from_the_first_step_to_forecast(store):
    started = store.starting(np.array([7, 3, 1, 9]))
    assert (store.longest, started.longest) == (23, 20)
    windows = Windows(torch.tensor([7, 12, 17 + 3, 17 + 13]), torch.tensor([0, 0, 1, 1]))
    assert started.progress(windows).tolist() == [0.0, 0.5, 0.0, 0.5]


def test_the_last_window_of_each_series_follows_it(panel, store):
    windows = store.last()
    assert windows.origin.tolist() == panel.offsets[1:].tolist()
    assert windows.series.tolist() == list(range(len(panel)))
    assert store.elapsed(windows).tolist() == panel.lengths.tolist()
    assert store.progress(windows).tolist() == [1.0] * len(panel)


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_batches_hold_every_window_once_and_in_order(store, size):
    windows = store.windows(2, 3)
    parts = windows.batches(size)
    assert max(map(len, parts)) <= size
    assert torch.cat([part.origin for part in parts]).tolist() == windows.origin.tolist()
    assert torch.cat([part.series for part in parts]).tolist() == windows.series.tolist()


@pytest.mark.parametrize("most", [1, 5, 7])
def test_thinned_windows_are_spread_evenly(store, most):
    windows = store.windows(0, 1)
    few = windows.thinned(most)
    assert len(few) == most
    assert len(few.origin.unique()) == most
    assert few.origin[0] == windows.origin[0]
    assert most == 1 or few.origin[-1] == windows.origin[-1]
    assert windows.thinned(len(windows)) is windows


# What they hold


@pytest.mark.parametrize("length", [1, 2, 5, 16, 40, 100])
def test_history_equals_slicing(panel, store, length):
    windows = store.windows(0, 1)
    got = store.history(windows, length).numpy()
    for row in range(len(windows)):
        one = windows.select(torch.tensor([row]))
        np.testing.assert_array_equal(got[row], naive_history(panel, store, one, length))


@pytest.mark.parametrize("length", [1, 5, 40, 100])
def test_observed_history_is_inside_the_series_and_not_missing(panel, store, length):
    windows = store.windows(0, 1)
    got = store.history_observed(windows, length).numpy()
    for row, (series, origin) in enumerate(
        zip(windows.series.tolist(), windows.origin.tolist(), strict=True)
    ):
        begin = panel.offsets[series]
        expected = [
            place >= begin and not np.isnan(panel.values[place])
            for place in range(origin - length, origin)
        ]
        assert got[row].tolist() == expected


def test_the_future_equals_slicing(panel, store):
    windows = store.windows(3, 5)
    values, observed = store.future(windows, 5)
    for row, origin in enumerate(windows.origin.tolist()):
        real = panel.values[origin : origin + 5]
        assert observed[row].tolist() == (~np.isnan(real)).tolist()
        np.testing.assert_array_equal(values[row][observed[row]], real[~np.isnan(real)])


@pytest.mark.parametrize(("skip", "width", "count"), [(0, 1, 3), (2, 4, 3), (5, 7, 6)])
def test_past_means_equal_slicing(panel, store, skip, width, count):
    windows = store.windows(0, 1)
    means, inside = store.past_means(windows, skip, width, count)
    assert means.dtype == torch.float32
    for row, (series, origin) in enumerate(
        zip(windows.series.tolist(), windows.origin.tolist(), strict=True)
    ):
        begin = panel.offsets[series]
        for k in range(count):
            end = origin - skip - width * (count - 1 - k)
            part = store.values[max(begin, end - width) : max(begin, end)]
            assert bool(inside[row, k]) == bool(len(part))
            expected = float(part.mean()) if len(part) else 0.0
            assert means[row, k].item() == pytest.approx(expected, abs=1e-6)


def test_past_means_keep_their_digits_far_into_long_data(make_store):
    values = np.sin(np.arange(300_000) / 50) + 1.0
    store = make_store(values)
    windows = Windows(torch.tensor([300_000]), torch.tensor([0]))
    means, _ = store.past_means(windows, 0, 4, 1)
    assert means.item() == pytest.approx(float(store.values[-4:].mean()), abs=1e-6)


# Missing steps are filled from the past


@pytest.mark.parametrize(
    ("values", "season", "filled"),
    [
        ([1, 2, NAN, 4], 1, [1, 2, 2, 4]),
        ([1, 2, NAN, 4], 2, [1, 2, 1, 4]),
        ([1, 2, 3, NAN, NAN, NAN, NAN], 3, [1, 2, 3, 1, 2, 3, 1]),
        ([1, NAN, 3, NAN], 2, [1, 1, 3, 3]),
        ([NAN, NAN, 3, NAN], 1, [0, 0, 3, 3]),
        ([5, NAN], 9, [5, 5]),
    ],
)
def test_a_gap_takes_the_season_before_else_the_last_value(values, season, filled):
    got = _filled(np.array(values, np.float32), np.array([0, len(values)]), season)
    assert got.tolist() == filled


def test_a_gap_takes_nothing_from_another_series():
    got = _filled(np.array([7, 7, NAN, 1], np.float32), np.array([0, 2, 4]), 1)
    assert got.tolist() == [7, 7, 0, 1]


def test_a_gap_longer_than_many_seasons_is_filled():
    values = np.full(100, NAN, np.float32)
    values[:2] = [1, 2]
    got = _filled(values, np.array([0, 100]), 2)
    assert np.isfinite(got).all()
    assert got[2:18].tolist() == [1, 2] * 8


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.just(NAN), st.floats(-5, 5, width=32)), min_size=2, max_size=40),
    season=st.integers(1, 9),
    data=st.data(),
)
def test_nothing_leaks_back_in_time(values, season, data):
    before = np.array(values, np.float32)
    at = data.draw(st.integers(1, len(values) - 1))
    after = before.copy()
    after[at:] = data.draw(
        st.lists(
            st.one_of(st.just(NAN), st.floats(-5, 5, width=32)),
            min_size=len(values) - at,
            max_size=len(values) - at,
        )
    )
    offsets = np.array([0, len(values)])
    first, second = (_filled(x, offsets, season) for x in (before, after))
    np.testing.assert_array_equal(first[:at], second[:at])
    seen = ~np.isnan(before)
    np.testing.assert_array_equal(first[seen], before[seen])


# Memory


def test_a_store_is_as_large_as_its_data_and_not_as_its_windows(make_panel):
    steps = 50_000
    panel = make_panel(np.random.default_rng(0).normal(size=steps))
    tracemalloc.start()
    store = WindowStore(panel, season=24)
    windows = store.windows(min_history=512, horizon=96)
    store.history(windows.select(torch.arange(64)), 512)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * steps
    held = sum(x.numel() for x in vars(store).values() if isinstance(x, torch.Tensor))
    assert held <= 4 * steps
    assert windows.origin.numel() + windows.series.numel() <= 2 * steps
