import numpy as np
import pytest

from tsmamba.forecast.events.blending import LEVELS, fit_blend

N = 600


def problem(seed=0, n=N):
    """Return what three forecasters say of two codes; only the third knows the first code."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 1, 2))
    said = truth + rng.normal(size=(3, n, 1, 2)) * np.array([1.0, 0.5, 0.2])[:, None, None, None]
    said[0, :, 0, 1] = truth[:, 0, 1]
    return said, truth, np.ones((n, 1, 2), bool), np.zeros((n, 2), int)


def test_the_best_forecaster_of_each_code_weighs_most():
    blend = fit_blend(*problem())
    assert blend.weights[0, 0, 0].argmax() == 2
    np.testing.assert_array_equal(blend.weights[0, 0, 1], [1, 0, 0])
    np.testing.assert_allclose(blend.weights.sum(-1), 1)
    assert (blend.weights >= 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_no_code_is_worse_than_carried_forward(seed):
    rng = np.random.default_rng(seed)
    said, truth = rng.normal(size=(3, N, 2, 4)), rng.normal(size=(N, 2, 4))
    said[0] = truth + rng.normal(size=truth.shape)
    seen, age = rng.random(truth.shape) < 0.8, rng.integers(0, 3, (N, 4))
    points = fit_blend(said, truth, seen, age).points(said, age)
    blended, carried = (np.abs(each - truth) * seen for each in (points, said[0]))
    for old in range(3):
        here = (age == old)[:, None]
        assert ((blended * here).sum(0) <= (carried * here).sum(0) + 1e-9).all()


def test_few_values_are_carried_forward():
    said, truth, seen, age = problem(n=50)
    blend = fit_blend(said, truth, seen, age)
    np.testing.assert_array_equal(blend.weights[..., 0], 1)
    np.testing.assert_array_equal(blend.points(said, age), said[0])


def test_intervals_hold_their_share_of_new_values():
    said, truth, seen, age = problem(n=4_000)
    blend = fit_blend(said[:, :2_000], truth[:2_000], seen[:2_000], age[:2_000])
    said, truth, age = said[:, 2_000:], truth[2_000:], age[2_000:]
    points = blend.points(said, age)
    for level in (0.05, 0.2, 0.8, 0.95):
        below = truth[..., 0] <= (points + blend.away(age, level))[..., 0]
        assert below.mean() == pytest.approx(level, abs=0.02)


def test_an_interval_holds_the_forecast_even_of_a_biased_one():
    said, truth, seen, age = problem()
    blend = fit_blend(said + 50, truth, seen, age)
    assert (blend.away(age, 0.05) < 0).all()
    assert (blend.away(age, 0.95) > 0).all()


def test_quantiles_rise_with_their_level():
    said, truth, seen, age = problem()
    blend = fit_blend(said, truth, seen, age)
    away = [blend.away(age, level) for level in (0.001, *LEVELS[::20], 0.999)]
    assert (np.diff(away, axis=0) >= 0).all()


def test_a_code_that_nobody_measured_again_has_the_errors_of_others():
    said, truth, seen, age = problem()
    seen[..., 1] = False
    blend = fit_blend(said, truth, seen, age)
    np.testing.assert_array_equal(blend.weights[:, 0, 1, 0], 1)
    assert (blend.away(age, 0.95)[..., 1] > 0.01).all()
