from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from tsmamba.data.panel import read_panel
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import Level
from tsmamba.forecast.calibration import N_LEVELS, Residuals, calibrate
from tsmamba.forecast.correction import Normalised

HORIZON = 6


def level_forecast(store):
    """Forecast zero with a scale that grows along the series."""

    def forecast(windows):
        n = len(windows)
        scale = 0.5 + store.progress(windows)[:, None]
        return Normalised(torch.zeros(n, HORIZON), Level(torch.zeros(n, 1), scale))

    return forecast


def calibrated(store):
    windows = store.windows(10, HORIZON)
    return windows, calibrate(store, windows, HORIZON, level_forecast(store)).plain


@pytest.mark.parametrize("q", [0.02, 0.1, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("growing", [False, True])
def test_quantiles_cover_on_exchangeable_noise(make_store, q, growing):
    rng = np.random.default_rng(1)
    y = rng.standard_t(4, size=4_000)
    y *= np.linspace(0.5, 1.5, y.size) if growing else 1.0
    store = make_store(y)
    windows = store.windows(10, HORIZON)
    odd = torch.arange(len(windows)) // 50 % 2 == 1
    residuals = calibrate(store, windows.select(~odd), HORIZON, level_forecast(store)).plain
    level = level_forecast(store)(windows.select(odd)).level
    values, _ = store.future(windows.select(odd), HORIZON)
    share = (values <= residuals.quantile(q) * level.scale**residuals.power).float().mean().item()
    assert share == pytest.approx(q, abs=0.05 if q == 0.5 else 0.03)


def test_quantiles_never_cross(make_store):
    store = make_store(np.random.default_rng(0).normal(size=500))
    _, residuals = calibrated(store)
    levels = np.sort(np.random.default_rng(0).uniform(size=400))
    stacked = torch.stack([residuals.quantile(float(q)) for q in levels])
    assert (stacked.diff(dim=0) >= 0).all()


def test_a_quantile_between_two_levels_lies_between_them(make_store):
    store = make_store(np.random.default_rng(0).normal(size=500))
    _, residuals = calibrated(store)
    low, middle, high = (residuals.quantile(q) for q in (0.1, 0.1025, 0.105))
    torch.testing.assert_close(middle, (low + high) / 2)
    torch.testing.assert_close(low, residuals.quantiles[20])


@pytest.mark.parametrize("q", [1e-9, 1 - 1e-9])
def test_extreme_quantiles_stay_inside_the_errors_seen(make_store, q):
    y = np.random.default_rng(0).normal(size=300)
    store = make_store(y)
    _, residuals = calibrated(store)
    got = residuals.quantile(q)
    assert got.isfinite().all()
    assert residuals.quantiles.shape == (N_LEVELS, HORIZON)


def test_missing_values_do_not_count(make_store):
    rng = np.random.default_rng(0)
    y = rng.normal(size=2_000)
    holed = y.copy()
    holed[rng.uniform(size=y.size) < 0.3] = np.nan
    full, some = (calibrated(make_store(x))[1].quantile(0.9) for x in (y, holed))
    torch.testing.assert_close(full, some, atol=0.25, rtol=0)


def test_a_step_that_was_never_observed_has_no_width(make_store):
    y = np.full(60, np.nan)
    y[:20] = np.arange(20)
    y[-1] = 3
    store = make_store(y)
    windows = Windows(torch.tensor([25, 30]), torch.tensor([0, 0]))
    residuals = calibrate(store, windows, HORIZON, level_forecast(store)).plain
    assert (residuals.quantiles == 0).all()


@pytest.mark.parametrize("count", [1, 2, 20])
def test_few_windows_share_the_errors_of_neighbouring_steps(make_store, count):
    store = make_store(np.random.default_rng(0).normal(size=200))
    windows = store.windows(10, HORIZON).thinned(count)
    residuals = calibrate(store, windows, HORIZON, level_forecast(store)).plain
    spread = residuals.quantile(0.95) - residuals.quantile(0.05)
    assert (spread > 0).all()


# A learned spread


def alternating(factor):
    """Return noise that is ten times as large every other step, and a forecast with a spread."""

    def forecast(windows):
        n = len(windows)
        loud = (windows.origin[:, None] + torch.arange(HORIZON)) % 2 == 0
        spread = torch.where(loud, 1.0, factor)
        return Normalised(
            torch.zeros(n, HORIZON), Level(torch.zeros(n, 1), torch.ones(n, 1)), spread
        )

    rng = np.random.default_rng(0)
    return np.where(np.arange(12_000) % 2 == 0, 1.0, 0.1) * rng.normal(size=12_000), forecast


@pytest.mark.parametrize(("factor", "helps"), [(0.1, True), (0.3, True), (1.0, False), (10, False)])
def test_a_spread_is_used_where_it_lowers_the_quantile_loss(make_store, factor, helps):
    y, forecast = alternating(factor)
    store = make_store(y)
    calibration = calibrate(store, store.windows(10, HORIZON), HORIZON, forecast)
    assert calibration.spread_helps == helps
    assert (calibration.spread_loss < calibration.plain_loss) == helps


def test_quantiles_in_units_of_the_spread_cover_loud_and_quiet_steps(make_store):
    y, forecast = alternating(0.1)
    store = make_store(y)
    windows = store.windows(10, HORIZON)
    early = store.progress(windows) < 0.6
    calibration = calibrate(store, windows.select(early), HORIZON, forecast)
    later = windows.select(~early)
    values, _ = store.future(later, HORIZON)
    _, _, spread = forecast(later)
    inside = values <= spread * calibration.spread.quantile(0.9)
    for chosen in (spread == 1, spread < 1):
        assert inside[chosen].float().mean().item() == pytest.approx(0.9, abs=0.03)
    plain = values <= calibration.plain.quantile(0.9)
    assert plain[spread == 1].float().mean() < 0.86
    assert plain[spread < 1].float().mean() > 0.97


def test_without_a_spread_there_is_none_to_use(make_store):
    store = make_store(np.random.default_rng(0).normal(size=500))
    calibration = calibrate(store, store.windows(10, HORIZON), HORIZON, level_forecast(store))
    assert calibration.spread is None
    assert not calibration.spread_helps


def test_the_unit_of_a_spread_is_irrelevant(make_store):
    y, forecast = alternating(0.1)
    store = make_store(y)
    windows = store.windows(10, HORIZON)

    def doubled(windows):
        one = forecast(windows)
        return one._replace(spread=2 * one.spread)

    one, other = (calibrate(store, windows, HORIZON, f) for f in (forecast, doubled))
    torch.testing.assert_close(one.spread.quantiles, 2 * other.spread.quantiles)
    assert one.spread_loss == pytest.approx(other.spread_loss)


# Units of series


def of_unlike_series(sizes, length=1_200):
    """Return a store of noise of several sizes, and what forecasts zero in windows of scale one."""
    rng = np.random.default_rng(0)
    frame = pl.concat(
        pl.DataFrame(
            {"unique_id": f"s{n}", "ds": range(length), "y": size * rng.normal(size=length)}
        )
        for n, size in enumerate(sizes)
    )
    panel = read_panel(frame)
    # In common units, so that their sizes are to be found out.
    values = panel.values * np.repeat(panel.scale, panel.lengths) + np.repeat(
        panel.loc, panel.lengths
    )
    store = WindowStore(replace(panel, values=values.astype(np.float32)))

    def forecast(windows):
        n = len(windows)
        return Normalised(torch.zeros(n, HORIZON), Level(torch.zeros(n, 1), torch.ones(n, 1)))

    return store, forecast


def test_a_series_that_is_hard_to_forecast_gets_wide_intervals():
    store, forecast = of_unlike_series([0.2, 1.0, 5.0])
    windows = store.windows(10, HORIZON)
    early = store.progress(windows) < 0.6
    residuals = calibrate(store, windows.select(early), HORIZON, forecast).plain
    later = windows.select(~early)
    values, _ = store.future(later, HORIZON)
    upper = residuals.unit(torch.ones(len(later), 1), store.numbers(later)) * residuals.quantile(
        0.9
    )
    for series in range(3):
        share = (values <= upper)[later.series == series].float().mean().item()
        assert share == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("seed", range(3))
def test_series_of_one_size_have_one_unit(seed):
    store, forecast = of_unlike_series([1.0] * (4 + seed))
    windows = store.windows(10, HORIZON)
    assert calibrate(store, windows, HORIZON, forecast).plain.ratios is None


def test_the_unit_of_a_new_series_is_that_of_all():
    residuals = Residuals(torch.zeros(N_LEVELS, 1), 0.5, ratios=torch.tensor([0.5, 3.0]))
    scale = torch.full((4, 1), 4.0)
    unit = residuals.unit(scale, torch.tensor([1, -1, 2, 0]))
    assert unit[:, 0].tolist() == [6.0, 2.0, 2.0, 1.0]
    other = residuals.renumbered(torch.tensor([-1, 1]))
    assert other.ratios.tolist() == [1.0, 3.0]
    assert Residuals(residuals.quantiles, 0.5).unit(scale, torch.zeros(4).long()).eq(2.0).all()


def test_ratios_are_kept_in_a_file():
    quantiles, ratios = torch.rand(N_LEVELS, 1), torch.rand(3)
    assert Residuals(quantiles, 1.0).tensors("a.").keys() == {"a.quantiles"}
    tensors = Residuals(quantiles, 1.0, ratios).tensors("a.")
    assert torch.equal(tensors["a.ratios"], ratios)
