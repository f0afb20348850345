import numpy as np
import pytest

from tsmamba.anomaly.calibration.clusters import (
    EpisodeThreshold,
    cluster_peaks,
    count_episodes,
    run_length,
)


def test_peaks_are_those_that_a_plain_search_finds(make_scores):
    scores = make_scores(600)
    scores[[5, 90, 91, 92, 400]] = np.nan
    for run in (1, 4, 25):
        expected = [
            score
            for at, score in enumerate(scores)
            if score >= np.nanmax(scores[max(0, at - run) : at + run + 1], initial=-np.inf)
        ]
        assert cluster_peaks(scores, run).tolist() == sorted(expected)


def test_a_plateau_is_one_peak():
    assert cluster_peaks(np.array([1.0, 3, 3, 3, 1, 0, 0]), run=2).tolist() == [3.0]
    assert cluster_peaks(np.full(50, 2.0), run=5).tolist() == [2.0]


def test_there_are_at_least_as_many_peaks_as_episodes(make_scores):
    scores = make_scores(5_000)
    for run in (5, 40):
        peaks = cluster_peaks(scores, run)
        for threshold in np.quantile(scores, [0.5, 0.9, 0.99, 0.999]):
            episodes = count_episodes(scores >= threshold, run)
            assert episodes <= (peaks >= threshold).sum()
        assert (peaks >= threshold).sum() <= episodes + 1


@pytest.mark.parametrize(
    ("above", "run", "count"),
    [
        ([], 1, 0),
        ([0, 0], 1, 0),
        ([1, 0, 1], 1, 2),
        ([1, 0, 1], 2, 1),
        ([1, 1, 0, 0, 1, 1, 0, 0, 0, 1], 3, 2),
    ],
)
def test_episodes_are_counted_by_hand(above, run, count):
    assert count_episodes(np.array(above, dtype=bool), run) == count


@pytest.mark.parametrize("width", [1, 10, 100])
def test_a_run_is_about_the_width_of_the_mean(make_scores, width):
    scores = make_scores(30_000, width=width)
    assert 0.7 * width <= run_length(scores) <= 1.1 * width
    scores[::11] = np.nan
    assert 0.6 * width <= run_length(scores) <= 1.1 * width


def test_a_run_is_bounded_where_scores_never_part():
    assert run_length(np.arange(1_000.0)) <= 50
    assert run_length(np.ones(1_000)) == 1
    assert run_length(np.array([3.0])) == 1


def test_a_threshold_falls_as_more_episodes_are_expected(make_scores):
    scores = make_scores(10_000)
    values = [EpisodeThreshold.fit(scores, n, 20).value for n in (0.01, 0.1, 1, 5, 20, 100)]
    assert (np.diff(values) < 0).all()
    for expected in (20, 100):
        threshold = EpisodeThreshold.fit(scores, expected, 20).value
        assert count_episodes(scores >= threshold, 20) == pytest.approx(expected, rel=0.3)
