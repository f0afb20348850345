import numpy as np
import pytest
import torch

from benchmarks.forecast.problem import Problem

HORIZON, TRAIN, VALIDATION, TEST = 12, 400, 100, 100


def everything(origins):
    return origins.at(torch.arange(len(origins)))


def test_values_are_standardised_by_the_training_part(make_set):
    def grown(values):
        values[:, TRAIN:] *= 100
        return values

    problem = Problem.of(make_set(grown), HORIZON)
    frame = make_set(grown).read()
    for series, name in enumerate(("a", "b")):
        y = frame[name].to_numpy()
        expected = (y - y[:TRAIN].mean()) / y[:TRAIN].std()
        begin, end = problem.store.offsets[series : series + 2]
        got = problem.store.values[begin:end].numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_parts_hold_every_origin_once_and_do_not_overlap(problem):
    def steps(origins):
        windows = everything(origins)
        return problem.store.elapsed(windows).view(-1, 2)

    train, validation, test = map(
        steps, (problem.train(lookback=48), problem.validation, problem.test)
    )
    assert train[:, 0].tolist() == list(range(48, TRAIN - HORIZON + 1))
    assert validation[:, 0].tolist() == list(range(TRAIN, TRAIN + VALIDATION - HORIZON + 1))
    assert test[:, 0].tolist() == list(range(TRAIN + VALIDATION, 600 - HORIZON + 1))
    for part in (train, validation, test):
        assert torch.equal(part[:, 0], part[:, 1])


def test_channels_of_an_origin_stand_side_by_side(problem):
    windows = everything(problem.test)
    assert windows.series.view(-1, 2).unique(dim=0).tolist() == [[0, 1]]
    values, _ = problem.store.future(windows, 1)
    a, b = problem.store.values.view(2, 600)
    assert torch.equal(values.view(-1, 2)[0], torch.stack([a[500], b[500]]))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_batches_are_the_whole_in_order(problem, size):
    parts = list(problem.test.batches(size))
    whole = everything(problem.test)
    assert torch.equal(torch.cat([part.origin for part in parts]), whole.origin)
    assert torch.equal(torch.cat([part.series for part in parts]), whole.series)
    assert max(len(part) for part in parts) <= max(size, problem.channels)


def test_thinned_origins_are_some_of_all(problem):
    few = everything(problem.test.thinned(most=20))
    assert len(few) == 20
    assert set(few.origin.tolist()) <= set(everything(problem.test).origin.tolist())
    assert len(problem.test.thinned(most=10_000)) == len(problem.test)


def test_the_training_frame_ends_where_validation_begins(problem):
    assert problem.train_frame["ds"].to_list() == list(range(TRAIN))
