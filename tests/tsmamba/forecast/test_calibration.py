import numpy as np
import pytest
import torch

from tsmamba.data.windows import Windows
from tsmamba.forecast.base import Level
from tsmamba.forecast.calibration import N_LEVELS, calibrate

HORIZON = 6


def level_forecast(store):
    """Forecast zero with a scale that grows along the series."""

    def forecast(windows):
        n = len(windows)
        scale = 0.5 + store.progress(windows)[:, None]
        return torch.zeros(n, HORIZON), Level(torch.zeros(n, 1), scale)

    return forecast


def calibrated(store):
    windows = store.windows(10, HORIZON)
    return windows, calibrate(store, windows, HORIZON, level_forecast(store))


@pytest.mark.parametrize("q", [0.02, 0.1, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("growing", [False, True])
def test_quantiles_cover_on_exchangeable_noise(make_store, q, growing):
    rng = np.random.default_rng(1)
    y = rng.standard_t(4, size=4_000)
    y *= np.linspace(0.5, 1.5, y.size) if growing else 1.0
    store = make_store(y)
    windows = store.windows(10, HORIZON)
    odd = torch.arange(len(windows)) // 50 % 2 == 1
    residuals = calibrate(store, windows.select(~odd), HORIZON, level_forecast(store))
    _, level = level_forecast(store)(windows.select(odd))
    values, _ = store.future(windows.select(odd), HORIZON)
    share = (values <= residuals.quantile(q, level.scale)).float().mean().item()
    assert share == pytest.approx(q, abs=0.05 if q == 0.5 else 0.03)


def test_quantiles_never_cross(make_store):
    store = make_store(np.random.default_rng(0).normal(size=500))
    _, residuals = calibrated(store)
    scale = torch.tensor([[0.1], [1.0], [4.0]])
    levels = np.sort(np.random.default_rng(0).uniform(size=400))
    stacked = torch.stack([residuals.quantile(float(q), scale) for q in levels])
    assert (stacked.diff(dim=0) >= 0).all()


def test_a_quantile_between_two_levels_lies_between_them(make_store):
    store = make_store(np.random.default_rng(0).normal(size=500))
    _, residuals = calibrated(store)
    one = torch.ones(1, 1)
    low, middle, high = (residuals.quantile(q, one) for q in (0.1, 0.1025, 0.105))
    torch.testing.assert_close(middle, (low + high) / 2)
    torch.testing.assert_close(low, residuals.quantiles[20][None])


@pytest.mark.parametrize("q", [1e-9, 1 - 1e-9])
def test_extreme_quantiles_stay_inside_the_errors_seen(make_store, q):
    y = np.random.default_rng(0).normal(size=300)
    store = make_store(y)
    _, residuals = calibrated(store)
    got = residuals.quantile(q, torch.ones(1, 1))
    assert got.isfinite().all()
    assert residuals.quantiles.shape == (N_LEVELS, HORIZON)


def test_missing_values_do_not_count(make_store):
    rng = np.random.default_rng(0)
    y = rng.normal(size=2_000)
    holed = y.copy()
    holed[rng.uniform(size=y.size) < 0.3] = np.nan
    one = torch.ones(1, 1)
    full, some = (calibrated(make_store(x))[1].quantile(0.9, one) for x in (y, holed))
    torch.testing.assert_close(full, some, atol=0.25, rtol=0)


def test_a_step_that_was_never_observed_has_no_width(make_store):
    y = np.full(60, np.nan)
    y[:20] = np.arange(20)
    y[-1] = 3
    store = make_store(y)
    windows = Windows(torch.tensor([25, 30]), torch.tensor([0, 0]))
    residuals = calibrate(store, windows, HORIZON, level_forecast(store))
    assert (residuals.quantiles == 0).all()


@pytest.mark.parametrize("count", [1, 2, 20])
def test_few_windows_share_the_errors_of_neighbouring_steps(make_store, count):
    store = make_store(np.random.default_rng(0).normal(size=200))
    windows = store.windows(10, HORIZON).thinned(count)
    residuals = calibrate(store, windows, HORIZON, level_forecast(store))
    spread = residuals.quantile(0.95, torch.ones(1, 1)) - residuals.quantile(0.05, torch.ones(1, 1))
    assert (spread > 0).all()
