import math

import pytest
import torch
from torch.nn import functional as F

from tsmamba.nn import Mamba
from tsmamba_kernels import backend_report, use_backend

WIDTH, STATES, FILTER, EXPAND = 24, 5, 3, 2
INNER, RANK = EXPAND * WIDTH, 2


def make(**kwargs):
    return Mamba(WIDTH, STATES, FILTER, EXPAND, **kwargs)


def published(block, x):
    """The block as in the paper: equations in figure 3 and algorithm 2, one step after another."""
    p = dict(block.named_parameters())
    inner, states = p["A_log"].shape
    rank = p["dt_proj.weight"].shape[1]
    x, z = (x @ p["in_proj.weight"].T).split(inner, dim=-1)
    width = p["conv1d.weight"].shape[-1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    x = sum(padded[:, k : k + x.shape[1]] * p["conv1d.weight"][:, 0, k] for k in range(width))
    x = F.silu(x + p["conv1d.bias"])
    dt, B, C = (x @ p["x_proj.weight"].T).split([rank, states, states], dim=-1)
    dt = F.softplus(dt @ p["dt_proj.weight"].T + p["dt_proj.bias"])
    A = -torch.exp(p["A_log"])
    h = torch.zeros(len(x), inner, states)
    out = []
    for t in range(x.shape[1]):
        decay = torch.exp(dt[:, t, :, None] * A)
        h = decay * h + (dt[:, t] * x[:, t])[:, :, None] * B[:, t, None, :]
        y = (h * C[:, t, None, :]).sum(-1) + p["D"] * x[:, t]
        out.append(y * F.silu(z[:, t]))
    return torch.stack(out, dim=1) @ p["out_proj.weight"].T


# Parameters


def test_parameters_have_the_names_and_shapes_of_the_published_module():
    shapes = {name: tuple(x.shape) for name, x in make().state_dict().items()}
    assert shapes == {
        "A_log": (INNER, STATES),
        "D": (INNER,),
        "in_proj.weight": (2 * INNER, WIDTH),
        "conv1d.weight": (INNER, 1, FILTER),
        "conv1d.bias": (INNER,),
        "x_proj.weight": (RANK + 2 * STATES, INNER),
        "dt_proj.weight": (INNER, RANK),
        "dt_proj.bias": (INNER,),
        "out_proj.weight": (WIDTH, INNER),
    }


def test_biases_are_there_only_where_asked_for():
    names = set(make(bias=True, conv_bias=False).state_dict())
    assert {"in_proj.bias", "out_proj.bias"} <= names
    assert "conv1d.bias" not in names


@pytest.mark.parametrize(("d_model", "rank"), [(1, 1), (16, 1), (17, 2), (768, 48)])
def test_the_rank_of_step_sizes_is_a_sixteenth_of_the_width(d_model, rank):
    assert Mamba(d_model, d_state=1).dt_rank == rank


def test_a_state_dict_of_the_published_form_loads_strictly():
    foreign = {name: torch.rand_like(x) / 4 for name, x in make().state_dict().items()}
    block = make()
    block.load_state_dict(foreign, strict=True)
    x = torch.randn(2, 7, WIDTH)
    torch.testing.assert_close(block(x), published(block, x), rtol=1e-4, atol=1e-5)


def test_decay_rates_start_at_the_whole_numbers_and_skips_at_one():
    block = make()
    rates = torch.arange(1.0, STATES + 1).expand(INNER, -1)
    torch.testing.assert_close(block.A_log.exp(), rates)
    assert (block.D == 1).all()


@pytest.mark.parametrize(("least", "most"), [(1e-3, 1e-1), (1e-2, 2.0)])
def test_step_sizes_start_inside_their_range(least, most):
    block = Mamba(256, dt_min=least, dt_max=most)
    dt = F.softplus(block.dt_proj.bias)
    assert dt.min() >= least * (1 - 1e-4)
    assert dt.max() <= most * (1 + 1e-4)
    # Drawn evenly on a logarithmic axis.
    middle = math.sqrt(least * most)
    assert 0.4 < (dt < middle).float().mean() < 0.6


def test_step_sizes_keep_their_floor():
    block = Mamba(64, dt_min=1e-9, dt_max=1e-8, dt_init_floor=1e-3)
    torch.testing.assert_close(F.softplus(block.dt_proj.bias), torch.full((128,), 1e-3))


# The whole sequence


@pytest.mark.parametrize("length", [1, 2, 3, 50])
@pytest.mark.parametrize("d_model", [1, WIDTH])
def test_the_output_is_that_of_the_published_equations(length, d_model):
    block = Mamba(d_model, STATES, FILTER)
    x = torch.randn(3, length, d_model)
    torch.testing.assert_close(block(x), published(block, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 5, WIDTH), (2, 0, WIDTH)])
def test_nothing_in_nothing_out(shape):
    assert make()(torch.randn(shape)).shape == shape


def test_later_steps_do_not_reach_back():
    block = make()
    x = torch.randn(2, 20, WIDTH)
    changed = x.clone()
    changed[:, 12:] += 1
    before, after = block(x), block(changed)
    torch.testing.assert_close(before[:, :12], after[:, :12], rtol=0, atol=0)
    assert (before[:, 12:] != after[:, 12:]).any()


def test_a_reverse_block_is_the_flip_of_a_forward_one():
    block, reverse = make(), make(reverse=True)
    reverse.load_state_dict(block.state_dict())
    x = torch.randn(2, 30, WIDTH)
    torch.testing.assert_close(reverse(x), block(x.flip(1)).flip(1), rtol=1e-5, atol=1e-6)


def test_sequences_of_a_batch_do_not_mix():
    block = make()
    x = torch.randn(4, 9, WIDTH)
    alone = torch.cat([block(one[None]) for one in x])
    torch.testing.assert_close(block(x), alone, rtol=1e-5, atol=1e-6)


