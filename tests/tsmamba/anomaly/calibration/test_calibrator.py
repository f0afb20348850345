"""Laws that hold for every calibration."""

import time

import numpy as np
import pytest
from sklearn.base import clone

from tsmamba.anomaly.calibration import Quantile, Spot
from tsmamba.errors import ModelFileError, ParameterError

HOLES = [0, 1, 17, 300, 301, 302, 1_400]


@pytest.fixture
def later(make_scores):
    """Scores with holes, a burst, and a rise that alerts."""
    scores = make_scores(1_500, seed=1)
    scores[400:430] *= 3
    scores[900:] *= 1.3
    scores[HOLES] = np.nan
    return scores


@pytest.fixture
def fitted(calibration, make_scores):
    return calibration.fit(make_scores(3_000))


def same(one, other):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def same_state(one, other):
    first, second = one.state(), other.state()
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=first[name].dtype.kind == "f")
        for name in first
    )


def test_chunks_equal_one_by_one(fitted, later):
    whole, single, uneven = fitted.copy(), fitted.copy(), fitted.copy()
    expected = whole.step(later)
    assert same(expected, map(np.concatenate, zip(*(single.step([x]) for x in later), strict=True)))
    parts = np.split(later, [3, 3, 417, 418, 1_111])
    assert same(expected, map(np.concatenate, zip(*map(uneven.step, parts), strict=True)))
    assert same_state(whole, single)
    assert same_state(whole, uneven)


def test_p_values_of_many_streams_are_looked_up_at_once(fitted, later):
    streams = [fitted.copy() for _ in range(3)]
    scores = np.split(later, 3)
    judged = [
        [stream.judge(score) for score in part.tolist()]
        for stream, part in zip(streams, scores, strict=True)
    ]
    thresholds = [[threshold for threshold, _ in rows] for rows in judged]
    p_values = fitted.p_values([evidence for rows in judged for _, evidence in rows])
    expected = [fitted.copy().step(part) for part in scores]
    assert same(thresholds, [one for one, _ in expected])
    assert same([p_values], [np.concatenate([other for _, other in expected])])


def test_what_comes_later_changes_nothing(fitted, later):
    changed = later.copy()
    changed[700:] = 99.0
    # A threshold is known before the score it judges; a p-value is of the score itself.
    thresholds, p_values = fitted.copy().step(later)
    others, other_p_values = fitted.copy().step(changed)
    assert same([thresholds[:701], p_values[:700]], [others[:701], other_p_values[:700]])


def test_a_restored_calibrator_continues_bit_for_bit(calibration, fitted, make_scores, later):
    fitted.step(later[:700])
    state = fitted.state()
    other = calibration.fit(make_scores(2_000, seed=5))
    other.restore(state)
    fresh = calibration.restored(state)
    expected = fitted.step(later[700:])
    assert same(expected, other.step(later[700:]))
    assert same(expected, fresh.step(later[700:]))
    assert same_state(fitted, other)
    assert same_state(fitted, fresh)


def test_a_state_does_not_change_with_its_calibrator(fitted, later):
    state = fitted.state()
    kept = {name: part.copy() for name, part in state.items()}
    fitted.step(later)
    assert all(np.array_equal(kept[name], state[name], equal_nan=True) for name in kept)


def test_a_state_of_another_kind_is_refused_and_changes_nothing(fitted, make_scores):
    before = fitted.copy()
    state = fitted.state()
    del state["law.knots"]
    with pytest.raises(ModelFileError, match=r"missing \['law.knots'\], unknown \['more'\]"):
        fitted.restore(state | {"more": np.zeros(1)})
    assert same_state(before, fitted)


def test_a_copy_goes_its_own_way(calibration, fitted, make_scores, later):
    fitted.copy().step(later)
    assert same_state(fitted, calibration.fit(make_scores(3_000)))


def test_a_missing_score_has_a_threshold_and_leaves_the_state(fitted, later):
    untouched = fitted.copy()
    thresholds, p_values = fitted.step([np.nan, np.nan])
    assert np.array_equal(thresholds, untouched.copy().step([1.0, 1.0])[0][[0, 0]])
    assert np.isnan(p_values).all()
    assert same_state(fitted, untouched)
    assert same(
        [part[1:] for part in fitted.step(np.concatenate([[np.nan], later]))],
        untouched.step(later),
    )


