import pytest
import torch

from tsmamba.forecast.network import Corrector, CorrectorConfig


def make(horizon=30, n_calendar=3, **kwargs):
    config = CorrectorConfig(
        history=48, horizon=horizon, patch=12, n_calendar=n_calendar, d_model=8, d_state=4, **kwargs
    )
    return Corrector(config).eval()


def inputs(corrector, n=3):
    c = corrector.config
    return (
        torch.randn(n, c.history),
        torch.randn(n, c.horizon),
        torch.ones(n, c.history, dtype=torch.bool),
        torch.randn(n, c.history_tokens + c.forecast_tokens, c.n_calendar),
    )


def trained(corrector):
    """Give the head weights, as training would."""
    torch.nn.init.normal_(corrector.head.weight)
    return corrector


def test_an_untrained_corrector_changes_nothing():
    corrector = make()
    assert (corrector(*inputs(corrector)) == 0).all()


@pytest.mark.parametrize(("horizon", "tokens"), [(1, 1), (12, 1), (13, 2), (30, 3)])
def test_any_horizon_is_cut_into_patches(horizon, tokens):
    corrector = make(horizon=horizon)
    assert corrector.config.forecast_tokens == tokens
    assert corrector(*inputs(corrector)).shape == (3, horizon)


def test_it_works_without_a_calendar():
    corrector = make(n_calendar=0)
    assert corrector.embed_calendar is None
    assert corrector(*inputs(corrector)).shape == (3, 30)


@pytest.mark.parametrize("position", range(4))
def test_every_input_matters(position):
    corrector = trained(make())
    given = list(inputs(corrector))
    before = corrector(*given)
    if position == 2:
        given[2] = given[2].clone()
        given[2][:, :12] = False
    else:
        given[position] = given[position] + torch.randn_like(given[position])
    assert not torch.allclose(before, corrector(*given))


def test_corrections_see_no_later_part_of_the_base():
    corrector = trained(make())
    history, base, observed, calendar = inputs(corrector)
    changed = base.clone()
    changed[:, 24:] += 1
    first, second = (corrector(history, x, observed, calendar) for x in (base, changed))
    torch.testing.assert_close(first[:, :24], second[:, :24], rtol=0, atol=0)
    assert (first[:, 24:] != second[:, 24:]).any()


def test_a_patch_without_any_real_value_is_skipped():
    corrector = trained(make())
    history, base, observed, calendar = inputs(corrector)
    observed[:, :24] = False
    other = history.clone()
    other[:, :24] = 100
    first, second = (corrector(x, base, observed, calendar) for x in (history, other))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_windows_of_a_batch_do_not_mix():
    corrector = trained(make())
    given = inputs(corrector)
    given[2][0, :24] = False
    alone = torch.cat([corrector(*(x[[row]] for x in given)) for row in range(3)])
    torch.testing.assert_close(corrector(*given), alone, rtol=1e-4, atol=1e-5)


def test_every_parameter_gets_a_gradient():
    corrector = trained(make())
    corrector(*inputs(corrector)).square().sum().backward()
    silent = [n for n, p in corrector.named_parameters() if p.grad is None or not p.grad.any()]
    assert not silent


def test_a_config_survives_plain_values():
    config = make().config
    assert CorrectorConfig(**config.to_dict()) == config
