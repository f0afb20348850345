"""Correctors that leave out a block each."""

import numpy as np
import pytest
import torch

from tsmamba.data.windows import WindowStore
from tsmamba.forecast.base import N_BLOCKS, Level, blocks_of, fold_of
from tsmamba.forecast.correction import Normalised, split_windows
from tsmamba.forecast.crossfit import CorrectorFit, cross_fit, out_of_fold
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.training import History

HORIZON = 12
CONFIG = CorrectorConfig(history=48, horizon=HORIZON, patch=12, d_model=8, n_layers=1, d_state=2)


@pytest.fixture(scope="module")
def store(make_panel):
    rng = np.random.default_rng(0)
    return WindowStore(make_panel(rng.normal(size=2_000), rng.normal(size=1_001)))


@pytest.fixture(scope="module")
def split(store):
    return split_windows(store, store.windows(48, HORIZON), HORIZON)


def corrector(seed=0):
    torch.manual_seed(seed)
    return Corrector(CONFIG).eval()


def test_each_corrector_is_trained_on_all_blocks_but_one(store, split):
    seen = []

    def train(network, part, steps=2):
        blocks = [
            blocks_of(store, windows, HORIZON) for windows in (part.training, part.validation)
        ]
        seen.append((torch.cat(blocks).unique().tolist(), len(torch.cat(blocks))))
        return History(steps, 2 * steps, 0.5)

    fit, history = cross_fit(corrector(), split, store, HORIZON, train)
    assert [blocks for blocks, _ in seen] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert sum(n for _, n in seen) == 3 * (len(split.training) + len(split.validation))
    assert (history.steps, history.windows, history.seconds) == (8, 16, 2.0)
    assert len(fit.folds) == N_BLOCKS


def test_all_start_from_the_same_weights_and_their_mean_forecasts(store, split):
    start, steps = corrector(), iter((1.0, 2.0, 3.0, 6.0))
    before = {name: x.clone() for name, x in start.state_dict().items()}

    def train(network, part):
        for name, x in network.state_dict().items():
            assert torch.equal(x, before[name])
        network.head.bias += next(steps)
        return History(1)

    fit, _ = cross_fit(start, split, store, HORIZON, train)
    assert [float(fold.head.bias[0] - before["head.bias"][0]) for fold in fit.folds] == (
        pytest.approx([1, 2, 3, 6])
    )
    for name, x in fit.corrector.state_dict().items():
        moved = 3.0 if name == "head.bias" else 0.0
        torch.testing.assert_close(x, before[name] + moved)
    assert all(torch.equal(x, before[name]) for name, x in start.state_dict().items())


def test_an_interrupt_ends_all_trainings(store, split):
    calls = []

    def train(network, part):
        calls.append(len(part.training))
        return History(5, interrupted=len(calls) == 2)

    fit, history = cross_fit(corrector(), split, store, HORIZON, train)
    assert (len(calls), history.steps, history.interrupted) == (2, 10, True)
    torch.testing.assert_close(fit.corrector.state_dict(), corrector().state_dict())


def test_a_block_that_holds_all_windows_has_a_corrector_that_saw_none(store, split):
    only = fold_of(store, split.training, HORIZON, N_BLOCKS) == 1
    alone = type(split)(split.training.select(only), split.validation)
    trained = []

    def train(network, part):
        trained.append(len(part.training))
        return History(1)

    cross_fit(corrector(), alone, store, HORIZON, train)
    assert trained == [int(only.sum())] * 3


@pytest.mark.parametrize("n_folds", [1, N_BLOCKS])
@pytest.mark.parametrize("spread", [False, True])
def test_each_window_is_forecast_by_its_fold_and_in_its_place(store, n_folds, spread):
    windows = store.windows(48, HORIZON)

    def forecaster(number):
        def forecast(some):
            point = some.origin[:, None] * 10.0 + number + torch.zeros(HORIZON)
            level = Level(some.series[:, None] + 0.5, some.origin[:, None] + 1.0)
            return Normalised(point, level, point + 0.25 if spread else None)

        return forecast

    forecast = out_of_fold([forecaster(number) for number in range(n_folds)], store, HORIZON)
    point, level, spreads = forecast(windows)
    fold = blocks_of(store, windows, HORIZON).clamp(min=0) % n_folds
    assert torch.equal(point[:, 3], windows.origin * 10.0 + fold)
    assert torch.equal(level.mean[:, 0], windows.series + 0.5)
    assert torch.equal(level.scale[:, 0], windows.origin + 1.0)
    assert (spreads is not None) == spread
    if spread:
        assert torch.equal(spreads, point + 0.25)


def test_a_corrector_that_saw_nothing_stands_for_every_fold():
    one = corrector()
    fit = CorrectorFit.unseeing(one)
    assert fit.corrector is one
    assert fit.folds == (one,)
