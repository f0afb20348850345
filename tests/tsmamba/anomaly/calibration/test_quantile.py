import numpy as np
import pytest

from tsmamba.anomaly.calibration import Quantile
from tsmamba.anomaly.calibration.clusters import count_episodes, run_length


@pytest.mark.parametrize("contamination", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("n", [10, 1_000])
def test_the_share_above_is_the_contamination(contamination, n):
    scores = np.random.default_rng(0).exponential(size=n)
    thresholds, _ = Quantile(contamination=contamination).fit(scores).step(scores)
    assert (scores >= thresholds).sum() == np.ceil(contamination * (n - 1))


def test_without_one_a_time_as_long_has_one_episode(make_scores):
    counts = []
    for seed in range(20):
        scores = make_scores(20_000, seed)
        before, later = np.split(scores, 2)
        thresholds, _ = Quantile().fit(before).step(later)
        counts.append(count_episodes(later >= thresholds, run_length(before)))
    assert np.mean(counts) == pytest.approx(1, abs=0.5)


def test_a_threshold_is_never_below_the_least(rng):
    scores = rng.exponential(size=500)
    free = Quantile(contamination=0.1).fit(scores).threshold
    for least, threshold in ((free / 2, free), (2 * free, 2 * free)):
        assert Quantile(contamination=0.1, least=least).fit(scores).threshold == threshold
