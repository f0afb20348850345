"""Own maps and mixtures of the series."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from scipy.optimize import minimize

from tsmamba import MambaForecaster
from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore
from tsmamba.forecast import local as module
from tsmamba.forecast.base import N_BLOCKS, Context, blocks_of, features, fit_base
from tsmamba.forecast.linear import fit_linear_base
from tsmamba.forecast.local import fit_local

HORIZON = 6
CONTEXT = Context(length=24, recent=24, level=24)


def autoregressive(root, length=900, seed=0):
    """A series that goes on from its last value as ``root`` says."""
    rng = np.random.default_rng(seed)
    out = np.zeros(length)
    for t in range(1, length):
        out[t] = root * out[t - 1] + rng.normal()
    return out


def frame_of(*series, names=None):
    names = names or [f"s{n}" for n in range(len(series))]
    return pl.concat(
        pl.DataFrame({"unique_id": [name] * len(y), "ds": np.arange(len(y)), "y": y})
        for name, y in zip(names, series, strict=True)
    )


def unlike(n=3):
    """Walks and noise, whose forecasts are the last value and the mean."""
    roots = [1.0, 0.0] * n
    return frame_of(*(autoregressive(root, seed=k) for k, root in enumerate(roots)))


def fitted(frame):
    return MambaForecaster(HORIZON, mode="base", context_length=24, season_length=1).fit(frame)


@pytest.fixture(scope="module")
def store():
    return WindowStore(read_panel(unlike()))


@pytest.fixture(scope="module")
def windows(store):
    return store.windows(CONTEXT.recent, HORIZON)


@pytest.fixture(scope="module")
def base(store, windows):
    return fit_linear_base(store, windows, CONTEXT, HORIZON)


# What it is for


def test_unlike_series_get_maps_of_their_own():
    frame = unlike()
    rank = pl.int_range(pl.len()).over("unique_id")
    train, test = frame.filter(rank < 700), frame.filter(rank >= 700)
    forecaster = fitted(train)
    local = forecaster._fitted.model.local
    assert local is not None
    assert sum(forecaster.report_["shares"].values()) == pytest.approx(1, abs=0.01)
    own = -forecaster.score(test, metric="mse")
    forecaster._fitted = replace(
        forecaster._fitted, model=replace(forecaster._fitted.model, local=None)
    )
    assert own < 0.95 * -forecaster.score(test, metric="mse")


@pytest.mark.parametrize("seed", range(4))
def test_alike_series_keep_the_shared_map(seed):
    series = [autoregressive(0.7, seed=10 * seed + k) for k in range(4)]
    store = WindowStore(read_panel(frame_of(*series)))
    windows = store.windows(CONTEXT.recent, HORIZON)
    assert fit_linear_base(store, windows, CONTEXT, HORIZON).local is None


def test_a_handful_of_windows_tells_nothing(store, windows):
    few = windows.thinned(20 * 6)
    base = fit_base(store, few, CONTEXT, HORIZON)
    assert fit_local(store, few, CONTEXT, base, season=1) is None


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_series_without_a_window_keeps_the_shared_map(place, monkeypatch):
    monkeypatch.setattr(module, "_BATCH", 400)  # so that no other shares its batch
    series = [x["y"].to_numpy() for x in unlike().partition_by("unique_id")]
    series.insert(place, np.arange(9.0))
    local = fitted(frame_of(*series))._fitted.model.local
    assert local.maps.shape[1] == 7
    assert (local.shares[0, place, 0] == 1).all()


# Laws


def test_shares_are_convex(base):
    shares = base.local.shares
    assert shares.shape[:2] == (1 + N_BLOCKS, 6)
    assert (shares >= 0).all()
    torch.testing.assert_close(shares.sum(2), torch.ones_like(shares[:, :, 0]))


def test_new_series_get_the_shared_map(store, windows, base):
    inputs, _ = features(store, windows.thinned(5), CONTEXT)
    shared = inputs @ base.shared.weights
    series = torch.tensor([-1, 0, -1, 1, -1])
    got = base.local(inputs, shared, series)
    torch.testing.assert_close(got[[0, 2, 4]], shared[[0, 2, 4]])
    alone = base.local(inputs[[1, 3]], shared[[1, 3]], series[[1, 3]])
    torch.testing.assert_close(got[[1, 3]], alone)
    assert (got[1] - shared[1]).abs().max() > 0.01


def test_a_fold_never_saw_the_targets_of_its_block(store, windows, base):
    changed = WindowStore(read_panel(unlike()))
    start, end = changed.offsets[:2].tolist()
    last = start + (end - start) * (N_BLOCKS - 1) // N_BLOCKS
    changed.values[last:end] += torch.randn(end - last)
    again = module._own_maps(changed, windows, CONTEXT, base.shared)
    torch.testing.assert_close(again[-1], base.local.maps[-1])
    moved = (again - base.local.maps)[:-1, 0].abs().amax((1, 2))
    assert (moved > 0.01).all()
    torch.testing.assert_close(again[:, 1:], base.local.maps[:, 1:])


def test_out_of_fold_forecasts_use_the_fold_of_their_block(store, windows, base):
    some = windows.thinned(40)
    inputs, _ = features(store, some, CONTEXT)
    got = base.out_of_fold(store, some)(inputs)
    block = blocks_of(store, some, HORIZON).clamp(min=0)
    for row in range(0, 40, 7):
        one = slice(row, row + 1)
        shared = inputs[one] @ base.shared.fold_weights[block[row]]
        expected = base.local(inputs[one], shared, some.series[one], block[one] + 1)
        torch.testing.assert_close(got[one], expected)


def test_sums_do_not_depend_on_the_batches(store, windows, base, monkeypatch):
    monkeypatch.setattr(module, "_BATCH", 400)
    again = fit_linear_base(store, windows, CONTEXT, HORIZON)
    torch.testing.assert_close(again.local.maps, base.local.maps, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(again.local.shares, base.local.shares, rtol=1e-3, atol=1e-3)


def test_an_own_map_is_a_ridge_on_the_errors_of_the_shared_one(store, windows, base):
    of = windows.select(windows.series == 1)
    inputs, level = features(store, of, CONTEXT)
    errors = level.normalise(store.future(of, HORIZON)[0]) - inputs @ base.shared.weights
    scores = (inputs @ base.local.directions).double()
    weight = (level.scale**1.5).double()
    gram = (scores * weight).T @ scores
    strength = module._PENALTY * 10 * gram.trace() / inputs.shape[1]
    expected = torch.linalg.solve(
        gram + strength * torch.eye(len(gram)), (scores * weight).T @ errors.double()
    )
    got = base.local.maps[0, 1].double()
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-3)


def test_order_and_names_of_series_do_not_matter():
    frame = unlike(2)
    turned = pl.concat(frame.partition_by("unique_id")[::-1])
    forecasts = [
        MambaForecaster(HORIZON, mode="base", context_length=24, season_length=1)
        .fit(x)
        .predict()
        .sort("unique_id")
        for x in (frame, turned)
    ]
    one, other = (forecast["MambaForecaster"] for forecast in forecasts)
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_each_series_of_another_frame_is_known_by_its_id(tmp_path):
    frame = unlike(2)
    forecaster = fitted(frame)
    whole = forecaster.predict()
    one = frame.filter(pl.col("unique_id") == "s1")
    expected = whole.filter(pl.col("unique_id") == "s1")
    got = forecaster.predict(one)
    np.testing.assert_allclose(got["MambaForecaster"], expected["MambaForecaster"], rtol=1e-4)
    stranger = forecaster.predict(one.with_columns(unique_id=pl.lit("new")))
    assert (got["MambaForecaster"] - stranger["MambaForecaster"]).abs().max() > 0.005
    forecaster.save(tmp_path / "model.tsm")
    assert MambaForecaster.load(tmp_path / "model.tsm").predict(one).equals(got)


# The mixture


@pytest.mark.parametrize("seed", range(20))
def test_the_mixture_is_the_best_point_of_the_simplex(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    errors = rng.normal(size=(8, k)) @ rng.normal(size=(k, k))
    products = errors.T @ errors
    got = module._mixture(torch.from_numpy(products)).numpy()
    pull = module._PULL * products[0, 0]

    def cost(weights):
        aim = np.eye(k)[0]
        return weights @ products @ weights + pull * ((weights - aim) ** 2).sum()

    found = minimize(
        cost,
        np.full(k, 1 / k),
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert got.min() >= 0
    assert got.sum() == pytest.approx(1)
    assert cost(got) <= found.fun * (1 + 1e-6)


def test_without_errors_the_shared_map_stays():
    weights = module._mixture(torch.zeros(2, 3, 3, dtype=torch.float64))
    assert weights.tolist() == [[1, 0, 0]] * 2


def test_a_part_that_gains_nothing_keeps_the_shared_map(base):
    n_series, k = 2, base.local.shares.shape[2]
    errors = torch.eye(k).expand(n_series, N_BLOCKS, 4, k, k).double().clone()
    errors[:, :, 0, 0, 0] = 100.0  # here the shared map is by far the worst
    errors[:, :, 1:, 1:, 1:] *= 1e6  # and there the best
    mixed = module._mixed(base.local, errors, 8)
    assert (mixed.shares[:, :, 0, :2] < 0.1).all()
    assert (mixed.shares[:, :, 0, 2:] == 1).all()
    errors[:, :, 0] = errors[:, :, 1]
    assert module._mixed(base.local, errors, 8) is None


def test_the_simple_forecasts_repeat_what_they_say():
    context = Context(length=60, recent=60, level=60)
    places = module._places(context, 10, season=7)
    inputs = torch.arange(60.0)
    last, season, seven = inputs[places]
    assert last.tolist() == [59.0] * 10
    assert season.tolist() == [53.0, 54, 55, 56, 57, 58, 59, 53, 54, 55]
    assert seven.tolist() == [11.0 + step for step in range(10)]
    assert len(module._places(CONTEXT, 10, season=7)) == 2  # seven seasons are out of reach


def test_local_forecasts_are_linear_in_the_inputs(base):
    torch.manual_seed(0)
    inputs = torch.randn(4, 24)
    series = torch.tensor([0, 1, 2, 3])

    def forecast(x):
        return base.local(x, x @ base.shared.weights, series)

    torch.testing.assert_close(forecast(3 * inputs), 3 * forecast(inputs), rtol=1e-4, atol=1e-4)


def test_renumbered_series_keep_what_is_theirs(base):
    order = torch.tensor([4, -1, 0])
    other = base.local.whole().renumbered(order)
    torch.manual_seed(0)
    inputs = torch.randn(3, 24)
    shared = inputs @ base.shared.weights
    got = other(inputs, shared, torch.arange(3))
    torch.testing.assert_close(got, base.local(inputs, shared, order))


def test_what_every_fold_repeats_is_the_fit_on_all(base):
    repeated = base.local.whole().repeated()
    inputs = torch.randn(2, 24)
    shared = inputs @ base.shared.weights
    series = torch.tensor([0, 3])
    got = repeated(inputs, shared, series, torch.tensor([2, N_BLOCKS]))
    torch.testing.assert_close(got, base.local(inputs, shared, series))
