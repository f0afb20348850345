import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import argrelextrema
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score

from tsmamba.errors import ParameterError
from tsmamba.metrics import vus, vus_pr, vus_roc, window_of

EXAMPLE = "tsb_ad/001_NAB_id_1_Facility_tr_1007_1st_2014.csv"


def runs(marks):
    """First and last step of every run of marks, one step after the other."""
    found = []
    for t, mark in enumerate(marks):
        if mark and (t == 0 or not marks[t - 1]):
            found.append([t, t])
        if mark:
            found[-1][1] = t
    return found


def soft_labels(labels, width):
    """Labels with buffers on both sides of each event, added up and cut at one."""
    soft = labels.astype(float)
    for start, end in runs(labels):
        for d in range(1, width // 2 + 1):
            for t in (start - d, end + d):
                if 0 <= t < len(soft):
                    soft[t] += np.sqrt(1 - d / width)
    return np.minimum(soft, 1)


def joined(labels, width):
    """Events with their buffers; those that share a step are one."""
    half, last = width // 2, len(labels) - 1
    segments = []
    for start, end in runs(labels):
        if segments and start - half <= segments[-1][1]:
            segments[-1][1] = end + half
        else:
            segments.append([start - half, end + half])
    return [(max(start, 0), min(end, last)) for start, end in segments]


def slow_vus(labels, scores, window, thresholds=250):
    """The definition in loops: every width, every threshold."""
    falling = np.sort(scores)[::-1]
    levels = [falling[int(i)] for i in np.linspace(0, len(scores) - 1, thresholds)]
    rocs, prs = [], []
    for width in range(window + 1):
        soft, segments = soft_labels(labels, width), joined(labels, width)
        recalls, rates, precisions = [0.0], [0.0], [1.0]
        for level in levels:
            alerts = scores >= level
            hits = (soft * alerts).sum()
            found = np.mean([alerts[start : end + 1].any() for start, end in segments])
            counted = np.where(labels, 1.0, soft * alerts).sum()
            positives = (labels.sum() + counted) / 2
            recalls.append(min(hits / positives, 1) * found)
            rates.append((alerts.sum() - hits) / (len(labels) - positives))
            precisions.append(hits / alerts.sum())
        prs.append(np.diff(recalls) @ precisions[1:])
        recalls, rates = np.array([*recalls, 1.0]), np.array([*rates, 1.0])
        rocs.append(np.diff(rates) @ (recalls[1:] + recalls[:-1]) / 2)
    return np.mean(rocs), np.mean(prs)


@st.composite
def cases(draw):
    steps = draw(st.integers(2, 400))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = np.zeros(steps, dtype=bool)
    for _ in range(draw(st.integers(1, 12))):
        start = rng.integers(steps)
        labels[start : start + rng.integers(1, 9)] = True
    labels[rng.integers(steps)] ^= labels.all()
    levels = draw(st.sampled_from([1, 2, 7, 1000]))
    return labels, rng.integers(levels, size=steps) / 3.0, draw(st.integers(0, 14))


@settings(max_examples=50, deadline=None)
@given(cases())
def test_it_equals_the_definition(case):
    assert vus(*case) == pytest.approx(slow_vus(*case), abs=1e-12)


@pytest.mark.parametrize("window", [0, 1, 2, 9, 40])
@pytest.mark.parametrize(
    "events",
    [
        [(0, 5), (595, 600)],
        [(0, 1), (599, 600)],
        [(100, 101), (102, 103), (104, 110), (300, 330)],
        [(100, 120), (140, 150), (160, 200)],
        [(5, 595)],
        [(3, 4), (6, 7), (590, 591), (593, 594)],
    ],
)
def test_it_equals_the_definition_at_the_ends_and_where_buffers_meet(rng, events, window):
    labels, scores = np.zeros(600, dtype=bool), rng.normal(size=600).round(1)
    for start, end in events:
        labels[start:end] = True
    assert vus(labels, scores, window) == pytest.approx(slow_vus(labels, scores, window), abs=1e-12)


def test_a_window_longer_than_the_series_is_cut(rng):
    labels, scores = np.arange(50) % 20 == 7, rng.normal(size=50)
    assert vus(labels, scores, 99) == pytest.approx(slow_vus(labels, scores, 99), abs=1e-12)


def test_without_buffers_and_with_a_threshold_a_step_it_is_the_plain_area(rng):
    """One event of one step: the share of events found is the recall."""
    labels, scores = np.arange(250) == 99, rng.permutation(250).astype(float)
    volume = vus(labels, scores, 0)
    assert volume.pr == pytest.approx(average_precision_score(labels, scores))
    assert volume.roc == pytest.approx(roc_auc_score(labels, scores))


def test_only_the_order_of_scores_matters(rng):
    labels, scores = rng.random(500) < 0.1, rng.normal(size=500)
    assert vus(labels, np.exp(scores), 10) == vus(labels, scores, 10)


def test_time_may_run_backwards(rng):
    labels, scores = rng.random(500) < 0.1, rng.normal(size=500)
    backwards = vus(labels[::-1], scores[::-1], 10)
    assert backwards == pytest.approx(vus(labels, scores, 10), abs=1e-12)


def test_constant_scores_have_no_skill():
    labels = np.arange(100) % 50 == 3
    assert vus(labels, np.ones(100), 0) == pytest.approx((0.5, 0.02), abs=1e-12)


def test_perfect_scores_are_perfect_without_buffers():
    labels = np.arange(400) % 100 < 25
    assert vus(labels, labels.astype(float), 0) == pytest.approx((1, 1), abs=1e-12)


def test_the_short_forms_are_its_parts(rng):
    labels, scores = rng.random(300) < 0.1, rng.normal(size=300)
    assert (vus_roc(labels, scores, 6), vus_pr(labels, scores, 6)) == vus(labels, scores, 6)


def test_it_is_ten_times_as_quick_as_the_definition(rng):
    labels, scores = np.zeros(4000, dtype=bool), rng.normal(size=4000)
    labels[1000:1100] = labels[3000:3050] = True
    seconds = []
    for function in (vus, slow_vus):
        began = time.perf_counter()
        function(labels, scores, 6)
        seconds.append(time.perf_counter() - began)
    assert seconds[0] < seconds[1] / 10


@pytest.mark.data
def test_it_gives_the_published_values_of_the_example(data_dir):
    frame = pl.read_csv(data_dir / EXAMPLE)
    values, labels = frame["Data"].to_numpy(), frame["Label"].to_numpy()
    window = window_of(values)
    profile = matrix_profile(values, window)
    scores = np.full(len(values), profile.min())
    scores[window // 2 : window // 2 + len(profile)] = profile
    assert vus_pr(labels, scores, window) == pytest.approx(0.0939662130617208, abs=1e-6)
    forest = IsolationForest(n_estimators=200, random_state=0).fit(values[:, None])
    scores = -forest.score_samples(values[:, None])
    assert vus_pr(labels, scores, window) == pytest.approx(0.135409459457928, abs=1e-4)


def matrix_profile(values, length):
    """Distance of each z-scored window to the nearest one that does not overlap it much."""
    windows = sliding_window_view(values, length)
    windows = windows - windows.mean(axis=1, keepdims=True)
    windows /= windows.std(axis=1, keepdims=True) * np.sqrt(length)
    likeness = windows @ windows.T
    place = np.arange(len(windows))
    likeness[np.abs(place[:, None] - place) <= np.ceil(length / 4)] = -np.inf
    return np.sqrt(2 * length * np.maximum(1 - likeness.max(axis=1), 0))


@pytest.mark.data
def test_the_window_of_the_example_is_the_benchmarks(data_dir):
    assert window_of(pl.read_csv(data_dir / EXAMPLE)["Data"].to_numpy()) == 6


def slow_window(series):
    """The rule of the benchmark: of the mean products at lags 3 to 400 the highest peak counts."""
    values = series[:20_000] - series[:20_000].mean()
    products = [values[lag:] @ values[: len(values) - lag] for lag in range(min(401, len(values)))]
    likeness = np.array(products)[3:]
    (peaks,) = argrelextrema(likeness, np.greater)
    if not len(peaks):
        return 125
    peak = peaks[likeness[peaks].argmax()]
    return 125 if peak < 3 or peak > 300 else peak + 3


@pytest.mark.parametrize("period", [2, 5, 6, 24, 60, 303.4, 304.6, 350, 500])
@pytest.mark.parametrize("steps", [3, 5, 9, 40, 1000, 25_000])
def test_the_window_is_that_of_the_rule(rng, period, steps):
    series = np.sin(np.arange(steps) * 2 * np.pi / period) + rng.normal(size=steps) / 5
    assert window_of(series) == slow_window(series)


def test_the_window_of_a_series_without_period_is_125():
    assert window_of(np.full(1000, 0.1)) == window_of([1.0]) == window_of(np.arange(50)) == 125


def test_the_window_of_many_channels_is_that_of_the_first(rng):
    series = np.column_stack([np.sin(np.arange(900) * 2 * np.pi / 30), rng.normal(size=900)])
    assert window_of(series) == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1, 0], [1.0, 2.0], 3), "labels has 3 steps and scores 2"),
        (([0, 2, -1], [1, 2, 3], 3), "labels holds 2 values that are neither 0 nor 1, the first 2"),
        (([0, np.nan, 1], [1, 2, 3], 3), "labels holds 1 values .* first nan at step 1"),
        ((["a", "b"], [1, 2], 3), "labels does not hold numbers only"),
        (([0, 0], [1, 2], 3), "labels has no 1 in 2 steps"),
        (([1, 1], [1, 2], 3), "labels is 1 at all 2 steps"),
        (([], [], 3), "labels has no 1 in 0 steps"),
        (([0, 1, 1], [1, np.nan, np.inf], 3), "scores holds 2 NaN or infinite values of 3.*step 1"),
        (([0, 1], [[1], [2]], 3), r"scores has shape \(2, 1\)"),
        (([0, 1], [1, 2], -1), "window=-1; pass a whole number of at least 0"),
        (([0, 1], [1, 2], 2.0), "window=2.0; pass a whole number"),
        (([0, 1], [1, 2], True), "window=True; pass a whole number"),
    ],
)
def test_it_says_what_it_cannot_use(arguments, message):
    with pytest.raises(ParameterError, match=message):
        vus(*arguments)


@pytest.mark.parametrize(
    ("series", "message"), [([], "series is empty"), ([1, np.nan], "series holds 1 NaN")]
)
def test_a_window_needs_values(series, message):
    with pytest.raises(ParameterError, match=message):
        window_of(series)