def test_its_size_stays(fitted, make_scores):
    def size():
        return {name: part.nbytes for name, part in fitted.state().items()}

    before = size()
    fitted.step(make_scores(20_000, seed=3))
    assert size() == before
    assert sum(before.values()) < 20_000


def test_it_costs_microseconds_a_score(fitted, make_scores):
    scores = make_scores(20_000, seed=3)

    def seconds():
        started = time.perf_counter()
        fitted.copy().step(scores)
        return time.perf_counter() - started

    assert min(seconds() for _ in range(3)) / scores.size < 20e-6  # 1 to 6 on an idle machine


def test_thresholds_and_p_values_are_positive(fitted, later):
    thresholds, p_values = fitted.step(np.concatenate([later, [0.0, 1e3, 1e9, np.inf]]))
    assert (thresholds > 0).all()
    present = p_values[~np.isnan(p_values)]
    assert ((present > 0) & (present <= 1)).all()


def test_a_p_value_falls_as_the_score_rises(fitted, later):
    fitted.step(later)
    scores = np.linspace(0, 20, 400)
    single = np.array([fitted.copy().step([score])[1][0] for score in scores])
    for p_values in (single, fitted.tail(scores)):
        assert (np.diff(p_values) <= 0).all()
        tail = (p_values < 0.02) & (p_values > 1e-300)
        assert tail.sum() > 100
        assert (np.diff(p_values[tail]) < 0).all()


def test_p_values_are_uniform_on_scores_like_those_of_the_fit(calibration):
    rng = np.random.default_rng(0)
    scores = rng.exponential(size=60_000)
    fitted = calibration.fit(scores[:20_000])
    later = scores[20_000:]
    for p_values in (fitted.tail(later), fitted.step(later)[1]):
        for level in (0.9, 0.5, 0.1, 0.01):
            share = (p_values <= level).mean()
            assert share == pytest.approx(level, rel=0.15, abs=0.01 * level)


def test_the_unit_of_the_scores_does_not_matter(calibration, fitted, make_scores, later):
    other = calibration.fit(1e3 * make_scores(3_000))
    thresholds, p_values = fitted.step(later)
    other_thresholds, other_p_values = other.step(1e3 * later)
    np.testing.assert_allclose(other_thresholds, 1e3 * thresholds, rtol=1e-9)
    np.testing.assert_allclose(other_p_values, p_values, rtol=1e-6)


def test_settings_are_cloned_and_left_alone(calibration, make_scores):
    before = calibration.get_params()
    calibration.fit(make_scores(500), steps_per_day=100)
    assert calibration.get_params() == before
    assert clone(calibration).get_params() == before


@pytest.mark.parametrize("value", [0.0, 2.5])
def test_constant_scores_alert_no_more_than_asked_for(calibration, value):
    fitted = calibration.fit(np.full(500, value))
    thresholds, p_values = fitted.step(np.full(500, value))
    # Where a share or a rate of alerts is held, it is held on a constant as well.
    follows = getattr(fitted, "gain", 0) > 0
    assert (value >= thresholds).mean() <= (0.012 if follows else 0)
    assert (p_values > 0.5).all()
    assert fitted.step([value + 1])[1][0] < 1e-3


def test_one_score_is_enough_for_all_but_a_moving_mean(calibration):
    scores = np.full(51, 3.0) if "depth" in calibration.get_params() else np.array([3.0])
    assert calibration.fit(scores).step([1.0])[0] > 3


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], r"scores: 0 without a finite one; pass at least one"),
        ([np.nan] * 3, r"scores: 3 without a finite one"),
        ([1.0, -0.5], r"scores: -0.5; pass finite numbers of at least 0"),
        ([1.0, np.inf], r"scores: inf; pass finite numbers"),
        ([[1.0, 2.0]], r"scores: shape \(1, 2\); pass one score a step"),
    ],
)
def test_scores_that_cannot_be_used_are_refused(calibration, scores, message):
    with pytest.raises(ParameterError, match=message):
        calibration.fit(scores)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            Quantile(contamination=1.0),
            "Quantile: contamination=1.0; pass a number above 0 and below",
        ),
        (Quantile(contamination=True), "contamination=True; .* or None"),
        (Spot(q=0), "Spot: q=0; pass a number above 0 and below 1"),
        (Spot(q="a"), "Spot: q='a'; pass a number"),
        (Spot(q=0.1), r"Spot: q=0.1 with level=0.98; pass a q below 0.02, or a lower level"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        settings.fit([1.0, 2.0])
