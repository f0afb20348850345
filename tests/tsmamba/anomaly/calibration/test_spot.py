import numpy as np
import pytest

from tsmamba.anomaly.calibration import DriftSpot, Spot
from tsmamba.errors import ParameterError

LAWS = {
    "exponential": lambda rng, n: rng.exponential(size=n),
    "light": lambda rng, n: np.abs(rng.normal(size=n)),
    "heavy": lambda rng, n: np.abs(rng.standard_t(3, size=n)),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("q", [1e-3, 5e-3])
@pytest.mark.parametrize("kind", [Spot, DriftSpot])
def test_alerts_come_with_the_probability_asked_for(law, q, kind):
    scores = law(np.random.default_rng(0), 105_000)
    calibrator = kind(q=q).fit(scores[:5_000])
    thresholds, _ = calibrator.step(scores[5_000:])
    assert (scores[5_000:] >= thresholds).mean() == pytest.approx(q, rel=0.25)


def test_it_learns_what_a_short_fit_could_not_know():
    scores = np.random.default_rng(0).exponential(size=100_000)
    calibrator = Spot(q=1e-3).fit(0.5 * scores[:1_000])
    thresholds, _ = calibrator.step(scores[1_000:])
    assert thresholds[-1] > 1.5 * thresholds[0]


def test_a_long_anomaly_hardly_moves_the_threshold():
    scores = np.random.default_rng(0).exponential(size=30_000)
    calm, struck = Spot(q=1e-3).fit(scores[:10_000]), Spot(q=1e-3).fit(scores[:10_000])
    burst = np.concatenate([scores[10_000:11_000], np.full(500, 50.0)])
    expected, _ = calm.step(scores[10_000:11_001])
    thresholds, _ = struck.step(burst)
    assert thresholds[-1] < 1.5 * expected[-1]
    assert struck.alerts <= 2e-3 * 11_000 + 2


def test_a_moving_mean_follows_scores_that_wander():
    rng = np.random.default_rng(0)
    scores = rng.exponential(size=40_000) + 20 + 20 * np.sin(np.arange(40_000) / 3_000)
    thresholds, _ = DriftSpot(q=1e-3, depth=100).fit(scores[:5_000]).step(scores[5_000:])
    assert (scores[5_000:] >= thresholds).mean() == pytest.approx(1e-3, rel=0.5)
    fixed, _ = Spot(q=1e-3).fit(scores[:5_000]).step(scores[5_000:])
    assert np.ptp(fixed) < np.ptp(thresholds) / 3


def test_rounding_does_not_add_up_in_the_moving_mean():
    scores = np.random.default_rng(0).exponential(size=20_050) * 1e6
    calibrator = DriftSpot(q=1e-9, depth=50).fit(scores[: 50 + 1_000])
    calibrator.step(scores[1_050:])
    assert calibrator.total == pytest.approx(calibrator.recent.sum(), rel=1e-12)


def test_too_few_scores_for_the_mean_are_refused():
    with pytest.raises(ParameterError, match="DriftSpot: depth=50 with 50 scores; pass more"):
        DriftSpot(depth=50).fit(np.ones(50))
    with pytest.raises(ParameterError, match="depth=0; pass a whole number of at least 1"):
        DriftSpot(depth=0).fit(np.ones(50))
