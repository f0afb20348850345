import pytest
import torch

from benchmarks.corrector.variants import PRESENT, VARIANTS, spectral_error, squared_error
from tools.pretrain import absolute_error

N, HORIZON = 3, 100


def inputs(config, horizon=HORIZON):
    history, base = torch.randn(N, config.history), torch.randn(N, horizon)
    observed = torch.ones(N, config.history, dtype=torch.bool)
    observed[0, : config.patch] = False
    tokens = config.history_tokens + config.forecast_tokens(horizon)
    return history, base, observed, torch.zeros(N, tokens, 0)


def corrector_of(name):
    torch.manual_seed(0)
    corrector = VARIANTS[name].make().eval()
    torch.nn.init.normal_(corrector.head.weight)
    return corrector


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_starts_without_a_correction_and_serves_every_horizon(name):
    untrained = VARIANTS[name].make().eval()
    for horizon in (1, HORIZON, untrained.config.horizon):
        given = inputs(untrained.config, horizon)
        assert not untrained(*given).any()
        assert corrector_of(name)(*given).shape == (N, horizon)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_but_one_is_odd(name):
    corrector = corrector_of(name)
    history, base, observed, context = inputs(corrector.config)
    turned = corrector(-history, -base, observed, context)
    odd = torch.allclose(turned, -corrector(history, base, observed, context), atol=1e-5)
    assert odd == (name != "not odd")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_but_one_reads_the_base_forecast(name):
    corrector = corrector_of(name)
    history, base, observed, context = inputs(corrector.config)
    other = corrector(history, base + torch.randn_like(base), observed, context)
    same = torch.equal(other, corrector(history, base, observed, context))
    assert same == (name == "no base")


@pytest.mark.parametrize("name", ["MLP mixer", "LSTM"])
def test_rivals_of_the_mamba_have_about_its_parameters(name):
    ours, theirs = (
        sum(parameter.numel() for parameter in VARIANTS[one].make().parameters())
        for one in (PRESENT, name)
    )
    assert theirs == pytest.approx(ours, rel=0.05)


@pytest.mark.parametrize("loss", [absolute_error, squared_error, spectral_error])
def test_losses_grow_with_the_error_and_count_no_step_of_weight_zero(loss):
    error, weight = torch.randn(N, HORIZON), torch.rand(N, HORIZON)
    weight[:, ::3] = 0
    changed = torch.where(weight > 0, error, 100.0)
    torch.testing.assert_close(loss(changed, weight), loss(error, weight))
    power = 2 if loss is squared_error else 1
    torch.testing.assert_close(loss(2 * error, weight), 2**power * loss(error, weight))
    torch.testing.assert_close(loss(error, 2 * weight), loss(error, weight))
    assert loss(torch.zeros_like(error), weight) == 0
