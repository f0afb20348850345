from dataclasses import astuple, replace

import numpy as np
import pytest

from tsmamba.forecast import facts as module
from tsmamba.forecast.facts import examine

SEASON = 24
LENGTH = 2_400
T = np.arange(LENGTH)
WAVE = np.sin(2 * np.pi * T / SEASON)


def noise(length=LENGTH, seed=0):
    return np.random.default_rng(seed).normal(size=length)


def walk(length=LENGTH, seed=0):
    return noise(length, seed).cumsum()


def without(y, *steps):
    y = y.copy()
    y[list(steps)] = np.nan
    return y


# Laws


@pytest.fixture(scope="module")
def mixed():
    burst = np.where(T // 96 % 2, 9.0, 1.0) * noise(seed=3)
    return [WAVE, walk(), without(noise(), 5, 6, 7), burst, np.full(50, 3.0)]


def test_the_order_of_the_series_does_not_matter(make_panel, mixed):
    assert examine(make_panel(*mixed), SEASON) == examine(make_panel(*mixed[::-1]), SEASON)


def test_neither_do_origin_and_unit(make_panel, mixed):
    moved = [1e4 - 250 * y for y in mixed]
    expected = astuple(examine(make_panel(*mixed), SEASON))
    for number, other in zip(astuple(examine(make_panel(*moved), SEASON)), expected, strict=True):
        assert number == (pytest.approx(other, abs=1e-3) if isinstance(other, float) else other)


def test_of_many_series_a_sample_is_measured_and_all_are_counted(make_panel, monkeypatch):
    panel = make_panel(*[walk(300, seed) for seed in range(9)], *[np.ones(10)] * 8)
    whole = examine(panel, 1)
    monkeypatch.setattr(module, "_MOST_SERIES", 3)
    sampled = examine(panel, 1)
    assert (whole.random_walk, sampled.random_walk) == (9 / 17, 2 / 3)
    assert replace(sampled, random_walk=whole.random_walk) == whole
    assert (whole.n_series, whole.constant_series, whole.shortest) == (17, 8, 10)


def test_of_a_long_series_the_end_is_measured(make_panel, monkeypatch):
    panel = make_panel(np.concatenate([noise(), WAVE]))
    monkeypatch.setattr(module, "_MOST_STEPS", len(WAVE))
    assert examine(panel, SEASON).seasonal_strength == pytest.approx(1)


# Sizes


def test_sizes_are_counted_in_steps(make_panel):
    facts = examine(make_panel(noise(10), noise(40), noise(100)), 1)
    assert (facts.shortest, facts.length, facts.longest) == (10, 40, 100)
    assert (facts.step, facts.step_seconds, facts.season) == ("1", None, 1)


def test_memory_grows_with_the_data(make_panel):
    small, large = (examine(make_panel(noise(n)), 1).memory_estimate for n in (100, 100_000))
    assert 1e8 < small < large < 1e9


# Season


def test_a_pure_season_has_strength_one_and_a_trend_takes_nothing_off(make_panel):
    for y in (WAVE, WAVE + 0.01 * T, WAVE - 1e-6 * T**2):
        assert examine(make_panel(y), SEASON).seasonal_strength == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("deviation", [0.3, 0.7, 1.5])
def test_strength_is_the_share_of_the_variance(make_panel, deviation):
    y = WAVE + deviation * noise()
    expected = 0.5 / (0.5 + deviation**2)
    assert examine(make_panel(y), SEASON).seasonal_strength == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("season", [7, 24, 96])
@pytest.mark.parametrize("kind", [noise, walk])
def test_noise_and_random_walks_have_none(make_panel, kind, season):
    panel = make_panel(*[kind(seed=seed) for seed in range(20)])
    assert examine(panel, season).seasonal_strength < 0.05


def test_gaps_leave_the_strength_as_it_is(make_panel):
    y = WAVE + 0.5 * noise() + 0.01 * T
    gaps = np.flatnonzero(np.random.default_rng(1).random(len(y)) < 0.3)
    whole = examine(make_panel(y), SEASON).seasonal_strength
    holed = examine(make_panel(without(y, *gaps)), SEASON).seasonal_strength
    assert holed == pytest.approx(whole, abs=0.05)


# Gaps


def test_missing_steps_are_counted_wherever_they_are(make_panel):
    y = without(noise(100), 0, 1, 50, 51, 52, 53, 99)
    facts = examine(make_panel(y, noise(100)), 1)
    assert (facts.missing_share, facts.longest_gap) == (7 / 200, 4)


@pytest.mark.parametrize("steps", [range(5), range(95, 100), range(20, 25)])
def test_a_gap_may_lie_at_either_end(make_panel, steps):
    assert examine(make_panel(without(noise(100), *steps)), 1).longest_gap == 5


def test_a_gap_does_not_run_into_the_next_series(make_panel):
    first, second = without(noise(50), *range(46, 50)), without(noise(50), *range(4))
    assert examine(make_panel(first, second), 1).longest_gap == 4


# Scale


@pytest.mark.parametrize(("factor", "share"), [(1, 0.0), (2, 0.0), (9, 1.0)])
def test_changes_of_scale_are_those_beyond_threefold(make_panel, factor, share):
    spread = np.where(T // (4 * SEASON) % 2, factor, 1)
    assert examine(make_panel(spread * noise()), SEASON).scale_changes == share


def test_a_stretch_that_stands_still_changes_the_scale(make_panel):
    y = noise(64 * 3)
    y[64:128] = 0.0
    assert examine(make_panel(y), 1).scale_changes == 1.0


# Random walks


@pytest.mark.parametrize("length", [200, 600, 5_000])
@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_random_walks_are_found(make_panel, length, drift):
    walks = [walk(length, seed) + drift * np.arange(length) for seed in range(40)]
    assert examine(make_panel(*walks), 1).random_walk > 0.9


def autoregressive(seed, pull=0.05):
    y = noise(5_000, seed)
    for step in range(1, len(y)):
        y[step] += (1 - pull) * y[step - 1]
    return y


@pytest.mark.parametrize(
    "kind",
    [
        lambda seed: noise(seed=seed),
        autoregressive,
        lambda seed: walk(seed=seed).cumsum(),
        lambda seed: np.convolve(noise(seed=seed), [1, -0.5, 0.5]).cumsum(),
        lambda seed: walk(seed=seed) + 2 * WAVE,
        lambda seed: T + 0.1 * noise(seed=seed),
        lambda seed: walk(100, seed),
        lambda seed: np.full(1_000, float(seed)),
    ],
    ids=["noise", "pulled back", "smooth", "bouncing", "seasonal", "line", "too short", "constant"],
)
def test_nothing_else_is_taken_for_one(make_panel, kind):
    assert examine(make_panel(*[kind(seed) for seed in range(10)]), SEASON).random_walk <= 0.1


# The smallest


@pytest.mark.parametrize("season", [1, 2, 7])
@pytest.mark.parametrize(
    "y",
    [
        [1.0],
        [1.0, 2.0],
        [1.0, np.nan, 2.0],
        np.where(np.arange(3_000) % 2, np.nan, noise(3_000)),
        np.where(np.arange(3_000) % 300, np.nan, noise(3_000)),
    ],
    ids=["one", "two", "gap", "every other", "hardly any"],
)
def test_what_cannot_be_measured_is_zero(make_panel, y, season):
    facts = examine(make_panel(y, y), season)
    assert (facts.random_walk, facts.scale_changes) == (0.0, 0.0)
    assert 0.0 <= facts.seasonal_strength <= 1.0
