from dataclasses import asdict

import pytest
import torch

from tsmamba.forecast.network import Corrector, CorrectorConfig


def make(horizon=30, n_context=3, **kwargs):
    config = CorrectorConfig(
        history=48, horizon=horizon, patch=12, n_context=n_context, d_model=8, d_state=4, **kwargs
    )
    return Corrector(config).eval()


def inputs(corrector, n=3):
    c = corrector.config
    return (
        torch.randn(n, c.history),
        torch.randn(n, c.horizon),
        torch.ones(n, c.history, dtype=torch.bool),
        torch.randn(n, c.history_tokens + c.forecast_tokens(c.horizon), c.n_context),
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
    assert corrector.config.forecast_tokens(horizon) == tokens
    assert corrector(*inputs(corrector)).shape == (3, horizon)


def test_it_works_without_context_features():
    corrector = make(n_context=0)
    assert corrector.embed_context is None
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
    history, base, observed, context = inputs(corrector)
    changed = base.clone()
    changed[:, 24:] += 1
    first, second = (corrector(history, x, observed, context) for x in (base, changed))
    torch.testing.assert_close(first[:, :24], second[:, :24], rtol=0, atol=0)
    assert (first[:, 24:] != second[:, 24:]).any()


def test_a_patch_without_any_real_value_is_skipped():
    corrector = trained(make())
    history, base, observed, context = inputs(corrector)
    observed[:, :24] = False
    other = history.clone()
    other[:, :24] = 100
    first, second = (corrector(x, base, observed, context) for x in (history, other))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("timed", [False, True])
def test_windows_of_a_batch_do_not_mix(timed):
    corrector = trained(make())
    given = inputs(corrector)
    given[2][0, :24] = False
    if timed:
        given = (*given, torch.rand(3, 7) * 3)
    alone = torch.cat([corrector(*(x[[row]] for x in given)) for row in range(3)])
    torch.testing.assert_close(corrector(*given), alone, rtol=1e-4, atol=1e-5)


def test_every_parameter_gets_a_gradient():
    corrector = trained(make())
    corrector(*inputs(corrector)).square().sum().backward()
    silent = [n for n, p in corrector.named_parameters() if p.grad is None or not p.grad.any()]
    assert not silent


def test_a_config_survives_plain_values():
    config = make().config
    assert CorrectorConfig(**asdict(config)) == config


def test_an_odd_corrector_corrects_a_mirrored_window_in_mirror():
    corrector = trained(make(odd=True))
    torch.nn.init.normal_(corrector.head.bias)
    history, base, observed, context = inputs(corrector)
    one = corrector(history, base, observed, context)
    torch.testing.assert_close(corrector(-history, -base, observed, context), -one)
    assert one.abs().max() > 0.1
    plain = make()
    plain.load_state_dict(corrector.state_dict())
    mirrored = plain(-history, -base, observed, context)
    torch.testing.assert_close(2 * one, plain(history, base, observed, context) - mirrored)


# The spread


def spreading(corrector):
    """Give both heads weights."""
    torch.nn.init.normal_(corrector.spread_head.weight)
    torch.nn.init.normal_(corrector.spread_head.bias)
    return trained(corrector)


def test_without_a_spread_there_are_no_weights_for_it():
    corrector = make()
    assert corrector.outputs(*inputs(corrector)).spread is None
    assert not [name for name in corrector.state_dict() if "spread" in name or "freedom" in name]


def test_an_untrained_spread_is_one_number():
    corrector = make(spread=True)
    correction, spread = corrector.outputs(*inputs(corrector))
    assert (correction == 0).all()
    assert spread.unique().numel() == 1
    assert corrector.freedom.item() == pytest.approx(5)


def test_a_spread_changes_no_correction():
    corrector = spreading(make(spread=True))
    plain = make()
    plain.load_state_dict(corrector.state_dict(), strict=False)
    given = inputs(corrector)
    assert torch.equal(corrector.outputs(*given).correction, plain(*given))
    assert torch.equal(corrector(*given), plain(*given))


@pytest.mark.parametrize("raw", [-1e4, 0.0, 1e4])
def test_spread_and_freedom_stay_in_bounds(raw):
    corrector = make(spread=True)
    torch.nn.init.constant_(corrector.spread_head.bias, raw)
    torch.nn.init.constant_(corrector.raw_freedom, raw)
    spread = corrector.outputs(*inputs(corrector)).spread
    assert 0.02 < spread.min() <= spread.max() < 11
    assert 2 <= corrector.freedom < torch.inf


def test_a_mirrored_window_has_the_same_spread():
    corrector = spreading(make(odd=True, spread=True))
    history, base, observed, context = inputs(corrector)
    one = corrector.outputs(history, base, observed, context)
    other = corrector.outputs(-history, -base, observed, context)
    torch.testing.assert_close(other.spread, one.spread)
    torch.testing.assert_close(other.correction, -one.correction)
    plain = make(spread=True)
    plain.load_state_dict(corrector.state_dict())
    mirrored = plain.outputs(-history, -base, observed, context).spread
    assert not torch.allclose(plain.outputs(history, base, observed, context).spread, mirrored)


def test_in_training_an_odd_corrector_draws_signs_and_spreads_follow():
    corrector = spreading(make(odd=True, spread=True, dropout=0.0)).train()
    plain = make(spread=True, dropout=0.0)
    plain.load_state_dict(corrector.state_dict())
    history, base, observed, context = inputs(corrector, n=40)
    got = corrector.outputs(history, base, observed, context)
    as_is = plain.outputs(history, base, observed, context)
    turned = plain.outputs(-history, -base, observed, context)
    kept = torch.isclose(got.correction, as_is.correction, atol=1e-4).all(1)
    assert 0 < kept.sum() < 40
    torch.testing.assert_close(got.spread[kept], as_is.spread[kept])
    torch.testing.assert_close(got.spread[~kept], turned.spread[~kept])
    torch.testing.assert_close(got.correction[~kept], -turned.correction[~kept])


def test_every_parameter_of_a_spread_gets_a_gradient():
    corrector = spreading(make(spread=True))
    (corrector.outputs(*inputs(corrector)).spread.sum() + corrector.freedom).backward()
    for name in ("spread_head.weight", "spread_head.bias", "raw_freedom"):
        assert corrector.get_parameter(name).grad.any()


def test_a_config_of_before_there_was_a_spread_has_none():
    settings = asdict(make().config)
    del settings["spread"]
    assert CorrectorConfig(**settings).spread is False


# Lengths


@pytest.mark.parametrize("horizon", [12, 24, 36, 60])
def test_a_long_forecast_begins_like_a_short_one(horizon):
    """Those of 36 and 60 steps are longer than the 24 it was made for."""
    corrector = trained(make(horizon=24))
    history, _, observed, _ = inputs(corrector)
    base, context = torch.randn(3, 72), torch.randn(3, 4 + 6, 3)
    whole = corrector(history, base, observed, context)
    part = corrector(history, base[:, :horizon], observed, context[:, : 4 + horizon // 12])
    torch.testing.assert_close(part, whole[:, :horizon], rtol=1e-5, atol=1e-6)


def test_steps_beyond_its_positions_still_see_the_base():
    corrector = trained(make(horizon=12))
    history, _, observed, _ = inputs(corrector)
    base, context = torch.randn(3, 48), torch.randn(3, 4 + 4, 3)
    changed = base.clone()
    changed[:, 36:] += 1
    first, second = (corrector(history, x, observed, context) for x in (base, changed))
    torch.testing.assert_close(first[:, :36], second[:, :36], rtol=0, atol=0)
    assert (first[:, 36:] != second[:, 36:]).any()


def test_an_unseen_history_is_as_good_as_none():
    corrector = trained(make())
    history, base, observed, context = inputs(corrector)
    observed[:, :24] = False
    masked = corrector(history, base, observed, context)
    short = corrector(history[:, 24:], base, observed[:, 24:], context[:, 2:])
    torch.testing.assert_close(masked, short, rtol=1e-5, atol=1e-6)


# Uneven time


def timed(corrector, gaps, seen=(True,) * 4):
    """Correct the same windows with these gaps of the tokens of history."""
    torch.manual_seed(1)
    history, base, observed, context = inputs(corrector)
    observed &= torch.tensor(seen).repeat_interleave(12)
    gaps = torch.tensor([*gaps, 1.0, 1.0, 1.0]).expand(3, -1)
    return corrector(history, base, observed, context, gaps)


@pytest.mark.parametrize("odd", [False, True])
def test_even_gaps_are_as_good_as_none(odd):
    corrector = trained(make(odd=odd))
    given = inputs(corrector)
    torch.testing.assert_close(corrector(*given, torch.ones(3, 7)), corrector(*given))
    assert not torch.allclose(corrector(*given, torch.rand(3, 7)), corrector(*given))


def test_an_odd_corrector_is_odd_in_uneven_time():
    corrector = trained(make(odd=True))
    history, base, observed, context = inputs(corrector)
    gaps = torch.rand(3, 7) * 3
    one = corrector(history, base, observed, context, gaps)
    torch.testing.assert_close(corrector(-history, -base, observed, context, gaps), -one)


@pytest.mark.parametrize("seen", [(True, False, True, True), (True, True, False, False)], ids=str)
def test_the_time_of_a_skipped_patch_passes_with_the_next_one(seen):
    """The last token of history hands its time on to the first of the forecast."""
    corrector = trained(make())
    whole = timed(corrector, (1.0, 2.0, 1.0, 1.0), seen)
    same = timed(corrector, (1.0, 0.5, 2.5, 1.0) if seen[3] else (1.0, 2.0, 0.0, 2.0), seen)
    other = timed(corrector, (1.0, 2.0, 2.0, 1.0), seen)
    torch.testing.assert_close(same, whole)
    assert not torch.allclose(other, whole)


def test_time_before_the_first_real_value_is_nothing():
    corrector = trained(make())
    seen = (False, True, True, True)
    short, long = (timed(corrector, (gap, 2.0, 1.0, 1.0), seen) for gap in (0.1, 100.0))
    torch.testing.assert_close(short, long)


def test_very_long_gaps_are_all_alike():
    corrector = trained(make())
    day, year = (timed(corrector, (1.0, gap, 1.0, 1.0)) for gap in (1e2, 1e6))
    torch.testing.assert_close(day, year)


def test_gaps_teach_what_values_do_not_tell():
    """The target decays with the gap of the last token, of which the values know nothing."""
    torch.manual_seed(0)
    config = CorrectorConfig(history=16, horizon=4, patch=4, d_model=16, n_layers=1, d_state=4)
    corrector = Corrector(config).eval()
    optimizer = torch.optim.Adam(corrector.parameters(), lr=1e-2)
    short, long = 0.2, 4.0
    decays = torch.exp(torch.tensor([-short, -long]) / 2)
    observed, context = torch.ones(256, 16, dtype=torch.bool), torch.zeros(256, 5, 0)
    for _ in range(100):
        levels, gaps = torch.randn(256, 4), torch.ones(256, 5)
        slow = torch.rand(256) < 0.5
        gaps[:, 3] = torch.where(slow, long, short)
        target = levels[:, 3:] * torch.where(slow, decays[1], decays[0])[:, None]
        history = levels.repeat_interleave(4, dim=1)
        output = corrector(history, torch.zeros(256, 4), observed, context, gaps)
        loss = (output - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    best_without_gaps = decays.var(unbiased=False)
    assert loss < best_without_gaps / 5


# Starting from another one


@pytest.mark.parametrize("horizon", [12, 30, 60])
def test_it_starts_as_the_corrector_that_it_starts_from(horizon):
    """Context features are new to it, and change nothing before training."""
    other, own = trained(make(n_context=0)), make(horizon=horizon)
    own.start_from(other)
    history, base, observed, context = inputs(own)
    torch.testing.assert_close(
        own(history, base, observed, context),
        other(history, base, observed, context[..., :0]),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_spread_is_new_to_what_starts_from_another():
    other, own = trained(make(n_context=0)), make(spread=True)
    own.start_from(other)
    given = inputs(own)
    correction, spread = own.outputs(*given)
    expected = other(*given[:3], given[3][..., :0])
    torch.testing.assert_close(correction, expected, rtol=1e-5, atol=1e-6)
    assert spread.unique().numel() == 1


def test_it_takes_over_context_features_that_both_have():
    other, own = trained(make()), make(horizon=60)
    own.start_from(other)
    assert own.embed_context.weight.any()
    torch.testing.assert_close(own.embed_context.weight, other.embed_context.weight)


def test_training_what_started_from_another_leaves_that_alone():
    other, own = trained(make(n_context=0)), make()
    before = {name: x.clone() for name, x in other.state_dict().items()}
    own.start_from(other)
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.add_(1)
    assert all(torch.equal(before[name], x) for name, x in other.state_dict().items())


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"horizon": 60, "n_context": 0}, True),
        ({"dropout": 0.5}, True),
        ({"spread": True}, True),
        ({"n_layers": 3}, False),
    ],
    ids=str,
)
def test_shape_is_what_the_weights_of_two_correctors_must_share(changed, same):
    assert (make(**changed).config.shape == make().config.shape) == same
