"""The trivial rules, and what is counted of them."""

import numpy as np

from benchmarks.logs.rules import Rules
from benchmarks.logs.sessions import f1, f1_within, frame, scored
from tsmamba import LogDetector

TRAIN = [[1, 2, 2, 3], [1, 2, 3]]


def test_each_rule_sees_what_it_is_for() -> None:
    scores = Rules(TRAIN).scores([[1, 2, 3], [1, 9, 3], [1, 2, 2, 2, 2, 3], [3, 2, 1]])
    assert scores["unseen template"].tolist() == [0, 1, 0, 0]
    assert scores["length"].tolist() == [0, 0, 2, 0]
    counts = scores["counts"]
    assert counts[0] == 0
    assert counts[3] == 0, "counts know no order"
    np.testing.assert_allclose(counts[2], np.log1p(4) - np.log1p(2))
    assert (scores["all three"][1:3] > scores["all three"][0]).all()


def test_f1_with_weights_is_that_of_repeated_sessions() -> None:
    alert = np.array([True, True, False, False])
    abnormal = np.array([True, False, True, False])
    weight = np.array([3.0, 2.0, 1.0, 5.0])
    times = weight.astype(int)
    plain = f1(np.repeat(alert, times), np.repeat(abnormal, times), np.ones(times.sum()))
    assert f1(alert, abnormal, weight) == plain == 2 * 3 / (5 + 4)


def test_no_more_false_alarms_than_allowed() -> None:
    score = np.r_[np.arange(2_000.0), np.full(100, 1_997.5)]
    abnormal = np.r_[np.zeros(2_000, bool), np.ones(100, bool)]
    best, share = f1_within(score, abnormal, np.ones(2_100))
    # Two of 2,000 lie above the abnormal ones, which is just the target of .1 %.
    assert share == 0.001
    assert best == 2 * 100 / (102 + 100)


def test_scores_come_back_in_the_order_of_the_sessions() -> None:
    sessions = [[0, 1, 2]] * 60 + [[0, 1, 1, 2]] * 60
    detector = LogDetector(session="session", session_timeout=None, trim=0.0).fit(frame(sessions))
    found = scored(detector, [[0, 1, 2], [7, 7], [0, 1, 1, 2]])
    assert found["stream"].to_list() == ["s0", "s1", "s2"]
    assert found["is_anomaly"].to_list() == [False, True, False]
