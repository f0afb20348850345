from dataclasses import replace

import numpy as np
import pytest
import torch

from tsmamba.data.panel import read_panel
from tsmamba.forecast.base import features
from tsmamba.forecast.calibration import Residuals
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.source import Source


@pytest.fixture(scope="module")
def fitted(base, hourly):
    return base(context_length=48).fit(hourly)._fitted.model, read_panel(hourly)


@pytest.fixture(scope="module")
def corrected(fitted):
    """The same model with a corrector that is wide open and does something."""
    model, _ = fitted
    torch.manual_seed(0)
    corrector = Corrector(
        CorrectorConfig(history=48, horizon=24, patch=24, n_context=4, d_model=8, n_layers=1)
    )
    corrector.eval().requires_grad_(False)
    torch.nn.init.normal_(corrector.head.weight)
    cycles = ((86_400.0, 2),)
    return replace(model, corrector=corrector, gate=torch.full((24,), 0.5), cycles=cycles)


def forecast(model, panel, **kwargs):
    source = Source.of(panel, 24, model.cycles)
    windows = source.store.windows(60, 24)
    return model.forecast(source, windows, **kwargs), source, windows


def test_the_base_is_a_linear_map(fitted):
    model, panel = fitted
    got, source, windows = forecast(model, panel, base_only=True)
    inputs, level = features(source.store, windows, model.context)
    torch.testing.assert_close(got.point, level.restore(inputs @ model.weights))
    unit = model.residuals.unit(level.scale, source.store.numbers(windows))
    torch.testing.assert_close(got.unit, unit)


def test_the_correction_counts_by_its_gate(fitted, corrected):
    _, panel = fitted
    base = forecast(corrected, panel, base_only=True)[0].point
    half = forecast(corrected, panel)[0].point
    whole = forecast(replace(corrected, gate=torch.ones(24)), panel)[0].point
    assert (half - base).abs().max() > 0.01
    torch.testing.assert_close(whole - base, 2 * (half - base), rtol=1e-3, atol=1e-4)


def test_forecasts_do_not_depend_on_their_batch(fitted, corrected):
    _, panel = fitted
    many, source, windows = forecast(corrected, panel)
    for row in (0, 100, len(windows) - 1):
        one = corrected.forecast(source, windows.select(torch.tensor([row])))
        torch.testing.assert_close(one.point[0], many.point[row], rtol=1e-4, atol=1e-5)


def test_quantiles_rise_with_their_level(fitted, spreading):
    _, panel = fitted
    for model in (fitted[0], spreading):
        got, _, _ = forecast(model, panel)
        stacked = torch.stack([got.quantile(float(q)) for q in np.linspace(0.001, 0.999, 77)])
        assert (stacked.diff(dim=0) >= 0).all()


@pytest.fixture(scope="module")
def spreading(fitted, corrected):
    """The same model whose intervals follow a spread that differs from step to step."""
    torch.manual_seed(0)
    corrector = Corrector(replace(corrected.corrector.config, spread=True)).eval()
    corrector.load_state_dict(corrected.corrector.state_dict(), strict=False)
    torch.nn.init.normal_(corrector.spread_head.weight)
    residuals = Residuals(2 * corrected.residuals.quantiles, power=1.0)
    return replace(corrected, corrector=corrector.requires_grad_(False), spread_residuals=residuals)


def test_intervals_follow_the_spread_and_points_do_not(fitted, corrected, spreading):
    _, panel = fitted
    got = forecast(spreading, panel)[0]
    plain = forecast(corrected, panel)[0]
    torch.testing.assert_close(got.point, plain.point)
    assert got.unit.shape == got.point.shape
    assert (got.unit / plain.unit).max() > 2 * (got.unit / plain.unit).min()
    expected = got.unit * spreading.spread_residuals.quantile(0.9)
    assert torch.equal(got.quantile(0.9), got.point + expected)


@pytest.mark.parametrize("gate", [0.0, 0.5, 1.0])
def test_the_gate_holds_back_no_spread(fitted, spreading, gate):
    _, panel = fitted
    gated = forecast(replace(spreading, gate=torch.full((24,), gate)), panel)[0]
    whole = forecast(spreading, panel)[0]
    assert torch.equal(gated.unit, whole.unit)


def test_without_the_corrector_there_is_no_spread(fitted, spreading):
    _, panel = fitted
    got = forecast(spreading, panel, base_only=True)[0]
    assert got.unit.shape == (len(got.point), 1)
    expected = got.point + got.unit * spreading.residuals.quantile(0.9)
    assert torch.equal(got.quantile(0.9), expected)


def test_spreads_do_not_depend_on_their_batch(fitted, spreading):
    _, panel = fitted
    many, source, windows = forecast(spreading, panel)
    for row in (0, 100, len(windows) - 1):
        one = spreading.forecast(source, windows.select(torch.tensor([row])))
        torch.testing.assert_close(
            one.quantile(0.9)[0], many.quantile(0.9)[row], rtol=1e-4, atol=1e-4
        )


def test_a_model_of_before_there_was_a_spread_is_read(fitted, corrected):
    _, panel = fitted
    settings, tensors = corrected.to_parts()
    del settings["corrector"]["spread"]
    again = ForecastModel.from_parts(settings, tensors)
    first, second = (forecast(m, panel)[0] for m in (corrected, again))
    assert torch.equal(first.quantile(0.3), second.quantile(0.3))


def test_parts_make_the_same_model(fitted, corrected, spreading):
    _, panel = fitted
    for model in (fitted[0], corrected, spreading):
        again = ForecastModel.from_parts(*model.to_parts())
        assert again.horizon == model.horizon == 24
        assert (again.corrector is None) == (model.corrector is None)
        first, second = (forecast(m, panel)[0] for m in (model, again))
        assert torch.equal(first.point, second.point)
        assert torch.equal(first.quantile(0.3), second.quantile(0.3))


def test_parts_hold_the_effects_of_covariates(base, shop):
    model = base(future_covariates=["heat"]).fit(shop)._fitted.model
    assert model.effects is not None
    again = ForecastModel.from_parts(*model.to_parts())
    tensors = again.effects.tensors()
    assert all(torch.equal(x, tensors[name]) for name, x in model.effects.tensors().items())


def test_a_forecast_keeps_no_graph(fitted, corrected):
    _, panel = fitted
    assert not forecast(corrected, panel)[0].point.requires_grad


def test_history_before_the_series_changes_nothing(fitted, corrected):
    _, panel = fitted
    source = Source.of(panel, 24, corrected.cycles)
    windows = source.store.windows(48, 24)
    windows = windows.select(source.store.elapsed(windows) == 48)
    assert len(windows)
    trained = corrected.forecast(source, windows).point
    longer = corrected.with_history(480).forecast(source, windows).point
    torch.testing.assert_close(longer, trained, rtol=1e-4, atol=1e-5)


def test_more_history_is_read_and_whole_patches_are_counted(fitted, corrected):
    _, panel = fitted
    points = {
        history: forecast(corrected.with_history(history), panel)[0].point
        for history in (1, 24, 48, 71, 72, 120)
    }
    assert torch.equal(points[48], forecast(corrected, panel)[0].point)
    assert torch.equal(points[1], points[24])
    assert torch.equal(points[71], points[48])
    assert (points[72] - points[48]).abs().max() > 1e-4
    assert (points[120] - points[72]).abs().max() > 1e-4
    assert corrected.corrector.config.history == 48


def test_without_a_corrector_more_history_is_the_same_model(fitted):
    model, _ = fitted
    assert model.with_history(480) is model
