from dataclasses import replace
from datetime import datetime

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.linear_model import Ridge

from tsmamba.data.covariates import Roles, extend_covariates, read_covariates
from tsmamba.data.panel import future_frame, read_panel
from tsmamba.data.weights import read_weights
from tsmamba.data.windows import WindowStore
from tsmamba.forecast import effects as effects_module
from tsmamba.forecast.effects import fit_effects

SEASON = 24
ROLES = Roles(future=("heat", "off"))


def weather(length, rng):
    """Numbers that wander like a temperature, of unit variance."""
    x = rng.normal(size=length)
    for step in range(1, length):
        x[step] += 0.9 * x[step - 1]
    return x / 2.3


def noise(length, rng, scale=0.3):
    """Autocorrelated, so that levels are no guide to the effect."""
    return scale * weather(length, rng)


def v_shape(heat):
    return 1.5 * np.abs(heat)


def daily(length):
    return 2 * np.sin(2 * np.pi * np.arange(length) / SEASON)


def series(key, length, seed, effect=v_shape):
    """A season, noise, a V-shaped effect of heat and one of days off."""
    rng = np.random.default_rng(seed)
    heat = weather(length, rng)
    off = np.repeat(rng.random(length // 24 + 1) < 0.15, 24)[:length]
    hours = pl.datetime_range(datetime(2024, 1, 1), datetime(2034, 1, 1), "1h", eager=True)
    y = daily(length) + noise(length, rng) + effect(heat) - 1.2 * off
    return pl.DataFrame(
        {"unique_id": [key] * length, "ds": hours.head(length), "y": y, "heat": heat, "off": off}
    )


@pytest.fixture(scope="module")
def frame():
    return pl.concat([series("a", 1500, 0), series("b", 1200, 1)])


def read(frame, roles=ROLES):
    panel = read_panel(frame)
    return panel, *read_covariates(frame, panel, roles)


def fitted(frame, roles=ROLES, season=SEASON):
    panel, covariates, _ = read(frame, roles)
    return fit_effects(panel, covariates, season), panel, covariates


def effect_of(frame, roles=ROLES, season=SEASON):
    effects, panel, covariates = fitted(frame, roles, season)
    return effects.of(panel, covariates).rows.values[:, 0]


def share_left(found, truth):
    """Variance of what was not found, as a share of what there is to find."""
    return np.var(found - truth) / np.var(truth)


# What it finds


def test_a_v_shaped_effect_is_found_on_top_of_season_and_noise(frame):
    effects, panel, covariates = fitted(frame)
    found = effects.of(panel, covariates).rows.values[:, 0]
    truth = v_shape(frame["heat"].to_numpy()) - 1.2 * frame["off"].to_numpy()
    scale = np.repeat(panel.scale, panel.lengths)
    assert share_left(found * scale, truth) < 0.03


def test_the_effect_is_zero_on_average_and_holds_no_season(frame):
    """What a season or a level may explain is left to the base."""
    warm = frame.with_columns(heat=pl.col("heat") + 5)
    effect = effect_of(warm)[:1488].reshape(-1, 24)
    assert abs(effect.mean()) < 0.05
    assert effect.mean(0).std() < 0.15 * effect.std()


def test_without_a_season_steps_are_compared_with_the_one_before():
    one = series("a", 800, 3)
    one = one.with_columns(y=pl.Series(np.cumsum(noise(800, np.random.default_rng(4)))))
    one = one.with_columns(ds=pl.int_range(pl.len()), y=pl.col("y") + 3 * pl.col("heat").abs())
    effects, panel, covariates = fitted(one, season=1)
    found = effects.of(panel, covariates).rows.values[:, 0]
    truth = 3 * np.abs(one["heat"].to_numpy())
    assert share_left(found * panel.scale[0], truth) < 0.1
    assert not len(effects.averaged)
    assert effects.weights.shape[1] == 1


def test_the_mean_of_the_last_season_counts():
    def of_means(heat):
        return 3 * np.array([heat[max(0, t - 23) : t + 1].mean() for t in range(len(heat))])

    one = series("a", 2000, 5, of_means)
    truth = of_means(one["heat"].to_numpy())
    found = effect_of(one, Roles(future=("heat",))) * read_panel(one).scale[0]
    assert share_left(found, truth) < 0.1
    alone = one.with_columns(ds=pl.int_range(pl.len()))
    assert share_left(effect_of(alone, Roles(future=("heat",)), season=1), truth) > 0.3


def test_the_effect_may_differ_with_the_hour_of_the_day():
    hour = np.arange(2000) % 24
    swing = np.cos(2 * np.pi * hour / 24)
    one = series("a", 2000, 6, lambda heat: heat * swing)
    truth = one["heat"].to_numpy() * swing - 1.2 * one["off"].to_numpy()
    found = effect_of(one) * read_panel(one).scale[0]
    assert share_left(found, truth) < 0.1
    integers = one.with_columns(ds=pl.int_range(pl.len()))
    assert share_left(effect_of(integers) * read_panel(one).scale[0], truth) > 0.3


def test_the_hour_is_that_of_the_clock_wherever_a_frame_begins():
    swing = np.cos(2 * np.pi * (np.arange(2000) % 24) / 24)
    one = series("a", 2000, 6, lambda heat: heat * swing)
    effects, panel, covariates = fitted(one)
    _, encoding = read_covariates(one, panel, ROLES)
    whole = effects.of(panel, covariates).rows.values[:, 0]
    later = one[1007:]
    panel = read_panel(later)
    part, _ = read_covariates(later, panel, ROLES, encoding)
    got = effects.of(panel, part).rows.values[:, 0]
    # The first means are of fewer steps.
    np.testing.assert_allclose(got[SEASON:], whole[1007 + SEASON :], atol=1e-4)


def test_each_category_has_its_effect():
    rng = np.random.default_rng(0)
    day = np.repeat(rng.choice(["work", "feast", "strike"], 80, p=[0.8, 0.1, 0.1]), 24)
    rise = {"work": 0.0, "feast": 2.0, "strike": -3.0}
    truth = np.array([rise[name] for name in day])
    y = daily(len(day)) + noise(len(day), rng) + truth
    one = pl.DataFrame({"ds": range(len(day)), "y": y, "day": day})
    found = effect_of(one, Roles(future=("day",))) * read_panel(one).scale[0]
    levels = {name: found[day == name] for name in rise}
    for name, level in levels.items():
        assert np.ptp(level) < 1e-5, name
    assert levels["feast"][0] - levels["work"][0] == pytest.approx(2, abs=0.3)
    assert levels["strike"][0] - levels["work"][0] == pytest.approx(-3, abs=0.3)


# What it leaves alone


@pytest.mark.parametrize("seed", range(4))
def test_noise_has_next_to_no_effect(frame, seed):
    rng = np.random.default_rng(seed)
    noisy = frame.with_columns(heat=pl.Series(rng.normal(size=frame.height))).drop("off")
    effects, panel, covariates = fitted(noisy, Roles(future=("heat",)))
    if effects is not None:
        assert effects.of(panel, covariates).rows.values.std() < 0.15


@pytest.mark.parametrize("wobble", [0.0, 1e-6, 1e-3])
def test_a_copy_of_the_season_does_no_harm(wobble):
    rng = np.random.default_rng(0)
    copy = daily(1500) + wobble * rng.normal(size=1500)
    one = series("a", 1500, 1).with_columns(copy=pl.Series(copy))
    effects, panel, covariates = fitted(one, Roles(future=("copy",)))
    if effects is not None:
        assert np.abs(effects.of(panel, covariates).rows.values).max() < 0.5


@pytest.mark.parametrize("value", [0.0, 7.3])
def test_a_constant_column_has_no_effect(frame, value):
    constant = frame.with_columns(same=pl.lit(value))
    assert fitted(constant, Roles(future=("same",)))[0] is None
    both = effect_of(constant, Roles(future=("heat", "same", "off")))
    np.testing.assert_allclose(both, effect_of(frame), atol=1e-5)


def test_columns_that_are_not_known_ahead_do_not_count(frame):
    assert fitted(frame, Roles(past=("heat", "off")))[0] is None
    more = frame.with_columns(wind=pl.col("y").shift(1).fill_null(0))
    got = effect_of(more, Roles(past=("wind",), future=("heat", "off")))
    np.testing.assert_array_equal(got, effect_of(frame))


@pytest.mark.parametrize("length", [2, 5, 24, 49, 200])
def test_short_series_are_no_trouble(length):
    effects, panel, covariates = fitted(series("a", length, 0))
    if effects is not None:
        assert np.isfinite(effects.of(panel, covariates).rows.values).all()


# Which steps count


def test_the_order_of_series_is_irrelevant(frame):
    forth = effect_of(frame)
    back = effect_of(pl.concat([frame[1500:], frame[:1500]]))
    np.testing.assert_allclose(np.r_[back[1200:], back[:1200]], forth, atol=1e-4)


def test_missing_values_do_not_count(frame):
    """Whatever stood in the gaps, the fit is the same, and gaps stay gaps."""
    holes = pl.int_range(pl.len()) % 7 == 3
    holed = frame.with_columns(y=pl.when(~holes).then("y"))
    effects, panel, covariates = fitted(holed)
    assert (
        share_left(
            effects.of(panel, covariates).rows.values[:, 0] * np.repeat(panel.scale, panel.lengths),
            v_shape(frame["heat"].to_numpy()) - 1.2 * frame["off"].to_numpy(),
        )
        < 0.03
    )
    rest = effects.of(panel, covariates).removed(panel)
    np.testing.assert_array_equal(np.isnan(rest.values), np.isnan(panel.values))
    assert np.isnan(panel.values).any()


def test_steps_without_weight_do_not_count(frame):
    panel, covariates, _ = read(frame)
    spoilt = panel.values.copy()
    spoilt[200:600] += frame["heat"].to_numpy()[200:600]
    weights = np.ones_like(spoilt)
    weights[200:600] = 0.0
    missing = np.where(weights > 0, spoilt, np.nan).astype(np.float32)
    ignored = fit_effects(replace(panel, values=spoilt, weights=weights), covariates, SEASON)
    absent = fit_effects(replace(panel, values=missing), covariates, SEASON)
    torch.testing.assert_close(ignored.weights, absent.weights)
    counted = fit_effects(replace(panel, values=spoilt), covariates, SEASON)
    assert (counted.weights - absent.weights).abs().max() > 0.05


def test_weights_count_by_their_ratio(frame):
    weighted = frame.with_columns(w=1 + pl.int_range(pl.len()) % 5)
    panel, covariates, _ = read(weighted)
    one, other = (
        fit_effects(read_weights(weighted.with_columns(w), panel, "w"), covariates, SEASON)
        for w in (pl.col("w"), pl.col("w") * 100)
    )
    torch.testing.assert_close(one.weights, other.weights)
    plain = fit_effects(panel, covariates, SEASON)
    assert (one.weights - plain.weights).abs().max() > 1e-4


def test_batches_and_thinning_change_little(frame, monkeypatch):
    whole = effect_of(frame)
    monkeypatch.setattr(effects_module, "_BATCH", 77)
    monkeypatch.setattr(effects_module, "_ROWS", 100)
    np.testing.assert_allclose(effect_of(frame), whole, atol=1e-5)
    monkeypatch.setattr(effects_module, "_MOST_PAIRS", 1000)
    thinned = effect_of(frame)
    assert 0 < share_left(thinned, whole) < 0.05


def test_a_pair_across_the_border_of_two_blocks_is_in_neither(frame):
    panel, covariates, _ = read(frame)
    pairs = effects_module._pairs(panel, covariates, SEASON, 10_000)
    assert len(pairs.row) == len(frame) - 2 * SEASON
    step = torch.where(pairs.row < 1500, pairs.row, pairs.row - 1500)
    length = torch.where(pairs.row < 1500, 1500, 1200)
    late, early = (at * 4 // length for at in (step, step - SEASON))
    assert torch.equal(pairs.block, torch.where(late == early, late, 4))
    assert (pairs.block == 4).sum() == 2 * 3 * SEASON


def test_thinned_pairs_are_even_over_time_and_season(frame):
    panel, covariates, _ = read(frame)
    pairs = effects_module._pairs(panel, covariates, SEASON, 480)
    assert len(pairs.row) == pytest.approx(480, abs=2)
    per_hour = np.bincount(pairs.row.numpy() % 24, minlength=24)
    per_block = np.bincount(pairs.block.numpy(), minlength=5)[:4]
    assert per_hour.min() > 15
    assert per_block.min() > 0.9 * per_block.max()


# The ridge


def moments(x, y, block):
    """Sums of products of each of four blocks and of the rest."""
    sample = np.c_[x, y]
    return torch.from_numpy(
        np.stack([sample[block == number].T @ sample[block == number] for number in range(5)])
    )


def standardised_ridge(x, y, penalty, least_power):
    """The same by scikit-learn."""
    power = np.sqrt(np.maximum((x**2).sum(0), least_power))
    return Ridge(alpha=penalty, fit_intercept=False).fit(x / power, y).coef_ / power


def test_the_penalty_is_the_best_on_blocks_left_out():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 30)) * np.r_[1e-3, 0.1, np.ones(28)]
    y, block = x @ rng.normal(size=30) / 3 + rng.normal(size=200), rng.integers(0, 5, 200)
    errors = []
    for penalty in effects_module._PENALTIES:
        error = 0.0
        for number in range(4):
            rest, out = (block != number) & (block < 4), block == number
            weights = standardised_ridge(x[rest], y[rest], penalty, 0.5)
            error += ((y[out] - x[out] @ weights) ** 2).sum()
        errors.append(error)
    best = effects_module._PENALTIES[int(np.argmin(errors))]
    assert best not in (effects_module._PENALTIES[0], effects_module._PENALTIES[-1])
    got = effects_module._ridge(moments(x, y, block), 0.5)
    np.testing.assert_allclose(got, standardised_ridge(x, y, best, 0.5), rtol=1e-6)


@pytest.mark.parametrize(("slopes", "used"), [((1, 1, 1, 0), True), ((1, 1, 0, 0), False)])
def test_an_effect_must_help_in_three_of_four_blocks(slopes, used):
    x, block = np.random.default_rng(0).normal(size=(400, 1)), np.repeat(range(4), 100)
    y = x[:, 0] * np.array(slopes)[block]
    assert (effects_module._ridge(moments(x, y, block), 0.5) is not None) == used


# Off and on again


def test_what_is_removed_and_added_gives_the_series_back(frame):
    effects, panel, covariates = fitted(frame)
    effect = effects.of(panel, covariates)
    rest = effect.removed(panel)
    np.testing.assert_allclose(rest.values + effect.rows.values[:, 0], panel.values, atol=1e-6)
    assert rest.values.std() < 0.9 * panel.values.std()


def test_the_effect_ahead_is_that_of_the_rows(frame):
    effects, panel, covariates = fitted(frame)
    effect = effects.of(panel, covariates)
    store = WindowStore(panel, SEASON)
    windows = store.windows(0, 10, stride=97)
    ahead = effect.ahead(store.elapsed(windows), windows.series, 10)
    index = windows.origin[:, None] + torch.arange(10)
    assert torch.equal(ahead, torch.from_numpy(effect.rows.values[:, 0])[index])


def test_the_effect_beyond_the_end_is_that_of_a_longer_frame(frame):
    known = frame.filter(pl.int_range(pl.len()).over("unique_id") < 1100)
    panel, covariates, encoding = read(known)
    effects = fit_effects(panel, covariates, SEASON)
    ahead = future_frame(panel, 10).join(frame, on=["unique_id", "ds"], how="left")
    extended = extend_covariates(covariates, panel, ROLES, encoding, ahead, 10)
    effect = effects.of(panel, extended)
    last = WindowStore(panel, SEASON).last()
    got = effect.ahead(last.origin - torch.from_numpy(panel.offsets[:-1]), last.series, 10)

    longer = read_panel(frame)
    whole, _ = read_covariates(frame, longer, ROLES, encoding)
    rows = effects.of(longer, whole).rows.values[:, 0]
    expected = np.stack([rows[begin + 1100 : begin + 1110] for begin in longer.offsets[:-1]])
    np.testing.assert_allclose(got, expected, atol=1e-5)
    without = effects.of(panel, covariates).removed(panel)
    np.testing.assert_allclose(effect.removed(panel).values, without.values, atol=1e-5)


def test_the_targets_of_a_wide_frame_share_the_effect(frame):
    late = pl.when(pl.col("unique_id") == "b").then(pl.duration(hours=7)).otherwise(pl.duration())
    shifted = frame.with_columns(ds=pl.col("ds") + late)
    wide = shifted.with_columns(z=2 * pl.col("y") + 5)
    panel = read_panel(wide, target_col=["y", "z"])
    covariates, _ = read_covariates(wide, panel, ROLES)
    effect = fit_effects(panel, covariates, SEASON).of(panel, covariates)
    rest = effect.removed(panel)
    np.testing.assert_allclose(rest.values[:1500], rest.values[1500:3000], atol=1e-5)
    np.testing.assert_allclose(effect.rows.values[:, 0], effect_of(shifted), atol=1e-4)


def test_tensors_make_the_same_effects_again(frame):
    effects, panel, covariates = fitted(frame)
    again = effects_module.Effects.from_tensors(
        {name: tensor.clone() for name, tensor in effects.tensors().items()}
    )
    np.testing.assert_array_equal(
        again.of(panel, covariates).rows.values, effects.of(panel, covariates).rows.values
    )


def test_values_beyond_those_seen_have_the_effect_of_the_nearest(frame):
    effects, panel, covariates = fitted(frame, Roles(future=("heat",)))
    known = covariates.values[:, 0]
    for limit, beyond in ((known.max(), 50.0), (known.min(), -50.0)):
        at, far = (
            effects.of(panel, replace(covariates, values=np.full_like(covariates.values, value)))
            for value in (limit, beyond)
        )
        np.testing.assert_allclose(far.rows.values, at.rows.values, atol=1e-5)
