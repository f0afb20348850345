import json
import math
import time

import numpy as np
import polars as pl
import pytest

from tsmamba.errors import ParameterError
from tsmamba.metrics import NabFile, best_nab_threshold, nab_score
from tsmamba.metrics.ranges import ranges_of

PROFILES = ("standard", "reward_low_FP_rate", "reward_low_FN_rate")


def sigmoid_worth(place):
    return -1.0 if place >= 3 else 2 / (1 + math.exp(5 * place)) - 1


def slow_score(files, threshold, profile):
    """The rules, row by row."""
    false_cost, miss_cost = {
        "standard": (0.11, 1),
        "reward_low_FP_rate": (0.22, 1),
        "reward_low_FN_rate": (0.11, 2),
    }[profile]
    total, windows = 0.0, 0
    for scores, limits, probation in files:
        judged = [t for t in range(len(scores)) if t >= probation]
        alerts = [t for t in judged if scores[t] >= threshold]
        for first, last in limits:
            if last < probation:
                continue
            windows += 1
            inside = [t for t in alerts if first <= t <= last]
            if inside:
                place = -(last - inside[0] + 1) / (last - first + 1)
                total += sigmoid_worth(place) / sigmoid_worth(-1)
            else:
                total -= miss_cost
        for t in alerts:
            if any(first <= t <= last for first, last in limits):
                continue
            place = 3.0
            for first, last in limits:
                if last < t:
                    place = (t - last) / max(last - first, 1)
            total += false_cost * sigmoid_worth(place)
    null = -miss_cost * windows
    return 100 * (total - null) / (windows - null)


def corpus(rng, levels):
    files = []
    for _ in range(rng.integers(1, 5)):
        cuts = np.sort(rng.choice(80, size=2 * rng.integers(1, 4), replace=False))
        windows = [(int(a), int(b) - 1) for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
        files.append(NabFile(rng.integers(levels, size=80) / 8, windows, int(rng.integers(30))))
    files.append(NabFile(rng.integers(levels, size=30) / 8, [], 0))
    files.append(NabFile(rng.integers(levels, size=30) / 8, [(20, 25)], 0))
    return files


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_it_equals_the_rules_at_every_threshold(rng, profile, levels):
    for _ in range(4):
        files = corpus(rng, levels)
        thresholds = np.unique(np.concatenate([file.scores for file in files]))
        for threshold in rng.choice(thresholds, size=min(len(thresholds), 12), replace=False):
            expected = slow_score(files, threshold, profile)
            assert nab_score(files, threshold, profile).score == pytest.approx(expected)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_the_sweep_finds_the_best_of_all_thresholds(rng, profile, levels):
    for _ in range(2):
        files = corpus(rng, levels)
        thresholds = [*np.unique(np.concatenate([file.scores for file in files])), np.inf]
        scores = [nab_score(files, threshold, profile).score for threshold in thresholds]
        best = best_nab_threshold(files, profile)
        assert best.score == pytest.approx(max(scores))
        again = nab_score(files, best.threshold, profile)
        assert again.score == pytest.approx(best.score)
        assert again[1:] == best[1:]


def test_no_alert_gives_0_and_an_alert_at_the_start_of_each_window_100():
    scores = np.zeros(1000)
    scores[[300, 800]] = 1
    files = [NabFile(scores, [(300, 349), (800, 899)])]
    assert nab_score(files, 2.0).score == 0
    assert nab_score(files, 1.0) == pytest.approx((100, 1.0, 2, 0, 0))


def test_where_alerts_do_harm_the_best_is_none():
    scores = np.zeros(1000)
    scores[200:250] = 1
    best = best_nab_threshold([NabFile(scores, [(500, 501)])])
    assert (best.score, best.threshold, best.found, best.missed) == (0, np.inf, 0, 1)


@pytest.mark.parametrize(("rows", "probation"), [(100, 15), (4032, 604), (22_695, 750)])
def test_the_first_rows_are_not_judged(rows, probation):
    scores = np.zeros(rows)
    scores[: probation + 1] = 1
    assert nab_score([NabFile(scores, [(rows - 2, rows - 1)])], 1.0).false_alerts == 1


def test_a_window_inside_the_probation_is_not_counted():
    scores = np.ones(100)
    files = [NabFile(scores, [(5, 9), (10, 29), (90, 92)], 20)]
    result = nab_score(files, 1.0)
    assert (result.found, result.missed) == (2, 0)
    assert nab_score(files, 1.0, "reward_low_FN_rate").score == pytest.approx(
        slow_score(files, 1.0, "reward_low_FN_rate")
    )


@pytest.fixture
def windowed_gaussian(data_dir):
    """The published scores of one detector on all 58 files; labels are the windows."""
    raw = pl.read_parquet(data_dir / "nab/results/windowedGaussian/raw_scores.parquet")
    files = []
    for _, frame in raw.group_by("file", maintain_order=True):
        windows = ranges_of(frame["label"].to_numpy() == 1)
        files.append(NabFile(frame["anomaly_score"].to_numpy(), list(zip(*windows, strict=True))))
    return files


@pytest.mark.data
def test_it_gives_the_published_scores(windowed_gaussian, data_dir):
    published = json.loads((data_dir / "nab/results/final_results.json").read_text())
    for profile in PROFILES:
        result = nab_score(windowed_gaussian, 1.0, profile)
        expected = published["windowedGaussian"][profile]
        assert result.score == pytest.approx(expected, abs=1e-6)
        assert result[2:] == (73, 43, 409)


@pytest.mark.data
def test_the_sweep_of_the_whole_benchmark_is_quick(windowed_gaussian):
    began = time.perf_counter()
    best = best_nab_threshold(windowed_gaussian)
    assert time.perf_counter() - began < 2
    assert best.threshold == 1.0
    assert best.score == pytest.approx(39.649523496077585, abs=1e-6)


@pytest.mark.parametrize(
    "windows",
    [
        [(3, 2)],
        [(3, 5), (5, 6)],
        [(6, 7), (2, 3)],
        [(-1, 3)],
        [(8, 10)],
        [(1.0, 2.0)],
        [(1, 2, 3)],
        [1, 2],
    ],
)
def test_windows_must_lie_in_order_inside_the_scores(windows):
    with pytest.raises(ParameterError, match=r"files\[1\].windows=.* with 10 scores"):
        nab_score([NabFile(np.zeros(10), [(1, 2)]), NabFile(np.zeros(10), windows)], 1.0)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (NabFile([0, np.nan], [(1, 1)]), r"files\[0\].scores holds 1 NaN"),
        (NabFile([0, 1], [(1, 1)], -1), r"files\[0\].probation=-1; pass a whole number"),
        (NabFile([0, 1], [(1, 1)], 2), "files holds 1 files and no window after the probation"),
        (NabFile([0, 1], []), "files holds 1 files and no window after the probation"),
    ],
)
def test_it_says_what_it_cannot_use(file, message):
    for call in (best_nab_threshold, lambda files: nab_score(files, 1.0)):
        with pytest.raises(ParameterError, match=message):
            call([file])


def test_threshold_and_profile_are_checked():
    files = [NabFile([0, 1], [(1, 1)], 0)]
    with pytest.raises(ParameterError, match="threshold=nan; pass a number"):
        nab_score(files, math.nan)
    with pytest.raises(ParameterError, match="threshold=None; pass a number"):
        nab_score(files, None)
    with pytest.raises(ParameterError, match="profile='low'; pass one of 'standard', 'reward_low"):
        nab_score(files, 1.0, "low")
