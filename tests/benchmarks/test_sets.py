import pytest
import torch

from benchmarks.forecast.problem import Problem
from benchmarks.forecast.sets import SETS, find_set

# Full test parts, as the literature that drops no batch counts them.
PUBLISHED = {
    "ETTh1": {96: 2785, 192: 2689, 336: 2545, 720: 2161},
    "ETTh2": {96: 2785, 192: 2689, 336: 2545, 720: 2161},
    "ETTm1": {96: 11425, 192: 11329, 336: 11185, 720: 10801},
}
TRAINING = {
    "ETTh1": 8640,
    "ETTh2": 8640,
    "ETTm1": 34560,
    "Exchange": 5311,
    "ILI": 676,
    "PM2.5": 30676,
    "Victoria": 36825,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_declared_test_parts_hold_the_published_windows(name):
    source = find_set(name)
    assert {h: source.n_windows(h, n_ids=1) for h in source.horizons} == PUBLISHED[name]


def test_names_are_unique():
    assert len({source.name for source in SETS}) == len(SETS)


@pytest.mark.data
@pytest.mark.parametrize("source", SETS, ids=lambda source: source.name)
def test_every_set_is_cut_as_declared(source):
    problem = Problem.of(source, source.horizons[-1])
    ids = {"PJM": 12, "M4": 414}.get(source.name, 1)
    assert problem.n_ids == ids
    assert len(problem.test) == source.n_windows(problem.horizon, ids)
    if ids == 1:
        training = problem.panel.lengths[0] - source.validation_steps - source.test_steps
        assert training == TRAINING[source.name] == problem.train_frame.height
    # Every part has windows for every lookback, and each window lies inside its series.
    for lookback in source.lookbacks:
        assert len(problem.train(lookback)) > 0
    assert len(problem.validation) > 0
    last = problem.test.at(torch.tensor([len(problem.test) - 1]))
    assert (last.origin + problem.horizon == problem.store.offsets[last.series + 1]).all()
