import json
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from tsmamba import MambaDetector
from tsmamba.anomaly.episodes import (
    Episode,
    EpisodeRule,
    EpisodeTracker,
    episode_frame,
    episodes_of,
)
from tsmamba.errors import ModelFileError, ParameterError

# Below closing, between closing and opening, at opening, above, missing.
SCORES = st.lists(
    st.sampled_from([0.1, 0.79, 0.8, 0.9, 1.0, 1.5, 3.0, None, math.nan]), max_size=60
)
RULES = st.builds(EpisodeRule, min_duration=st.integers(1, 3), cool_down=st.integers(0, 4))


def spans(episodes):
    return [(one.start, one.end) for one in episodes]


def by_definition(scores, rule):
    """Return first and last steps of the episodes, from the wording of the rule."""
    present = [at for at, x in enumerate(scores) if x is not None and not math.isnan(x)]
    found, at = [], 0
    while at < len(present):
        run = present[at : at + rule.min_duration]
        if len(run) < rule.min_duration or any(scores[step] < rule.open_at for step in run):
            at += 1
            continue
        last = at + len(run) - 1
        while True:
            reach = range(last + 1, min(last + rule.cool_down + 2, len(present)))
            high = [place for place in reach if scores[present[place]] >= rule.closing()]
            if not high:
                break
            last = high[-1]
        found.append((present[at], present[last]))
        at = last + rule.cool_down + 2
    return found


@given(SCORES, RULES)
def test_episodes_are_those_of_the_definition(scores, rule):
    assert spans(episodes_of(scores, rule=rule)) == by_definition(scores, rule)


@given(SCORES, RULES, st.integers(0, 60))
def test_a_batch_equals_the_stream_even_over_a_restart(scores, rule, cut):
    tracker, closed, opened = EpisodeTracker(rule, key="k"), [], []
    for index, score in enumerate(scores):
        if index == cut:
            state = json.loads(json.dumps(tracker.state()))
            tracker = EpisodeTracker(rule, key="k")
            tracker.restore(state)
        event = tracker.step(score, index=index)
        if event is not None and event.kind == "open":
            opened.append(event.episode.id)
        if event is not None and event.kind == "close":
            closed.append(event.episode)
    last = [] if tracker.current is None else [tracker.current]
    found = episodes_of(scores, rule=rule, key="k")
    assert found == closed + last
    assert [one.id for one in found] == opened


@given(SCORES, RULES)
def test_peaks_and_lengths_are_those_of_the_steps(scores, rule):
    for one in episodes_of(scores, rule=rule):
        inside = [-1 if x is None or math.isnan(x) else x for x in scores[one.start : one.end + 1]]
        assert one.peak == max(inside) >= rule.open_at
        assert one.peak_time == one.start + inside.index(one.peak)
        assert one.n_steps == len(inside)


def test_events_tell_the_story():
    tracker = EpisodeTracker(EpisodeRule(min_duration=2, cool_down=1), key="pump")
    scores = [1.2, 0.5, 1.1, 1.3, 0.7, 0.9, None, 0.1, 0.2, 0.3]
    events = [tracker.step(score, index=index) for index, score in enumerate(scores)]
    kinds = [event and event.kind for event in events]
    assert kinds == [None] * 3 + ["open"] + ["update"] * 4 + ["close", None]
    assert events[3].episode == Episode("pump-2", 2, 3, 3, 1.3, 2)
    assert events[-2].episode == Episode("pump-2", 2, 5, 3, 1.3, 4)
    assert tracker.current is None


def test_missing_scores_neither_open_nor_close_but_take_time():
    rule = EpisodeRule(min_duration=2)
    assert spans(episodes_of([None, 1.5, math.nan, 1.5, None, None, 0.9, 0.1], rule=rule)) == [
        (1, 6)
    ]
    tracker = EpisodeTracker()
    tracker.step(2.0, index=0)
    assert [tracker.step(None, index=n).kind for n in range(1, 50)] == ["update"] * 49
    assert tracker.step(0.1, index=50).kind == "close"


def test_alerts_inside_the_cool_down_are_one():
    scores = [2.0, 0, 0, 2.0, 0, 0, 0, 2.0]
    assert spans(episodes_of(scores, rule=EpisodeRule(cool_down=2))) == [(0, 3), (7, 7)]
    assert spans(episodes_of(scores, rule=EpisodeRule(cool_down=3))) == [(0, 7)]


def test_a_score_between_the_levels_keeps_open_and_does_not_open():
    assert spans(episodes_of([0.9, 1.0, 0.9, 0.8, 0.79, 0.9])) == [(1, 3)]


@pytest.mark.parametrize(
    ("settings", "usual", "closing"),
    [
        ({}, 0.1, 0.8),
        ({}, 0.7, 0.85),
        ({}, 3.0, 1.0),
        ({"open_at": 0.5}, 0.0, 0.4),
        ({"close_at": 0.3}, 0.9, 0.3),
    ],
)
def test_an_episode_closes_above_the_usual_score(settings, usual, closing):
    assert EpisodeRule(**settings).closing(usual) == pytest.approx(closing)


