import copy
import math
from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from tsmamba.errors import ParameterError
from tsmamba.nn import Mamba
from tsmamba_kernels import use_backend
from tsmamba_kernels.testing import TOLERANCES, relative_error

WIDTH, STATES, FILTER, EXPAND = 24, 5, 3, 2
INNER, RANK = EXPAND * WIDTH, 2

OPTIONS = {
    "published": {},
    "log-uniform": {"A_init": "log-uniform"},
    "gain": {"selection": "gain"},
    "tied": {"tied_A": True},
    "all": {"A_init": "log-uniform", "selection": "gain", "tied_A": True},
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def make(**kwargs):
    return Mamba(WIDTH, STATES, FILTER, EXPAND, **kwargs)


def shuffled(block):
    """Move every parameter off its initial value, where gains and rates look alike."""
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return block


def published(block, x):
    """The block as in the paper: equations in figure 3 and algorithm 2, one step after another."""
    p = dict(block.named_parameters())
    inner, states, rank = len(p["D"]), block.d_state, p["dt_proj.weight"].shape[1]
    x, z = (x @ p["in_proj.weight"].T).split(inner, dim=-1)
    width = p["conv1d.weight"].shape[-1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    x = sum(padded[:, k : k + x.shape[1]] * p["conv1d.weight"][:, 0, k] for k in range(width))
    x = F.silu(x + p["conv1d.bias"])
    dt, B, C = (x @ p["x_proj.weight"].T).split([rank, states, states], dim=-1)
    dt = F.softplus(dt @ p["dt_proj.weight"].T + p["dt_proj.bias"])
    if "gain_proj.weight" in p:
        logits = x @ p["gain_proj.weight"].T + p["gain_proj.bias"]
        gains = 1 / (1 + torch.exp(-logits.clip(-8, 8)))
        B, C = B * gains[..., :states], C * gains[..., states:]
    if p["A_log"].dim() == 1:
        A = -torch.exp(p["A_log"])[:, None] * torch.arange(1, states + 1)
    else:
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


# Options


def test_an_unknown_name_is_refused():
    with pytest.raises(ParameterError, match=r"A_init='hippo'; pass one of 's4d-real', 'log-uni"):
        make(A_init="hippo")
    with pytest.raises(ParameterError, match="selection='none'; pass one of 'linear', 'gain'"):
        make(selection="none")


@each_option
def test_only_gains_add_a_parameter(options):
    added = set(make(**options).state_dict()) - set(make().state_dict())
    gains = {"gain_proj.weight", "gain_proj.bias"}
    assert added == (gains if options.get("selection") == "gain" else set())


@each_option
def test_a_state_dict_survives_the_round_trip(options):
    block, other = shuffled(make(**options)), make(**options)
    other.load_state_dict(block.state_dict(), strict=True)
    x = torch.randn(2, 9, WIDTH)
    assert torch.equal(block(x), other(x))


def test_the_repr_shows_what_the_parameters_do_not():
    text = repr(make(selection="gain", tied_A=True, reverse=True))
    assert "d_state=5, tied_A=True, reverse=True" in text
    assert "gain_proj" in text
    assert "gain_proj" not in repr(make())


@pytest.mark.parametrize("tied_A", [False, True])
def test_log_uniform_time_constants_fill_their_range_evenly(tied_A):
    block = Mamba(512, 4, A_init="log-uniform", tied_A=tied_A)
    tau = torch.exp(-block.A_log)
    assert tau.shape == ((1024,) if tied_A else (1024, 4))
    assert tau.min() >= 0.1 * (1 - 1e-5)
    assert tau.max() <= 10 * (1 + 1e-5)
    for edge, share in ((10**-0.5, 0.25), (1.0, 0.5), (10**0.5, 0.75)):
        assert (tau < edge).float().mean() == pytest.approx(share, abs=0.06)


def test_gains_start_at_one_value_whatever_the_input():
    gated, linear = make(selection="gain"), make()
    state = copy.deepcopy(gated.state_dict())
    del state["gain_proj.weight"]
    gain = state.pop("gain_proj.bias").sigmoid()
    torch.testing.assert_close(gain, torch.full((2 * STATES,), 0.88), rtol=0, atol=0.002)
    state["x_proj.weight"][RANK:] *= gain[:, None]
    linear.load_state_dict(state)
    x = torch.randn(2, 9, WIDTH)
    torch.testing.assert_close(gated(x), linear(x))


@pytest.mark.parametrize("sign", [-1, 1])
def test_logits_of_gains_are_clamped(sign):
    block = make(selection="gain").double()
    x = torch.randn(2, 9, WIDTH, dtype=torch.float64)
    results = []
    for logit in (7.0, 8.0, 1e3):
        torch.nn.init.constant_(block.gain_proj.bias, sign * logit)
        results.append(block(x))
    within, at, beyond = results
    assert torch.equal(at, beyond)
    assert not torch.equal(within, at)
    (grad,) = torch.autograd.grad(beyond.square().sum(), block.gain_proj.bias)
    assert not grad.any()


def untied(block):
    """The same function with a rate of its own for every state."""
    state = block.state_dict()
    multiples = torch.arange(1, STATES + 1, dtype=block.A_log.dtype)
    state["A_log"] = block.A_log.detach()[:, None] + multiples.log()
    other = make(reverse=block.reverse).to(block.A_log.dtype)
    other.load_state_dict(state)
    return other


def test_tied_rates_start_where_untied_ones_do():
    block = make(tied_A=True)
    assert block.A_log.shape == (INNER,)
    torch.testing.assert_close(untied(block).A_log, make().A_log)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_tied_rate_gets_the_gradients_of_all_its_multiples(reverse):
    block = shuffled(make(tied_A=True, reverse=reverse)).double()
    free = untied(block)
    x, weights = torch.randn(2, 2, 33, WIDTH, dtype=torch.float64)
    grads = []
    for one in (block, free):
        out = one(x)
        (out * weights).sum().backward()
        grads.append({"out": out} | {name: p.grad for name, p in one.named_parameters()})
    # A_n = -n exp(A_log): a sum of n times the gradient of A_n, or of the gradients of log(-A_n).
    grads[1]["A_log"] = grads[1]["A_log"].sum(1)
    for name, expected in grads[1].items():
        torch.testing.assert_close(grads[0][name], expected, rtol=1e-9, atol=1e-12)


# The whole sequence


@each_option
@pytest.mark.parametrize("length", [1, 2, 3, 50])
@pytest.mark.parametrize("d_model", [1, WIDTH])
def test_the_output_is_that_of_the_published_equations(length, d_model, options):
    block = shuffled(Mamba(d_model, STATES, FILTER, **options))
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


@each_option
def test_every_parameter_gets_a_gradient(options):
    block = make(bias=True, **options)
    block(torch.randn(2, 11, WIDTH)).square().sum().backward()
    silent = [name for name, p in block.named_parameters() if p.grad is None or not p.grad.any()]
    assert not silent


# One step after another


@each_option
@pytest.mark.parametrize("irregular", [False, True])
def test_steps_give_the_numbers_of_the_whole_sequence(irregular, options):
    block = shuffled(make(**options)).double()
    x = torch.randn(3, 25, WIDTH, dtype=torch.float64)
    scale = torch.rand(3, 25, dtype=torch.float64) * 3 if irregular else None
    state = block.init_state(3)
    out = []
    for t in range(25):
        y, state = block.step(x[:, t], state, delta_scale=None if scale is None else scale[:, t])
        out.append(y)
    expected = block(x, delta_scale=scale)
    torch.testing.assert_close(torch.stack(out, 1), expected, rtol=1e-9, atol=1e-12)


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
    _, later = block.prefill(torch.randn(2, 50, WIDTH), state=state)
    assert [x.shape for x in later] == [x.shape for x in state] == [x.shape for x in start]
    assert [tuple(x.shape) for x in start] == [(2, FILTER - 1, INNER), (2, INNER, STATES)]


def test_a_reverse_block_has_no_state():
    block = make(reverse=True)
    with pytest.raises(RuntimeError, match="a reverse Mamba block needs the whole"):
        block.step(torch.randn(1, WIDTH), block.init_state(1))
    with pytest.raises(RuntimeError, match="a reverse Mamba block needs the whole"):
        block.prefill(torch.randn(1, 5, WIDTH))


# Missing steps


@each_option
@pytest.mark.parametrize("reverse", [False, True])
def test_padding_is_as_good_as_absent(reverse, options):
    block = shuffled(make(reverse=reverse, **options)).double()
    x = torch.randn(2, 20, WIDTH, dtype=torch.float64)
    for kept in (slice(0, 15), slice(5, 20)):
        mask = torch.zeros(2, 20, dtype=torch.bool)
        mask[:, kept] = True
        out = block(x, mask=mask)
        torch.testing.assert_close(out[:, kept], block(x[:, kept]), rtol=1e-9, atol=1e-12)


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


def test_missing_values_do_not_reach_a_gradient():
    block = make(bias=True)
    x = torch.randn(2, 20, WIDTH)
    mask = torch.rand(2, 20) < 0.6
    gradients = []
    for filler in (0.0, torch.nan):
        given = torch.where(mask[..., None], x, filler).requires_grad_()
        block.zero_grad()
        block(given, mask=mask).square().sum().backward()
        gradients.append([given.grad, *(p.grad for p in block.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


# Packed series


def pack(cuts, reverse=False, **options):
    """Return outputs and gradients of series run in one row, and of each run alone."""
    block = shuffled(make(reverse=reverse, **options)).double()
    x, weights, scale = torch.randn(3, 1, cuts[-1], WIDTH, dtype=torch.float64)
    rows = {"mask": torch.rand(1, cuts[-1]) < 0.8, "delta_scale": scale[..., 0].abs()}

    def together(x):
        return block(x, cu_seqlens=torch.tensor(cuts), **rows)

    def apart(x):
        pieces = [
            block(x[:, a:b], **{name: row[:, a:b] for name, row in rows.items()})
            for a, b in pairwise(cuts)
        ]
        return torch.cat(pieces, dim=1)

    for run in (together, apart):
        block.zero_grad()
        given = x.clone().requires_grad_()
        out = run(given)
        (out * weights).sum().backward()
        yield [out, given.grad, *(p.grad for p in block.parameters())]


@each_option
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cuts", [(0, 1, 8, 8, 33), (0, 0, 5, 5), (0, 70)], ids=str)
def test_packed_series_are_separate_series(cuts, reverse, options):
    packed, separate = pack(cuts, reverse, **options)
    for one, other in zip(packed, separate, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


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


def run(block, x, weights, **steps):
    given = x.clone().requires_grad_()
    out = block(given, **steps)
    (out * weights).sum().backward()
    gradients = {name: p.grad for name, p in block.named_parameters()}
    return {"out": out, "x": given.grad} | gradients


@each_option
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_outputs_and_gradients_are_those_of_the_reference_in_float64(reverse, packed, options):
    block = shuffled(make(reverse=reverse, **options))
    exact = copy.deepcopy(block).double()
    shape = (1, 66) if packed else (2, 33)
    x, weights = torch.randn(*shape, WIDTH), torch.randn(*shape, WIDTH)
    steps = {"mask": torch.rand(shape) < 0.8, "delta_scale": torch.rand(shape) * 2}
    if packed:
        steps["cu_seqlens"] = torch.tensor([0, 7, 7, 66])
    actual = run(block, x, weights, **steps)
    with use_backend("reference"):
        steps["delta_scale"] = steps["delta_scale"].double()
        truth = run(exact, x.double(), weights.double(), **steps)
    for name, value in truth.items():
        allowed = TOLERANCES[torch.float32].gradient
        assert relative_error(actual[name], value) < allowed, name


@pytest.mark.parametrize("reverse", [False, True])
def test_a_long_sequence_in_pieces_is_the_whole(reverse, monkeypatch):
    monkeypatch.setattr("tsmamba.nn.mamba.PIECE", 16)
    torch.manual_seed(0)
    block = Mamba(8, reverse=reverse)
    x, gaps = torch.randn(2, 50, 8), torch.rand(2, 50) * 2
    mask = torch.rand(2, 50) < 0.8
    whole = block(x, mask=mask, delta_scale=gaps)
    with torch.no_grad():
        pieces = block(x, mask=mask, delta_scale=gaps)
    torch.testing.assert_close(pieces, whole, rtol=1e-5, atol=1e-6)
