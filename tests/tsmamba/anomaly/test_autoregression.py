import numpy as np
import pytest

from tsmamba.anomaly.autoregression import Autoregression, order_for


def test_it_is_ridge_regression_on_the_rows_before(make_waves):
    x = make_waves(300, 2)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    model = Autoregression.of(x, order=3)
    past = np.stack([x[i - 3 : i].ravel() for i in range(3, 300)])
    design = np.concatenate([past, np.ones((297, 1))], axis=1)
    penalty = np.diag([1e-3 * 297] * 6 + [1e-9])
    solved = np.linalg.solve(design.T @ design + penalty, design.T @ x[3:])
    np.testing.assert_allclose(model.coefficients, solved[:-1], atol=1e-9)
    np.testing.assert_allclose(model.intercept, solved[-1], atol=1e-9)
    np.testing.assert_allclose(model.residuals(x), x[3:] - design @ solved, atol=1e-9)


def test_blocks_of_long_series_leave_no_seam(make_waves):
    x = make_waves(9_000)
    model = Autoregression.of(x, order=5)
    parts = [model.residuals(x[max(0, i - 5) : i + 1_000]) for i in range(0, 9_000, 1_000)]
    np.testing.assert_allclose(model.residuals(x), np.concatenate(parts), atol=1e-12)


@pytest.mark.parametrize("order", [0, 3])
@pytest.mark.parametrize("rows", [1, 20])
def test_residuals_of_many_series_are_those_of_each(make_waves, rng, order, rows):
    model = Autoregression.of(make_waves(300, 2), order)
    x = rng.normal(size=(5, order + rows + 10, 2))[:, 10:]
    np.testing.assert_array_equal(model.residuals(x), [model.residuals(one) for one in x])


def test_order_0_compares_with_the_mean(rng):
    x = rng.normal(size=(200, 3)) + 4
    model = Autoregression.of(x, order=0)
    assert model.order == 0
    np.testing.assert_allclose(model.residuals(x), x - x.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("channels", [1, 5, 200])
def test_the_order_fits_rows_and_channels(channels):
    orders = [order_for(period, n, channels) for period in (1, 24, 400) for n in (16, 200, 10_000)]
    assert min(orders) >= 1
    assert max(orders) <= max(3, 128 // channels)
    assert order_for(400, 16, channels) <= 4