def test_every_parameter_gets_a_gradient():
    block = make(bias=True)
    block(torch.randn(2, 11, WIDTH)).square().sum().backward()
    silent = [name for name, p in block.named_parameters() if p.grad is None or not p.grad.any()]
    assert not silent


# One step after another


@pytest.mark.parametrize("irregular", [False, True])
def test_steps_give_the_numbers_of_the_whole_sequence(irregular):
    block = make()
    x = torch.randn(3, 25, WIDTH)
    scale = torch.rand(3, 25) * 3 if irregular else None
    state = block.init_state(3)
    out = []
    for t in range(25):
        y, state = block.step(x[:, t], state, delta_scale=None if scale is None else scale[:, t])
        out.append(y)
    torch.testing.assert_close(
        torch.stack(out, 1), block(x, delta_scale=scale), rtol=1e-5, atol=1e-6
    )


def test_a_step_leaves_the_state_before_it_alone():
    block = make()
    _, state = block.step(torch.randn(1, WIDTH), block.init_state(1))
    kept = [x.clone() for x in state]
    first, _ = block.step(torch.ones(1, WIDTH), state)
    again, _ = block.step(torch.ones(1, WIDTH), state)
    assert torch.equal(first, again)
    assert all(torch.equal(x, y) for x, y in zip(state, kept, strict=True))


def test_a_state_is_as_large_after_many_steps_as_before():
    block = make()
    state = start = block.init_state(2)
    for _ in range(10):
        _, state = block.step(torch.randn(2, WIDTH), state)
    assert [x.shape for x in state] == [x.shape for x in start]
    assert [tuple(x.shape) for x in start] == [(2, FILTER - 1, INNER), (2, INNER, STATES)]


def test_a_reverse_block_cannot_step():
    block = make(reverse=True)
    with pytest.raises(RuntimeError, match="call forward"):
        block.step(torch.randn(1, WIDTH), block.init_state(1))


# Missing steps


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_is_as_good_as_absent(reverse):
    block = make(reverse=reverse)
    x = torch.randn(2, 20, WIDTH)
    for mask_from, kept in ((15, slice(0, 15)), (None, slice(5, 20))):
        mask = torch.zeros(2, 20, dtype=torch.bool)
        mask[:, kept] = True
        assert mask_from is None or not mask[:, mask_from:].any()
        out = block(x, mask=mask)
        torch.testing.assert_close(out[:, kept], block(x[:, kept]), rtol=1e-5, atol=1e-6)


def test_missing_steps_come_out_as_zero_whatever_stands_there():
    block = make(bias=True)
    x = torch.randn(2, 20, WIDTH)
    mask = torch.rand(2, 20) < 0.6
    out = block(x, mask=mask)
    assert (out[~mask] == 0).all()
    other = block(torch.where(mask[..., None], x, 1e3), mask=mask)
    assert torch.equal(out, other)


def test_missing_values_do_not_spread():
    block = make()
    x = torch.randn(1, 20, WIDTH)
    mask = torch.ones(1, 20, dtype=torch.bool)
    mask[:, 7:9] = False
    holed = torch.where(mask[..., None], x, torch.nan)
    torch.testing.assert_close(block(holed, mask=mask), block(x, mask=mask), rtol=0, atol=0)


# Uneven time


def without_input(block):
    """Let zeros in be zeros inside, so that a step is nothing but time passing."""
    with torch.no_grad():
        block.conv1d.bias.zero_()
    return block


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.25, 3.5), (0.0, 2.0)])
def test_a_gap_without_input_is_the_sum_of_its_parts(a, b):
    block = without_input(make())
    start = block.init_state(2)._replace(ssm=torch.randn(2, INNER, STATES))
    nothing = torch.zeros(2, WIDTH)
    _, once = block.step(nothing, start, delta_scale=torch.full((2,), a + b))
    _, part = block.step(nothing, start, delta_scale=torch.full((2,), a))
    _, twice = block.step(nothing, part, delta_scale=torch.full((2,), b))
    torch.testing.assert_close(once.ssm, twice.ssm, rtol=1e-5, atol=1e-6)
    assert (once.ssm.abs() < start.ssm.abs()).all()


def test_no_time_changes_no_state():
    block = make()
    start = block.init_state(2)._replace(ssm=torch.randn(2, INNER, STATES))
    _, after = block.step(torch.randn(2, WIDTH), start, delta_scale=torch.zeros(2))
    torch.testing.assert_close(after.ssm, start.ssm)


def test_an_even_gap_is_the_default():
    block = make()
    x = torch.randn(2, 12, WIDTH)
    torch.testing.assert_close(block(x, delta_scale=torch.ones(2, 12)), block(x))


# Backends


@pytest.mark.parametrize("reverse", [False, True])
def test_the_native_kernels_agree_with_the_reference(reverse):
    if not backend_report()["native"].startswith("available"):
        pytest.skip(backend_report()["native"])
    block = make(reverse=reverse)
    x = torch.randn(2, 33, WIDTH)
    mask, scale = torch.rand(2, 33) < 0.8, torch.rand(2, 33) * 2
    results = {}
    for backend in ("native", "reference"):
        block.zero_grad()
        given = x.clone().requires_grad_()
        with use_backend(backend):
            out = block(given, mask=mask, delta_scale=scale)
            out.square().sum().backward()
        gradients = {name: p.grad.clone() for name, p in block.named_parameters()}
        results[backend] = {"out": out.detach(), "x": given.grad} | gradients
    for name, value in results["native"].items():
        torch.testing.assert_close(value, results["reference"][name], rtol=2e-4, atol=2e-5)
