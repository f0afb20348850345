import numpy as np
import pytest
import torch

from benchmarks.forecast.models import CONTESTANTS, Tsmamba
from benchmarks.forecast.models.cyclenet import CycleLinear
from benchmarks.forecast.models.itransformer import InvertedTransformer
from benchmarks.forecast.models.linear import linear
from benchmarks.forecast.models.lstm import PatchLSTM
from benchmarks.forecast.models.network import (
    Batch,
    Budget,
    InstanceNormalised,
    Network,
    Sizes,
)
from benchmarks.forecast.models.patchtst import PatchTransformer
from benchmarks.forecast.models.rlinear import rlinear
from benchmarks.forecast.models.seasonal_naive import SeasonalNaive
from benchmarks.forecast.problem import Problem

HORIZON, TEST_BEGIN = 12, 500
NETWORKS = (CycleLinear, PatchLSTM, InvertedTransformer, PatchTransformer)
FEW = Budget(steps=8, batch=16, every=4, validation=32)


def everything(origins):
    return origins.at(torch.arange(len(origins)))


def arrays(problem, origins, lookback):
    windows = everything(origins)
    history = problem.store.history(windows, lookback).double().numpy()
    return history, problem.store.future(windows, problem.horizon)[0].double().numpy()


def makers():
    networks = {n.__name__: lambda n=n: Network(n, lr=1e-3, budget=FEW) for n in NETWORKS}
    rest = {"naive": SeasonalNaive, "linear": linear, "rlinear": rlinear}
    return rest | networks | {"tsmamba": lambda: Tsmamba("base")}


@pytest.mark.parametrize("make", makers().values(), ids=makers())
def test_a_forecast_knows_nothing_of_what_comes_after_its_origin(make, make_set):
    origin, season = 20, 24  # steps of the test part

    def changed(values):
        later = values[:, TEST_BEGIN + origin :]
        later += 50 * np.random.default_rng(1).normal(size=later.shape)
        return values

    forecasts = []
    for source in (make_set(), make_set(changed)):
        problem = Problem.of(source, HORIZON)
        contestant = make()
        contestant.fit(problem, seed=0)
        points = contestant.forecast(everything(problem.test)).point.view(-1, 2, HORIZON)
        forecasts.append(points)
    before, after = forecasts
    until = origin + 1
    torch.testing.assert_close(before[:until], after[:until], rtol=1e-5, atol=1e-5)
    # The change is seen where it lies in the past, or the comparison would say nothing.
    assert not torch.allclose(before[origin + season], after[origin + season], atol=1e-3)


@pytest.mark.parametrize("make", makers().values(), ids=makers())
def test_batches_of_windows_are_forecast_as_the_whole(make, problem):
    contestant = make()
    contestant.fit(problem, seed=0)
    whole = contestant.forecast(everything(problem.test)).point
    assert whole.shape == (len(problem.test) * 2, HORIZON)
    parts = [contestant.forecast(windows).point for windows in problem.test.batches(10)]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-4, atol=1e-5)


def test_seasonal_naive_repeats_the_last_season(make_set):
    problem = Problem.of(make_set(season=5), HORIZON)
    contestant = SeasonalNaive()
    contestant.fit(problem, seed=0)
    point = contestant.forecast(everything(problem.test)).point[0]
    last = problem.store.values[TEST_BEGIN - 5 : TEST_BEGIN]
    assert torch.equal(point, torch.cat([last, last, last[:2]]))


def test_linear_is_the_least_squares_solution(make_set):
    problem = Problem.of(make_set(lookbacks=(24,)), HORIZON)
    contestant = linear()
    contestant.fit(problem, seed=0)
    x, y = arrays(problem, problem.train(24), 24)
    design = np.hstack([x, np.ones((len(x), 1))])
    expected, *_ = np.linalg.lstsq(design, y)
    np.testing.assert_allclose(contestant.weights.numpy(), expected, atol=1e-5)


def test_rlinear_has_the_least_error_behind_instance_normalisation(make_set):
    problem = Problem.of(make_set(lookbacks=(24,)), HORIZON)
    contestant = rlinear()
    contestant.fit(problem, seed=0)
    x, y = arrays(problem, problem.train(24), 24)
    mean, scale = x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + 1e-5)
    # A map with a bias of the normalised window, each row weighted by the scale of its window.
    design = np.hstack([(x - mean) / scale, np.ones((len(x), 1))]) * scale
    expected, *_ = np.linalg.lstsq(design, y - mean)
    x, _ = arrays(problem, problem.test, 24)
    mean, scale = x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + 1e-5)
    forecast = np.hstack([x - mean, scale]) @ expected + mean
    point = contestant.forecast(everything(problem.test)).point.numpy()
    np.testing.assert_allclose(point, forecast, atol=1e-4)


