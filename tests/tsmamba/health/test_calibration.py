import json

import numpy as np
import pytest

from tsmamba import MambaDetector
from tsmamba.errors import ParameterError
from tsmamba.health import CalibrationDrift
from tsmamba.health.calibration import Bets

RUNS, VALUES = 200, 10_000


def highest_evidence(hits, monitor):
    """Return the highest evidence up to each value, of many runs at once."""
    low, high = monitor.limits
    bets = Bets(low, high)
    won = np.zeros((hits.shape[0], len(bets.start())))
    best = np.zeros(hits.shape)
    for number in range(hits.shape[1]):
        won = bets.after(won, hits[:, number])
        best[:, number] = bets.evidence(won)
    return np.maximum.accumulate(best, axis=1)


@pytest.mark.parametrize(
    ("rate", "tolerance", "edge"), [(0.1, 0.0, 0), (0.1, 0.2, 0), (0.1, 0.2, 1), (0.02, 0.2, 1)]
)
def test_false_alarms_are_as_rare_as_promised(rate, tolerance, edge, rng):
    monitor = CalibrationDrift(rate, tolerance=tolerance)
    # At the edges of what is well, where the promise is the hardest to keep; without a tolerance
    # both are the nominal rate.
    hits = rng.uniform(size=(RUNS, VALUES)) <= monitor.limits[edge]
    best = highest_evidence(hits, monitor)
    for run_length in (20_000, 100_000, 1_000_000):
        promised = VALUES / run_length
        fired = (best[:, -1] >= run_length).mean()
        assert fired <= promised + 3 * np.sqrt(promised * (1 - promised) / RUNS)
    # It is a test: some runs do bring evidence.
    assert (best[:, -1] > 100).any()


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.1), (0.05, 0.2), (0.4, 0.7)])
def test_no_bet_wins_in_the_mean(low, high):
    """Started anew each time with a stake of one, bets are worth the stakes, or less."""
    steps = 10
    sequences = (np.arange(2**steps)[:, None] >> np.arange(steps)) % 2 == 1
    bets = Bets(low, high)
    won = np.zeros((len(sequences), len(bets.start())))
    for hits in sequences.T:
        won = bets.after(won, hits)
    for rate in np.linspace(low, high, 5):
        chances = np.where(sequences, rate, 1 - rate).prod(axis=1)
        mean = chances @ bets.evidence(won)
        assert mean <= steps * (1 + 1e-9)
        assert low < high or mean == pytest.approx(steps)


def test_the_monitor_is_the_test_that_was_tried(rng):
    p_values = rng.uniform(size=3_000)
    monitor = CalibrationDrift(0.1)
    best = highest_evidence((p_values <= 0.1)[None], monitor)
    evidence = []
    for p_value in p_values:
        monitor.observe([p_value])
        evidence.append(monitor.evidence)
    assert np.allclose(np.maximum.accumulate(evidence), best[0])


@pytest.mark.parametrize(
    ("true_rate", "within"), [(0.2, 900), (0.15, 8_000), (0.05, 2_000), (0.0, 400), (1.0, 20)]
)
def test_another_rate_is_found_after_a_long_time_that_was_well(true_rate, within, rng):
    monitor = CalibrationDrift(0.1)
    assert monitor.observe(rng.uniform(size=VALUES)).ok
    check = monitor.observe(rng.uniform(size=within) < true_rate)
    assert not check.ok
    assert VALUES < monitor.fired_at <= VALUES + within
    assert f"fired after {monitor.fired_at} values" in check.message


def test_chunks_equal_one_by_one_and_the_whole(rng):
    p_values = rng.uniform(size=500) ** 3
    p_values[::7] = np.nan
    whole, single, uneven = (CalibrationDrift(every=3) for _ in range(3))
    whole.observe(p_values)
    for p_value in p_values:
        single.observe(p_value)
    for chunk in np.split(p_values, [1, 2, 300, 301]):
        uneven.observe(chunk)
    assert whole.state() == single.state() == uneven.state()
    assert whole.fired_at is not None


