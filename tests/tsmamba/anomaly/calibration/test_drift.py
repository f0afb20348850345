import numpy as np
import pytest
from sklearn.base import clone

from tsmamba.anomaly.calibration import Conformal, Drift, Quantile, judged
from tsmamba.errors import ModelFileError, ParameterError

PATIENCE = 200


@pytest.fixture
def watch(calibration, make_scores):
    return Drift(patience=PATIENCE).watch(calibration.fit(make_scores(3_000)))


@pytest.fixture
def shifting(make_scores):
    """Normal, ten times as high, three times as high, normal; with holes."""
    scores = make_scores(4_000, seed=1)
    scores[1_000:2_000] *= 10
    scores[2_000:3_000] *= 3
    scores[::13] = np.nan
    return scores


def same(one, other):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def joined(parts):
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def test_chunks_equal_one_by_one(watch, shifting):
    expected = watch.copy().step(shifting)
    single, uneven = watch.copy(), watch.copy()
    assert same(expected, joined(single.step([score]) for score in shifting))
    assert same(expected, joined(map(uneven.step, np.split(shifting, [1, 1_205, 1_206, 3_700]))))
    assert same(single.state().values(), uneven.state().values())


def test_streams_at_once_equal_each_by_itself(watch, shifting):
    scores = shifting.reshape(4, -1)
    watches, alone = ([watch.copy() for _ in scores] for _ in range(2))
    found = judged(watches, scores)
    for i, (one, row) in enumerate(zip(alone, scores, strict=True)):
        assert same([part[i] for part in found], one.step(row))
        assert same(watches[i].state().values(), one.state().values())


def test_scores_are_kept_in_the_order_of_time(make_scores):
    watch = Drift(patience=50).watch(Quantile().fit(make_scores(500)))
    scores = make_scores(130, seed=1)
    thresholds = watch.step(scores).thresholds
    state = watch.copy().state()
    np.testing.assert_array_equal(state["scores"], scores[-50:])
    places = (scores >= thresholds).astype(int) - (scores < watch.typical)
    np.testing.assert_array_equal(state["places"], places[-50:])


def test_a_restored_watch_continues_bit_for_bit(watch, shifting):
    fresh = watch.copy()
    watch.step(shifting[:1_700])
    state = watch.state()
    fresh.restore(state)
    assert same(watch.step(shifting[1_700:]), fresh.step(shifting[1_700:]))
    assert same(watch.state().values(), fresh.state().values())


def test_its_size_stays(watch, shifting):
    before = {name: part.nbytes for name, part in watch.state().items()}
    watch.step(shifting)
    assert {name: part.nbytes for name, part in watch.state().items()} == before


def test_without_a_change_of_level_it_is_the_calibrator(watch, make_scores):
    scores = make_scores(5_000, seed=2)
    scores[1_000:1_080] *= 10  # an anomaly shorter than patience
    expected = watch.calibrator.copy().step(scores)
    thresholds, p_values, drifted = watch.step(scores)
    assert not drifted.any()
    assert same(expected, (thresholds, p_values))


def test_a_change_of_level_alerts_and_is_then_the_new_normal(make_scores):
    watch = Drift(patience=PATIENCE).watch(Quantile().fit(make_scores(3_000)))
    scores = make_scores(3_000, seed=1)
    scores[1_000:] *= 10
    thresholds, _, drifted = watch.step(scores)
    alerts = scores >= thresholds
    change = int(drifted.argmax())
    assert 1_000 + PATIENCE // 2 - 1 <= change <= 1_000 + PATIENCE
    assert drifted.sum() == 1
    assert alerts[1_000 : change + 1].mean() > 0.9
    assert not alerts[change + 1 :].any()
    assert watch.factor == pytest.approx(10, rel=0.3)


def test_the_way_back_is_found_too(make_scores):
    watch = Drift(patience=PATIENCE).watch(Quantile().fit(make_scores(3_000)))
    scores = make_scores(4_000, seed=1)
    scores[1_000:2_000] *= 10
    scores[2_000:3_000] *= 3
    thresholds, _, drifted = watch.step(scores)
    assert drifted[1_000:2_000].sum() == drifted[2_000:3_000].sum() == 1
    normal = thresholds[0]
    assert 2 * normal < thresholds[2_999] < 5 * normal
    assert thresholds[-1] == pytest.approx(normal, rel=0.3)
    assert (thresholds >= normal * (1 - 1e-12)).all()
    spike = watch.step([5 * normal])
    assert 5 * normal >= spike.thresholds[0]


def test_quiet_scores_never_make_it_more_sensitive_than_the_fit(make_scores):
    watch = Drift(patience=PATIENCE).watch(Quantile().fit(make_scores(3_000)))
    thresholds, _, drifted = watch.step(0.01 * make_scores(3_000, seed=1))
    assert not drifted.any()
    assert np.ptp(thresholds) == 0


def test_a_typical_score_of_zero_is_no_obstacle():
    rng = np.random.default_rng(0)
    scores = np.where(rng.uniform(size=5_000) < 0.1, rng.exponential(size=5_000), 0)
    watch = Drift(patience=100).watch(Quantile().fit(scores))
    thresholds, _, drifted = watch.step(np.full(1_000, 30.0))
    assert drifted.sum() == 1
    assert (thresholds[100:] > 30).all()


def test_a_state_of_another_kind_is_refused_and_changes_nothing(make_scores):
    watch = Drift(patience=50).watch(Quantile().fit(make_scores(500)))
    other = Drift(patience=50).watch(Conformal().fit(make_scores(500)))
    state = watch.state()
    with pytest.raises(ModelFileError, match="state of a FixedCalibrator"):
        watch.restore(other.state())
    del state["factor"]
    with pytest.raises(ModelFileError, match=r"state of a Watch: missing \['factor'\]"):
        watch.restore(state)
    assert watch.factor == 1


@pytest.mark.parametrize("patience", [1, 2.5, True])
def test_patience_out_of_range_is_refused(patience, make_scores):
    with pytest.raises(
        ParameterError, match=r"Drift: patience=.*; pass a whole number of at least 2"
    ):
        Drift(patience=patience).watch(Quantile().fit(make_scores(500)))


def test_it_is_cloned():
    assert clone(Drift(patience=7)).patience == 7