def test_the_lookback_is_the_one_of_least_validation_error(make_set):
    errors = {}
    for lookback in (6, 48):
        problem = Problem.of(make_set(lookbacks=(lookback,)), HORIZON)
        contestant = linear()
        contestant.fit(problem, seed=0)
        truth = problem.store.future(everything(problem.validation), HORIZON)[0]
        point = contestant.forecast(everything(problem.validation)).point
        errors[lookback] = float((point - truth).square().mean())
    best = min(errors, key=errors.get)
    for order in ((6, 48), (48, 6)):
        contestant = linear()
        contestant.fit(Problem.of(make_set(lookbacks=order), HORIZON), seed=0)
        assert contestant.lookback == best


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("lookback", [104, 96])
def test_networks_give_all_steps_of_all_channels(network, lookback):
    module = InstanceNormalised(network(Sizes(lookback, HORIZON, season=24, n_series=3)))
    batch = Batch(
        torch.randn(4, 3, lookback),
        torch.arange(3).expand(4, 3),
        torch.randint(lookback, 500, (4, 1)).expand(4, 3),
    )
    out = module(batch)
    assert out.shape == (4, 3, HORIZON)
    # Level and scale of a window pass through.
    moved = module.eval()(batch._replace(history=10 * batch.history + 3))
    torch.testing.assert_close(moved, 10 * module(batch) + 3, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("network", NETWORKS)
def test_training_lowers_the_error_on_waves(network, make_set):
    problem = Problem.of(make_set(noise=0.01), HORIZON)
    contestant = Network(network, lr=1e-2, budget=Budget(steps=60, batch=32, every=30))
    contestant.fit(problem, seed=0)
    truth = problem.store.future(everything(problem.test), HORIZON)[0]
    error = (contestant.forecast(everything(problem.test)).point - truth).square().mean()
    assert min(contestant.errors) < 0.5 * contestant.errors[0]
    assert error < 0.5 * truth.square().mean()


def test_networks_keep_their_best_weights_and_stop_without_a_gain(problem):
    budget = Budget(steps=200, batch=16, every=5, patience=2, validation=10_000)
    contestant = Network(CycleLinear, lr=0.3, budget=budget)
    contestant.fit(problem, seed=0)
    assert len(contestant.errors) < 1 + budget.steps // budget.every
    truth = problem.store.future(everything(problem.validation), HORIZON)[0]
    point = contestant.forecast(everything(problem.validation)).point
    error = float((point - truth).square().mean())
    assert error == pytest.approx(min(contestant.errors), rel=1e-4)
    assert min(contestant.errors[:-2]) == min(contestant.errors)


def test_the_seed_decides_and_the_global_state_stays(problem):
    state = torch.random.get_rng_state()
    points = []
    for seed in (0, 0, 1):
        contestant = Network(PatchLSTM, lr=1e-3, budget=Budget(steps=3, batch=16, every=3))
        contestant.fit(problem, seed)
        points.append(contestant.forecast(everything(problem.test)).point)
    assert torch.equal(points[0], points[1])
    assert not torch.equal(points[0], points[2])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_cycle_is_looked_up_by_the_step_of_the_series():
    network = CycleLinear(Sizes(lookback=4, horizon=3, season=5, n_series=2))
    with torch.no_grad():
        network.cycle.copy_(torch.arange(10.0).view(2, 5))
        network.map.weight.zero_()
        network.map.bias.zero_()
    batch = Batch(torch.zeros(1, 2, 4), torch.tensor([[0, 1]]), torch.tensor([[8, 8]]))
    assert network(batch)[0].tolist() == [[3.0, 4.0, 0.0], [8.0, 9.0, 5.0]]


def test_tsmamba_gives_nested_intervals_and_the_forecasts_of_predict(problem):
    contestant = CONTESTANTS["tsmamba (base)"].make()
    contestant.fit(problem, seed=0)
    first = problem.test.at(torch.tensor([0]))
    point, bands = contestant.forecast(first)
    (low, high), (lowest, highest) = bands[80], bands[90]
    assert (lowest <= low).all()
    assert (low <= high).all()
    assert (high <= highest).all()
    history = problem.source.read().head(TEST_BEGIN)
    expected = contestant._forecaster.predict(history)["MambaForecaster"].to_numpy()
    loc, scale = problem.panel.loc[:, None], problem.panel.scale[:, None]
    got = point.numpy() * scale + loc
    np.testing.assert_allclose(got.ravel(), expected, rtol=1e-4, atol=1e-4)
