import math

import numpy as np
import polars as pl
import pytest

from tsmamba.errors import ParameterError
from tsmamba.metrics import (
    average_precision,
    detection_delay,
    event_f1,
    point_adjusted_f1,
    ucr_hit,
)


def marks(text):
    return np.array([mark == "1" for mark in text])


def test_average_precision_takes_lists_series_and_booleans():
    scores = [0.1, 0.9, 0.8, 0.2]
    for labels in ([0, 1, 0, 1], marks("0101"), pl.Series([0, 1, 0, 1]), [0.0, 1.0, 0.0, 1.0]):
        assert average_precision(labels, scores) == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize(
    ("labels", "alerts", "precision", "recall", "f1"),
    [
        ("0110010", "0010010", 1, 1, 1),
        ("0110010", "0110000", 1, 1 / 2, 2 / 3),
        ("0110010", "1010000", 1 / 2, 1 / 2, 1 / 2),
        ("0110010", "1001000", 0, 0, 0),
        ("0110010", "1111111", 1, 1, 1),  # one run over all events is no false one
        ("0111110", "0101010", 1, 1, 1),  # an event counts once, however often it is found
        ("1000001", "1000001", 1, 1, 1),
        ("1000001", "0101010", 0, 0, 0),
    ],
)
def test_events_are_counted_by_runs(labels, alerts, precision, recall, f1):
    assert event_f1(marks(labels), marks(alerts)) == pytest.approx((precision, recall, f1))


def test_without_alerts_there_is_no_precision_of_events():
    precision, recall, f1 = event_f1([0, 1], [0, 0])
    assert math.isnan(precision)
    assert (recall, f1) == (0, 0)


def test_f1_of_events_is_the_harmonic_mean(rng):
    labels, alerts = rng.random(500) < 0.1, rng.random(500) < 0.1
    precision, recall, f1 = event_f1(labels, alerts)
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_delays_are_counted_from_the_start_of_each_event():
    delays = detection_delay(marks("1110110111"), marks("1010011000"))
    assert np.array_equal(delays, [0, 1, np.nan], equal_nan=True)


def test_delays_exist_for_found_events_and_no_others(rng):
    labels, alerts = rng.random(500) < 0.3, rng.random(500) < 0.2
    delays = detection_delay(labels, alerts)
    assert np.isfinite(delays).mean() == event_f1(labels, alerts).recall


@pytest.mark.parametrize(
    ("peak", "hit"), [(399, False), (400, True), (555, True), (700, True), (701, False)]
)
def test_a_hit_is_at_most_the_slack_away(peak, hit):
    scores = np.zeros(1000)
    scores[peak] = 1
    assert ucr_hit(scores, 500, 600) is hit


def test_the_first_of_equal_maxima_is_judged():
    assert ucr_hit([0, 1, 0, 0, 1], 1, 1, slack=0)
    assert not ucr_hit([0, 1, 0, 0, 1], 4, 4, slack=0)


@pytest.mark.parametrize(("start", "end"), [(3, 2), (5, 10), (10, 10)])
def test_the_anomaly_must_lie_inside_the_scores(start, end):
    with pytest.raises(ParameterError, match=f"start={start} and end={end} with 10 scores"):
        ucr_hit(np.zeros(10), start, end)


@pytest.mark.parametrize("acknowledge", [None, True, "yes"])
def test_point_adjustment_wants_to_be_acknowledged(acknowledge):
    with pytest.raises(ParameterError, match=r"random scores get high values.*acknowledge=\"mis"):
        point_adjusted_f1([0, 1], [0, 1], acknowledge=acknowledge)


def slow_adjusted_f1(labels, scores):
    best = 0.0
    for level in scores:
        alerts = scores >= level
        for start in range(len(labels)):
            if labels[start] and (start == 0 or not labels[start - 1]):
                end = start
                while end < len(labels) and labels[end]:
                    end += 1
                alerts[start:end] |= alerts[start:end].any()
        best = max(best, 2 * (labels & alerts).sum() / (labels.sum() + alerts.sum()))
    return best


def test_point_adjustment_equals_its_definition(rng):
    for _ in range(5):
        labels, scores = rng.random(120) < 0.3, rng.integers(40, size=120).astype(float)
        adjusted = point_adjusted_f1(labels, scores, acknowledge="misleading")
        assert adjusted.f1 == pytest.approx(slow_adjusted_f1(labels, scores))


def test_the_random_control_is_seeded_and_ignores_the_scores(rng):
    labels = np.arange(1000) % 250 < 50
    one = point_adjusted_f1(labels, rng.random(1000), acknowledge="misleading")
    two = point_adjusted_f1(labels, rng.random(1000), acknowledge="misleading")
    three = point_adjusted_f1(labels, rng.random(1000), acknowledge="misleading", random_state=1)
    assert one.random_f1 == two.random_f1 != three.random_f1
    assert one.random_f1 > 0.8


@pytest.mark.parametrize("metric", [event_f1, detection_delay])
@pytest.mark.parametrize(
    ("labels", "alerts", "message"),
    [
        ([0, 1, 0], [1, 0], "labels has 3 steps and alerts 2"),
        ([0, 1, 0], [1, 0, 0.5], "alerts holds 1 values that are neither 0 nor 1, the first 0.5"),
        ([0, 0, 0], [1, 0, 0], "labels has no 1 in 3 steps"),
        ([[0, 1]], [1, 0], r"labels has shape \(1, 2\)"),
    ],
)
def test_metrics_of_alerts_say_what_they_cannot_use(metric, labels, alerts, message):
    with pytest.raises(ParameterError, match=message):
        metric(labels, alerts)
