import numpy as np
import pytest

from tsmamba.anomaly.calibration import Conformal
from tsmamba.errors import ParameterError

N = 60_000


def exponential(rng, steps):
    return rng.exponential(size=N)


def wandering(rng, steps):
    return rng.exponential(size=N) * np.exp(2 * np.sin(steps / 4_000))


def jumping(rng, steps):
    return rng.exponential(size=N) * np.where(steps // 15_000 % 2 == 0, 1, 20)


def hanging_together(rng, steps):
    return np.convolve(rng.exponential(size=N + 19), np.ones(20) / 20, mode="valid")


@pytest.mark.parametrize("scores_of", [exponential, wandering, jumping, hanging_together])
@pytest.mark.parametrize("alpha", [0.002, 0.01])
def test_the_share_of_alerts_is_held(scores_of, alpha):
    rng = np.random.default_rng(0)
    before, scores = np.split(scores_of(rng, np.arange(N)), [3_000])
    thresholds, _ = Conformal(alpha=alpha, window=500).fit(before).step(scores)
    assert (scores >= thresholds).mean() == pytest.approx(alpha, rel=0.25)


def test_the_recent_scores_are_those_of_the_window(make_scores):
    calibrator = Conformal(window=100).fit(make_scores(1_000))
    scores = make_scores(1_000, seed=1)
    scores[::7] = np.nan
    scores[500:520] = scores[500]  # equal ones
    calibrator.step(scores)
    present = scores[~np.isnan(scores)]
    assert np.array_equal(calibrator.ordered, np.sort(present[-100:]))
    assert np.array_equal(np.roll(calibrator.recent, -calibrator.place), present[-100:])


def test_scores_that_are_mostly_zero_have_a_threshold():
    rng = np.random.default_rng(0)
    scores = np.where(rng.uniform(size=40_000) < 0.05, rng.exponential(size=40_000), 0)
    calibrator = Conformal(alpha=0.005).fit(scores[:4_000])
    thresholds, _ = calibrator.step(scores[4_000:])
    assert (thresholds > 0.5).all()
    assert (scores[4_000:] >= thresholds).mean() == pytest.approx(0.005, rel=0.2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.2}, "alpha=0.2; pass a number above 0 and below 0.1"),
        ({"window": 5}, "window=5; pass a whole number of at least 10"),
        ({"window": 50.0}, "window=50.0; pass a whole number"),
        ({"gain": 0}, "gain=0; pass a number above 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        Conformal(**settings).fit([1.0, 2.0])