def test_a_detector_closes_above_its_usual_score(rng):
    x = rng.normal(size=(2_000, 20))
    x = np.cumsum(x, axis=0)[20:] - np.cumsum(x, axis=0)[:-20]  # sums of 20 rows
    detector = MambaDetector("tiny", contamination=0.3).fit(x)
    usual = np.median(detector.anomaly_score(x))
    assert usual > 0.8
    found = detector.episodes(x)
    expected = detector.episodes(x, EpisodeRule(close_at=(1 + usual) / 2))
    assert found["n_steps"].sum() == pytest.approx(expected["n_steps"].sum(), rel=0.01)
    longer = detector.episodes(x, EpisodeRule(close_at=0.8))
    assert found["n_steps"].sum() < 0.9 * longer["n_steps"].sum()


def test_channels_are_those_that_gave_most_over_the_episode():
    shares = [
        {"a": 9.0, "b": 0.0},
        {"a": 1.0, "b": 2.0},
        {"c": 2.5},
        {"a": 0.0, "b": 2.0, "d": 1.0},
    ]
    scores = [0.1, 1.5, 1.5, 1.5]
    (one,) = episodes_of(scores, contributions=shares)
    assert one.channels == ("b", "c", "a")
    (one,) = episodes_of(scores, rule=EpisodeRule(n_channels=1), contributions=shares)
    assert one.channels == ("b",)


def test_times_of_day_survive_json():
    start = datetime(2026, 3, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=n) for n in range(6)]
    scores = [0.1, 1.5, 1.6, 0.9, 0.1, 0.1]
    tracker = EpisodeTracker()
    for index in range(3):
        tracker.step(scores[index], times[index], index)
    other = EpisodeTracker()
    other.restore(json.loads(json.dumps(tracker.state())))
    events = [other.step(scores[n], times[n], n) for n in (3, 4)]
    assert events[-1].episode == episodes_of(scores, times)[0]
    assert events[-1].episode.peak_time == times[2]


def test_a_state_that_is_none_is_refused_and_changes_nothing():
    tracker = EpisodeTracker()
    tracker.step(2.0, index=3)
    for state in ({}, {"run": {"first": 1}}, {"run": 7}):
        with pytest.raises(ModelFileError, match="state of an EpisodeTracker"):
            tracker.restore(state)
    assert tracker.current.id == "3"


def test_numbers_of_numpy_are_taken():
    scores = np.array([0.1, 1.5, np.nan, 1.2, 0.1])
    tracker = EpisodeTracker()
    for index, score in enumerate(scores):
        tracker.step(score, np.int64(index), np.int64(index), {"a": np.float32(1)})
        json.dumps(tracker.state())
    assert spans(episodes_of(scores)) == [(1, 3)]


def test_a_frame_has_one_row_an_episode():
    start = datetime(2026, 3, 1)
    times = [start + timedelta(hours=n) for n in range(5)]
    shares = [{"a": 1.0}] * 5
    found = episodes_of([2.0, 0.1, 1.0, 3.0, 0.0], times, key="x", contributions=shares)
    frame = episode_frame(found, pl.Datetime("us"))
    assert frame.rows() == [
        ("x-0", times[0], times[0], times[0], 2.0, 1, ["a"]),
        ("x-2", times[2], times[3], times[3], 3.0, 2, ["a"]),
    ]
    assert episode_frame([], pl.Datetime("us")).schema == frame.schema
    assert episode_frame([]).schema["start"] == pl.Int64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"open_at": 0}, "EpisodeRule: open_at=0; pass a number above 0"),
        ({"close_at": math.nan}, "close_at=nan; pass a number above 0"),
        ({"close_at": 1.1}, "close_at=1.1 above open_at=1; pass a close_at that is no greater"),
        ({"min_duration": 0}, "min_duration=0; pass a whole number of at least 1"),
        ({"cool_down": -1}, "cool_down=-1; pass a whole number of at least 0"),
        ({"n_channels": 1.5}, "n_channels=1.5; pass a whole number of at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        EpisodeTracker(EpisodeRule(**settings))


def test_what_is_no_rule_is_refused(tiny):
    message = "rule='5'; pass an EpisodeRule or None"
    with pytest.raises(ParameterError, match=message):
        EpisodeTracker("5")
    with pytest.raises(ParameterError, match=message):
        tiny.episodes([[0, 0]], "5")


@pytest.mark.parametrize("name", ["times", "contributions"])
def test_lists_of_other_lengths_are_refused(name):
    with pytest.raises(ParameterError, match=f"{name}: 1 for 2 scores; pass one for each score"):
        episodes_of([1.0, 2.0], **{name: [{}] if name == "contributions" else [0]})


def test_a_rule_is_cloned():
    rule = EpisodeRule(cool_down=5)
    assert clone(rule).get_params() == rule.get_params()
