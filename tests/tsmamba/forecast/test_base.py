from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import (
    _LEAST_GAIN,
    _MOST_TO_LEVEL,
    N_BLOCKS,
    PENALTIES,
    SIMPLE,
    Context,
    Level,
    _best,
    _simple_maps,
    blocks_of,
    features,
    fit_base,
    smooth,
)

HORIZON = 5
SEASON = 4
CONTEXT = Context(length=36, recent=12, level=18, stretches=((4, 2), (8, 2)))


def walk(length, seed=0):
    rng = np.random.default_rng(seed)
    return np.sin(np.arange(length) / 4) + np.cumsum(rng.normal(size=length)) / 5


def fitted(store, context=CONTEXT, horizon=HORIZON):
    windows = store.windows(context.recent, horizon)
    return windows, fit_base(store, windows, context, horizon, SEASON)


@pytest.fixture(scope="module")
def store(make_store):
    return make_store(walk(400), walk(300, seed=1))


# What it sees


def test_a_level_is_undone_by_restoring():
    level = Level(torch.tensor([[3.0]]), torch.tensor([[0.5]]))
    x = torch.randn(1, 7)
    torch.testing.assert_close(level.restore(level.normalise(x)), x)


def test_features_are_the_recent_window_and_means_of_the_far_past(store):
    windows = store.windows(CONTEXT.recent, HORIZON)
    inputs, level = features(store, windows, CONTEXT)
    assert inputs.shape == (len(windows), CONTEXT.n_features)
    row, origin = 50, int(windows.origin[50])
    past = store.values[:origin].numpy()
    mean, scale = past[-18:].mean(), np.sqrt(past[-18:].var() + 0.1**2)
    assert level.mean[row].item() == pytest.approx(mean, abs=1e-6)
    assert level.scale[row].item() == pytest.approx(scale, rel=1e-5)
    near, far = past[-20:-12].reshape(2, 4).mean(1), past[-36:-20].reshape(2, 8).mean(1)
    expected = np.concatenate([past[-12:], near, far])
    expected = (expected - mean) / scale * np.r_[np.ones(14), 0.5**1.5, 0.5**1.5]
    np.testing.assert_allclose(inputs[row], expected, atol=1e-5)


