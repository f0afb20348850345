import numpy as np
import pytest

from benchmarks.anomaly.learned.judged import family_of, fresh_names, judged_names, side_of
from benchmarks.anomaly.scores import metrics
from benchmarks.anomaly.sets import find_set
from tsmamba import MambaDetector


def test_without_more_the_scores_are_those_of_the_detector(judged):
    problem = judged.problem
    scores = MambaDetector().fit(problem.train).anomaly_score(problem.values)
    assert judged.vus_pr() == pytest.approx(metrics(problem, scores)["vus_pr"], rel=1e-3)


def test_a_block_that_knows_the_answer_helps_and_one_of_noise_does_not(judged):
    noise = np.random.default_rng(0).normal(size=len(judged.values))
    told = judged.problem.labels + 0.01 * noise
    assert judged.vus_pr([told]) > judged.vus_pr()
    assert judged.vus_pr([noise]) < judged.vus_pr([told])


def test_residuals_take_the_place_of_those_of_the_autoregression(judged):
    own = judged.scorer._residuals(judged.values[:, None])[:, 0]
    assert judged.vus_pr(residuals=own) == pytest.approx(judged.vus_pr(), rel=1e-12)
    assert judged.vus_pr(residuals=-own) != pytest.approx(judged.vus_pr(), rel=1e-6)


def test_no_series_is_judged_twice():
    names = judged_names()
    assert len(set(names)) == len(names)
    assert {source for source, _ in names} == {"TSB-AD", "UCR"}


def test_copies_of_a_series_are_kin_and_on_the_side_of_the_choice_that_it_is_on():
    assert family_of("UCR", "005") == family_of("UCR", "113")  # distorted, and the original
    assert family_of("UCR", "005") != family_of("UCR", "011")
    sides = {}
    for key in judged_names():
        sides.setdefault(family_of(*key), set()).add(side_of(*key))
    assert all(len(side) == 1 for side in sides.values())
    assert {side for found in sides.values() for side in found} == {"chosen", "other"}


@pytest.mark.data
def test_fresh_series_are_neither_judged_nor_kin_of_those_that_were_chosen_on():
    fresh = fresh_names()
    assert len(set(fresh)) == len(fresh) > 0
    assert not set(fresh) & set(judged_names())
    assert {side_of(*key) for key in fresh} == {"fresh"}
    chosen = {family_of(*key) for key in judged_names() if side_of(*key) == "chosen"}
    assert not chosen & {family_of(*key) for key in fresh}


def test_the_pool_holds_no_kin_of_what_is_judged():
    sides = {}
    for name in find_set("UCR").names():
        sides.setdefault(side_of("UCR", name) == "pool", set()).add(family_of("UCR", name))
    assert sides[True]
    assert not sides[True] & (sides[False] | {family_of(*key) for key in judged_names()})
