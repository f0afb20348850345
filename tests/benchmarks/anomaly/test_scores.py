from dataclasses import replace

import numpy as np
import pytest

from benchmarks.anomaly.problem import Cause
from benchmarks.anomaly.scores import (
    PROFILES,
    metrics,
    nab_file,
    nab_scores,
    records,
    right_channels,
    without_gaps,
)


@pytest.fixture
def problem(make_problem):
    return make_problem(source="UCR")


def test_perfect_scores_are_perfect_in_every_metric(problem):
    got = metrics(problem, problem.labels.astype(float))
    assert got["delay"] == 0
    perfect = ("vus_roc", "auc_pr", "f1", "recall", "affiliation", "hit")
    assert {name: got[name] for name in perfect} == dict.fromkeys(perfect, 1)
    assert got["vus_pr"] > 0.8


def test_scores_of_the_training_part_set_the_threshold_and_nothing_else(problem, rng):
    scores = rng.random(len(problem.labels))
    low, high = scores.copy(), scores.copy()
    low[: problem.n_train], high[: problem.n_train] = -1.0, 2.0
    below, above = metrics(problem, low), metrics(problem, high)
    # One alert over all rows finds the event, and touches nothing else.
    assert below["recall"] == below["f1"] == 1
    assert above["recall"] == 0
    assert above["delay"] is None
    for name in ("vus_pr", "vus_roc", "auc_pr", "hit"):
        assert below[name] == above[name]


def test_a_hit_is_counted_from_the_start_of_the_series(problem):
    scores = np.zeros(len(problem.labels))
    scores[problem.events[0][0] - 100] = 1.0
    assert metrics(problem, scores)["hit"] == 1
    assert metrics(problem, np.roll(scores, -1))["hit"] == 0


def test_series_without_an_event_have_but_a_share_of_alerts(problem):
    clean = replace(problem, set="NAB", labels=np.zeros_like(problem.labels))
    assert metrics(clean, np.zeros(len(clean.labels))) == {"alerted": 0.0}


def test_rows_without_a_score_have_the_last_one_and_infinite_scores_are_refused():
    nan = np.nan
    assert without_gaps(np.array([nan, 2.0, nan, 1.0])).tolist() == [2.0, 2.0, 2.0, 1.0]
    for bad in ([nan, nan], [1.0, np.inf]):
        with pytest.raises(ValueError, match="of 2 scores are finite"):
            without_gaps(np.array(bad))


def test_the_channel_with_the_largest_sum_is_right_if_it_is_named(make_problem):
    causes = (Cause(0, 2, frozenset({0, 1})), Cause(5, 6, frozenset({2})))
    problem = replace(make_problem(channels=3), causes=causes)
    contributions = np.zeros((len(problem.values), 3))
    contributions[0] = [0.0, 1.0, 0.9]
    contributions[1] = [0.0, 1.0, np.nan]
    contributions[5] = [2.0, 0.0, 1.0]
    assert right_channels(problem, contributions) == 0.5


def test_only_the_first_row_of_a_lasting_alarm_is_a_record(rng):
    scores = np.concatenate([rng.random(300), [5.0, 4.9, 5.1], np.full(198, 4.0), [4.2]])
    got = records(scores)
    assert got[300:304].tolist() == [5.0, scores.min(), 5.1, scores.min()]
    # 199 rows after the highest of all it still counts.
    assert got[-1] == scores.min()
    assert records(np.append(scores, 4.3))[-1] == 4.3


def test_nab_files_have_one_scale_and_nothing_alerted_is_worth_nothing(make_problem, rng):
    problem = make_problem(source="NAB")
    scores = rng.random(len(problem.labels)) + 5 * problem.labels
    file = nab_file(problem, scores)
    assert nab_file(problem, 7 + 3 * scores).scores == pytest.approx(file.scores)
    assert file.windows == [(700, 729)]
    assert file.probation == problem.n_train
    got = nab_scores([file])
    assert (got["found"], got["missed"], got["false_alerts"]) == (1, 0, 0)
    assert all(got[f"nab_{profile}"] > 90 for profile in (*PROFILES, "records"))
    flat = nab_scores([nab_file(problem, np.zeros(len(problem.labels)))])
    assert flat["nab_standard"] >= 0