def test_an_alarm_in_the_middle_of_a_chunk_stays_until_reset(rng):
    bad, good = np.full(60, 0.001), rng.uniform(size=5_000)
    monitor = CalibrationDrift()
    check = monitor.observe(np.concatenate([bad, good]))
    assert not check.ok
    assert check.value == pytest.approx(0.1, abs=0.05)  # of late all is well
    assert not monitor.observe(good).ok
    monitor.reset()
    assert monitor.observe(good).ok


def test_missing_scores_are_passed_over():
    one, other = CalibrationDrift(), CalibrationDrift()
    one.observe([None, 0.05, float("nan"), 0.5])
    other.observe([0.05, 0.5])
    assert one.state() == other.state()
    assert CalibrationDrift().observe([None]).message == "p_values: nothing seen yet"


def test_every_tenth_value_counts_across_chunks():
    thin, kept = CalibrationDrift(every=10), CalibrationDrift()
    p_values = np.linspace(0, 1, 95)
    for chunk in np.split(p_values, [3, 33, 34]):
        thin.observe(chunk)
    kept.observe(p_values[::10])
    assert thin.won == kept.won


def test_intervals_that_miss_too_often_or_never_are_found(rng):
    truth = rng.normal(size=6_000)
    half = 1.645  # of an interval that misses one time in ten
    for scale, ok in ((1.0, True), (0.7, False), (2.0, False)):
        monitor = CalibrationDrift(reads="misses")
        assert monitor.observe(np.abs(truth) > half * scale).ok is ok


def season(length, seed, noise):
    rng = np.random.default_rng(seed)
    return np.sin(2 * np.pi * np.arange(length) / 24) + noise * rng.normal(size=length)


@pytest.fixture(scope="module")
def detector():
    return MambaDetector(preset="tiny").fit(season(3_000, 0, 0.3)[:, None])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_stream_that_stays_normal_is_well(detector, seed):
    monitor = CalibrationDrift()
    results = detector.stream().score_many(season(6_000, seed, 0.3))
    assert monitor.observe([result.p_value for result in results]).ok
    assert monitor.counted > 5_900


@pytest.mark.parametrize(
    ("drifted", "within"),
    [(season(6_000, 1, 0.5), 2_000), (3 * season(6_000, 1, 0.3), 100)],
    ids=["more noise", "three times as large"],
)
def test_a_stream_whose_data_drift_is_found(detector, drifted, within):
    monitor = CalibrationDrift()
    results = detector.stream().score_many(drifted)
    assert not monitor.observe([result.p_value for result in results]).ok
    assert monitor.fired_at < within


def test_a_restored_monitor_goes_on_and_its_state_stays_small(rng):
    one, other = CalibrationDrift(), CalibrationDrift()
    one.observe(rng.uniform(size=100))
    size = len(json.dumps(one.state()))
    one.observe(rng.uniform(size=3_000))
    text = json.dumps(one.state(), allow_nan=False)
    assert len(text) < size + 40
    other.restore(json.loads(text))
    p_values = rng.uniform(size=200) ** 2
    assert one.observe(p_values) == other.observe(p_values)
    assert one.metrics() == other.metrics()


def test_numbers_that_are_no_p_values_are_refused_before_any_is_counted():
    monitor = CalibrationDrift()
    before = monitor.state()
    with pytest.raises(ParameterError, match=r"1\.5 is no p-value; pass numbers from 0 to 1"):
        monitor.observe([0.2, 1.5])
    assert monitor.state() == before


@pytest.mark.parametrize(
    "given",
    [{"rate": 0.0}, {"rate": 0.9}, {"tolerance": 1.0}, {"run_length": 1}, {"every": 0}],
)
def test_settings_out_of_range_are_refused(given):
    with pytest.raises(ParameterError, match=next(iter(given))):
        CalibrationDrift(**given)