def test_nothing_beyond_the_context_and_nothing_after_the_origin_is_seen(make_panel):
    panel = make_panel(walk(100))
    inside = np.arange(100) >= 60 - CONTEXT.length
    inside[60:] = False
    changed = np.where(inside, panel.values, 5 - panel.values).astype(np.float32)
    window = Windows(torch.tensor([60]), torch.tensor([0]))
    first, second = (
        features(WindowStore(replace(panel, values=values)), window, CONTEXT)
        for values in (panel.values, changed)
    )
    torch.testing.assert_close(first[0], second[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(first[1].mean, second[1].mean)
    torch.testing.assert_close(first[1].scale, second[1].scale)


def test_a_past_before_the_series_is_zero(store):
    first = Windows(torch.tensor([12]), torch.tensor([0]))
    inputs, _ = features(store, first, CONTEXT)
    assert (inputs[0, 12:] == 0).all()


def test_a_flat_window_has_a_scale(make_store):
    store = make_store(np.r_[np.zeros(30), np.ones(30)])
    inputs, level = features(store, store.windows(12, 5), CONTEXT)
    assert level.scale.min() > 0.09
    assert inputs.isfinite().all()


def test_adding_and_stretching_cancel_except_for_the_floor(make_store):
    """Level and scale of a window leave only the shape."""
    y = walk(200)
    one, other = make_store(y), make_store(y * 250 - 3e4)
    windows = one.windows(12, 5)
    torch.testing.assert_close(
        features(one, windows, CONTEXT)[0],
        features(other, windows, CONTEXT)[0],
        atol=1e-4,
        rtol=1e-4,
    )


# Blocks of time


def test_a_block_holds_all_targets_of_its_windows(store):
    windows = store.windows(0, HORIZON)
    blocks = blocks_of(store, windows, HORIZON)
    for origin, series, block in zip(
        windows.origin.tolist(), windows.series.tolist(), blocks.tolist(), strict=True
    ):
        begin, end = store.offsets[series : series + 2].tolist()
        of_steps = {
            int((origin + h - begin) * N_BLOCKS / (end - begin) + 1e-9) for h in range(HORIZON)
        }
        assert block == (of_steps.pop() if len(of_steps) == 1 else -1)


# The solution


def ridge(store, windows, fit):
    """The same weights by scikit-learn, with the penalty and the simple forecast of a fit."""
    inputs, level = features(store, windows, CONTEXT)
    targets = level.normalise(store.future(windows, HORIZON)[0]).double().numpy()
    x, weight = inputs.double().numpy(), (level.scale**1.5)[:, 0].double().numpy()
    strength = 10 * np.diag((x.T * weight) @ x).mean()
    columns = []
    for step, (penalty, simple) in enumerate(zip(fit.penalties, fit.simple, strict=True)):
        drawn_to = np.zeros(x.shape[1])
        if SIMPLE[simple] != "level":
            period = {"last value": 1, "last season": SEASON}[SIMPLE[simple]]
            drawn_to[CONTEXT.recent - period + step % period] = 1
        model = Ridge(alpha=float(penalty) * strength, fit_intercept=False, solver="cholesky")
        model.fit(x, targets[:, step] - x @ drawn_to, weight)
        columns.append(model.coef_ + drawn_to)
    return np.stack(columns, axis=1)


def test_the_weights_are_those_of_a_weighted_ridge(store):
    windows, fit = fitted(store)
    expected = ridge(store, windows, fit)
    np.testing.assert_allclose(fit.weights, expected, rtol=1e-3, atol=1e-4)


def test_each_fold_is_the_ridge_without_its_block(store):
    windows, fit = fitted(store)
    blocks = blocks_of(store, windows, HORIZON)
    for number in range(N_BLOCKS):
        rest = windows.select((blocks >= 0) & (blocks != number))
        expected = ridge(store, rest, fit)
        np.testing.assert_allclose(fit.fold_weights[number], expected, rtol=1e-3, atol=1e-4)


class Perturbed:
    """A store whose targets differ in one block while histories stay as they are."""

    def __init__(self, store, block):
        self._store, self._block = store, block

    def __getattr__(self, name):
        return getattr(self._store, name)

    def future(self, windows, horizon):
        values, observed = self._store.future(windows, horizon)
        inside = blocks_of(self._store, windows, horizon) == self._block
        return torch.where(inside[:, None], values + torch.sin(3 * values), values), observed


@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_a_fold_never_saw_a_target_of_its_block(store, monkeypatch, block):
    # One penalty and one simple forecast: choices are made on all blocks together.
    monkeypatch.setattr("tsmamba.forecast.base.PENALTIES", PENALTIES[:1])
    level_alone = _simple_maps(CONTEXT, HORIZON, SEASON)[:1]
    monkeypatch.setattr("tsmamba.forecast.base._simple_maps", lambda *_: level_alone)
    _, before = fitted(store)
    _, after = fitted(Perturbed(store, block))
    moved = (before.fold_weights - after.fold_weights).abs().amax((1, 2))
    # Sums over all blocks less those of one leave the rounding of the sums behind.
    assert moved[block] < 1e-5
    assert (moved[torch.arange(N_BLOCKS) != block] > 1e-3).all()
    assert (before.weights - after.weights).abs().max() > 1e-3


def test_out_of_fold_forecasts_come_from_the_fold_of_the_block(store):
    windows, fit = fitted(store)
    inputs, _ = features(store, windows, CONTEXT)
    block = blocks_of(store, windows, HORIZON)
    got = fit.out_of_fold(block)(inputs)
    for row in range(0, len(windows), 37):
        expected = inputs[row] @ fit.fold_weights[max(0, int(block[row]))]
        torch.testing.assert_close(got[row], expected, rtol=1e-4, atol=1e-5)


def test_missing_targets_do_not_count(make_store):
    y = walk(400)
    holed = y.copy()
    holed[300:] = np.nan
    holed[-1] = y[-1]
    windows = make_store(y).windows(12, 5)
    kept = windows.select(windows.origin + 5 <= 300)
    store = make_store(holed)
    few = fit_base(store, kept, CONTEXT, HORIZON)
    wholly = windows.select((windows.origin + 5 <= 300) | (windows.origin >= 300))
    wholly = wholly.select(wholly.origin + 5 < 400)
    many = fit_base(store, wholly, CONTEXT, HORIZON)
    torch.testing.assert_close(few.weights, many.weights, rtol=1e-4, atol=1e-5)


def test_steps_without_weight_do_not_count(make_panel):
    panel = make_panel(walk(400))
    weights = np.where(np.arange(400) < 300, 2.0, 0.0).astype(np.float32)
    store = WindowStore(replace(panel, weights=weights))
    windows = store.windows(12, 5)
    kept = windows.select(windows.origin + 5 <= 300)
    few = fit_base(WindowStore(panel), kept, CONTEXT, HORIZON)
    wholly = windows.select((windows.origin + 5 <= 300) | (windows.origin >= 300))
    many = fit_base(store, wholly, CONTEXT, HORIZON)
    torch.testing.assert_close(few.weights, many.weights, rtol=1e-4, atol=1e-5)


def test_windows_without_weight_make_no_block(make_panel):
    panel = make_panel(walk(400))
    weights = (np.arange(400) >= 330).astype(np.float32)
    _, fit = fitted(WindowStore(replace(panel, weights=weights)))
    assert not fit.fold_weights.any()
    assert (fit.penalties == torch.tensor(_MOST_TO_LEVEL)).all()


# Going on from a present map


def continued(store, present):
    windows = store.windows(CONTEXT.recent, HORIZON)
    return fit_base(store, windows, CONTEXT, HORIZON, SEASON, present)


@pytest.fixture(scope="module")
def present(store):
    return fitted(store)[1].weights


def test_data_of_the_same_kind_leave_the_present_map_about_as_it_was(make_store, present):
    fit = continued(make_store(walk(400, seed=2)), present)
    assert (fit.weights - present).norm() < 0.2 * present.norm()


def test_data_of_another_kind_move_it_to_their_own(make_store, present):
    t = np.arange(1_200)
    store = make_store(np.sin(t / 1.7) + 0.1 * np.random.default_rng(0).normal(size=1_200))
    fit, fresh = continued(store, present), fitted(store)[1]
    assert (fit.weights - fresh.weights).norm() < 0.5 * (fit.weights - present).norm()


def test_a_map_that_fits_the_data_already_is_held_by_a_pull_that_no_level_has(store, present):
    fit = continued(store, present)
    assert (fit.penalties >= 100).all()
    assert (fit.weights - present).norm() < 0.01 * present.norm()


def test_where_no_block_can_be_left_out_the_present_map_stands_for_all_folds(make_store, present):
    fit = continued(make_store(walk(20, seed=3)), present)
    assert all(torch.equal(weights, present) for weights in fit.fold_weights)
    assert 0 < (fit.weights - present).norm() < 0.05 * present.norm()


# The choice of the penalty


def test_noise_gets_a_heavier_penalty_than_a_clean_signal(make_store):
    _, noise = fitted(make_store(np.random.default_rng(0).normal(size=1200)))
    _, signal = fitted(make_store(np.sin(np.arange(1200) / 3)))
    assert signal.penalties.max() < noise.penalties.min()


def test_the_choice_is_that_of_least_error_on_left_out_blocks(store):
    windows, fit = fitted(store)
    blocks = blocks_of(store, windows, HORIZON)
    errors = torch.zeros(len(PENALTIES), len(SIMPLE), HORIZON, dtype=torch.float64)
    for (row, penalty), column in product(enumerate(PENALTIES), range(len(SIMPLE))):
        one = fit._replace(
            penalties=torch.full((HORIZON,), penalty), simple=torch.full((HORIZON,), column)
        )
        for number in range(N_BLOCKS):
            rest = windows.select((blocks >= 0) & (blocks != number))
            left_out = windows.select(blocks == number)
            inputs, level = features(store, left_out, CONTEXT)
            targets = level.normalise(store.future(left_out, HORIZON)[0])
            away = inputs.double() @ torch.from_numpy(ridge(store, rest, one)) - targets
            errors[row, column] += (away**2 * level.scale**1.5).sum(0)
    # The level is preferred, and never with such a penalty that nothing else is left.
    errors[:, 1:] *= 1 + _LEAST_GAIN
    errors[torch.tensor(PENALTIES) > _MOST_TO_LEVEL, 0] = torch.inf
    best = smooth(errors.flatten(0, 1)).argmin(0)
    torch.testing.assert_close(fit.penalties, torch.tensor(PENALTIES)[best // len(SIMPLE)])
    assert fit.simple.tolist() == (best % len(SIMPLE)).tolist()


@pytest.mark.parametrize(("worse", "stands"), [(0, False), (1, False), (2, True), (3, True)])
def test_the_last_value_stands_unless_most_blocks_contradict(worse, stands):
    """However much the map gains in the others."""
    errors = torch.full((N_BLOCKS, 2, len(SIMPLE), HORIZON), 10.0, dtype=torch.float64)
    errors[:, 0, 0] = 1.0
    errors[:worse, 0, 0] = 10.5
    best = _best(errors, torch.tensor([False, True]))
    last = len(SIMPLE) + SIMPLE.index("last value")
    assert (best == (last if stands else 0)).all()


@pytest.mark.parametrize("simple", SIMPLE)
def test_where_nothing_can_be_learned_a_simple_forecast_is_left(make_store, simple):
    """Noise around a level, a random walk, and walks at each place of a season."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=1_200)
    values = {
        "level": noise,
        "last value": noise.cumsum(),
        "last season": noise.reshape(-1, SEASON).cumsum(0).ravel(),
    }
    _, fit = fitted(make_store(values[simple]))
    assert [SIMPLE[column] for column in fit.simple] == [simple] * HORIZON


def test_smoothing_keeps_constants_and_the_number_of_steps():
    for steps in (1, 2, 9, 100):
        errors = torch.full((3, steps), 2.0)
        torch.testing.assert_close(smooth(errors), errors)


@pytest.mark.parametrize("length", [20, 45, 70, 130])
def test_short_series_have_folds_where_two_blocks_hold_windows(make_store, length):
    store = make_store(walk(length))
    windows, fit = fitted(store)
    assert fit.weights.isfinite().all()
    assert fit.fold_weights.isfinite().all()
    assert fit.fold_weights.shape == (N_BLOCKS, CONTEXT.n_features, HORIZON)
    blocks = blocks_of(store, windows, HORIZON)
    present = blocks[blocks >= 0].unique().tolist()
    if len(present) > 1:
        for number in present:
            assert not torch.equal(fit.fold_weights[number], fit.weights)
            assert fit.fold_weights[number].any()
    else:
        assert not fit.fold_weights.any()


def test_constant_series_give_zero_weights(make_store):
    _, fit = fitted(make_store(np.full(100, 7.0)))
    assert (fit.weights == 0).all()
