import numpy as np
import pytest

from tsmamba.anomaly.recursive import RecursiveRegression


def residuals(model, values):
    order = len(model.weights) - 1
    return np.array(
        [model.residual(values[i - order : i], values[i]) for i in range(order, len(values))]
    )


def test_weights_solve_the_normal_equations_of_a_fading_past(rng):
    values, order = rng.normal(size=400).cumsum() / 10, 3
    model = RecursiveRegression(order)
    residuals(model, values)
    past = np.stack([values[i - order : i] for i in range(order, 400)])
    past = np.concatenate([past, np.ones((len(past), 1))], axis=1)
    fading = 0.999 ** np.arange(len(past))[::-1]
    gram = past.T @ (fading[:, None] * past)
    # Forgetting begins once something is known, so the first variance fades a little less.
    solved = np.linalg.solve(gram + 1e-3 * np.eye(order + 1), past.T @ (fading * values[order:]))
    np.testing.assert_allclose(model.weights, solved, rtol=1e-2, atol=1e-3)


def test_a_forecast_and_its_residual_are_the_value(rng):
    values, model = rng.normal(size=50), RecursiveRegression(3)
    residuals(model, values)
    weights = model.weights.copy()
    expected = model.forecast(values[-4:-1])
    np.testing.assert_array_equal(model.weights, weights)
    assert expected + model.residual(values[-4:-1], values[-1]) == pytest.approx(values[-1])


def test_it_follows_a_change(rng):
    one, other = (np.convolve(rng.normal(size=4_000), kernel)[:4_000] for kernel in ([1, 0.9], [1]))
    model = RecursiveRegression(1)
    residuals(model, one)
    assert model.weights[0] == pytest.approx(0.5, abs=0.1)
    residuals(model, other)
    assert model.weights[0] == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("kind", ["nothing", "level", "wave", "spikes", "step"])
def test_it_stays_finite_whatever_comes(rng, kind):
    n = 30_000
    values = {
        "nothing": np.zeros(n),
        "level": np.full(n, 1e4),
        "wave": np.sin(np.arange(n) / 7),
        "spikes": np.where(rng.random(n) < 0.001, 1e4, 0.0),
        "step": np.repeat([-1e4, 1e4], n // 2),
    }[kind]
    found = residuals(RecursiveRegression(24), values)
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 1e7
    if kind != "spikes":
        assert np.abs(found[-1_000:]).max() < 1e-3
