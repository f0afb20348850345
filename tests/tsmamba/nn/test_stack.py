from functools import partial
from itertools import pairwise

import pytest
import torch

from tsmamba.errors import ParameterError
from tsmamba.nn import AttentionBlock, MambaBlock, MambaStack

WIDTH = 12
HYBRID = {"attention_at": (1,), "n_heads": 3}
CAUSAL = {"A_init": "log-uniform", "selection": "gain", "tied_A": True}
ALL = HYBRID | CAUSAL
each_way = pytest.mark.parametrize("bidirectional", [False, True])
each_option = pytest.mark.parametrize(
    "options", [{}, HYBRID, ALL], ids=["published", "hybrid", "all"]
)

each_causal_option = pytest.mark.parametrize("options", [{}, CAUSAL], ids=["published", "all"])


def make(**kwargs):
    return MambaStack(WIDTH, n_layers=3, d_state=4, **kwargs)


def outputs_and_gradients(stack, run, x, weights):
    stack.zero_grad()
    given = x.clone().requires_grad_()
    out = run(given)
    (out * weights).sum().backward()
    return [out, given.grad, *(p.grad for p in stack.parameters())]


def test_a_block_adds_its_mixer_to_its_input():
    block = MambaBlock(WIDTH)
    x = torch.randn(2, 9, WIDTH)
    torch.testing.assert_close(block(x), x + block.mixer(block.norm(x)))


def test_a_bidirectional_block_adds_one_mixer_for_each_direction():
    block = MambaBlock(WIDTH, bidirectional=True)
    assert block.mixer_back.reverse
    x = torch.randn(2, 9, WIDTH)
    normed = block.norm(x)
    both = block.mixer(normed) + block.mixer_back(normed)
    torch.testing.assert_close(block(x), x + both)


@each_option
def test_a_bidirectional_stack_sees_the_future_and_a_causal_one_does_not(options):
    x = torch.randn(1, 15, WIDTH)
    changed = x.clone()
    changed[:, -1] += 1
    for bidirectional in (False, True):
        stack = make(bidirectional=bidirectional, **options)
        moved = (stack(x) != stack(changed)).any(-1)[0]
        assert moved[-1]
        assert moved[:-1].any() == bidirectional


def test_attention_of_a_bidirectional_stack_looks_both_ways():
    stack = MambaStack(WIDTH, 1, bidirectional=True, attention_at=(0,))
    x = torch.randn(1, 15, WIDTH)
    changed = x.clone()
    changed[:, 7] += 1
    assert (stack(x) != stack(changed)).any(-1).all()


def test_the_norm_has_its_published_form():
    stack = MambaStack(WIDTH, n_layers=0)
    x = torch.randn(2, 3, WIDTH)
    rms = (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(stack(x), x / rms)


@pytest.mark.parametrize("irregular", [False, True])
def test_steps_give_the_numbers_of_the_whole_sequence(irregular):
    stack = make()
    x = torch.randn(2, 20, WIDTH)
    scale = torch.rand(2, 20) * 2 if irregular else None
    state = stack.init_state(2)
    assert len(state) == 3
    out = []
    for t in range(20):
        y, state = stack.step(x[:, t], state, delta_scale=None if scale is None else scale[:, t])
        out.append(y)
    torch.testing.assert_close(
        torch.stack(out, 1), stack(x, delta_scale=scale), rtol=1e-4, atol=1e-5
    )


@each_causal_option
@pytest.mark.parametrize("parts", [2, 7])
def test_a_gap_without_input_is_the_sum_of_its_parts(parts, options):
    stack = make(**options).double()
    for layer in stack.layers:
        torch.nn.init.zeros_(layer.mixer.conv1d.bias)
    # Three zeros behind it, for what the convolutions hold is input, too.
    x = torch.nn.functional.pad(torch.randn(2, 6, WIDTH, dtype=torch.float64), (0, 0, 0, 3))
    _, start = stack.prefill(x)

    def after(gaps):
        nothing = torch.zeros(2, len(gaps), WIDTH).double()
        _, state = stack.prefill(nothing, delta_scale=gaps.expand(2, -1), state=start)
        return torch.stack([layer.ssm for layer in state])

    in_parts = torch.rand(parts).double()
    whole = in_parts.sum()[None]
    torch.testing.assert_close(after(in_parts), after(whole))
    assert not torch.allclose(after(in_parts), after(2 * whole), rtol=1e-2)
    assert (after(whole).abs() < after(whole * 0).abs()).all()


@each_way
@each_option
@pytest.mark.parametrize("kept", [slice(0, 13), slice(7, 20)], ids=str)
def test_padding_is_as_good_as_absent(kept, options, bidirectional):
    stack = make(bidirectional=bidirectional, **options).double()
    x, weights = torch.randn(2, 2, 20, WIDTH, dtype=torch.float64)
    mask = torch.zeros(2, 20, dtype=torch.bool)
    mask[:, kept] = True
    padded = outputs_and_gradients(stack, lambda x: stack(x, mask=mask), x, weights)
    padded[0], missing = padded[0][:, kept], padded[0][~mask]
    absent = outputs_and_gradients(stack, lambda x: stack(x[:, kept]), x, weights[:, kept])
    for one, other in zip(padded, absent, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    assert not missing.any()


@each_way
@each_option
def test_missing_values_reach_neither_outputs_nor_gradients(options, bidirectional):
    stack = make(bidirectional=bidirectional, **options)
    x, weights = torch.randn(2, 2, 20, WIDTH)
    mask = torch.rand(2, 20) < 0.7
    results = [
        outputs_and_gradients(
            stack,
            lambda x: stack(x, mask=mask),
            torch.where(mask[..., None], x, filler),
            weights,
        )
        for filler in (0.0, torch.nan)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@each_way
@each_option
@pytest.mark.parametrize("cuts", [(0, 1, 8, 8, 33), (0, 0, 5, 5)], ids=str)
def test_packed_series_are_separate_series(cuts, options, bidirectional):
    stack = make(bidirectional=bidirectional, **options).double()
    x, weights, scale = torch.randn(3, 1, cuts[-1], WIDTH, dtype=torch.float64)
    rows = {"mask": torch.rand(1, cuts[-1]) < 0.8, "delta_scale": scale[..., 0].abs()}

    def together(x):
        return stack(x, cu_seqlens=torch.tensor(cuts), **rows)

    def apart(x):
        pieces = [slice(*ends) for ends in pairwise(cuts)]
        return torch.cat(
            [stack(x[:, i], **{name: row[:, i] for name, row in rows.items()}) for i in pieces], 1
        )

    packed, separate = (outputs_and_gradients(stack, f, x, weights) for f in (together, apart))
    for one, other in zip(packed, separate, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


# Options


def test_options_reach_every_mamba_block_of_both_directions():
    stack = make(bidirectional=True, **ALL)
    first, attention, last = stack.layers
    for mixer in (first.mixer, first.mixer_back, last.mixer, last.mixer_back):
        assert mixer.gain_proj is not None
        assert mixer.A_log.dim() == 1
        assert mixer.A_log.any()  # zero would be "s4d-real"
    assert isinstance(attention, AttentionBlock)
    assert attention.mixer.n_heads == 3
    assert not attention.mixer.causal


def test_a_state_dict_survives_the_round_trip():
    stack, other = make(**ALL), make(**ALL)
    other.load_state_dict(stack.state_dict(), strict=True)
    x = torch.randn(2, 9, WIDTH)
    assert torch.equal(stack(x), other(x))


@pytest.mark.parametrize(
    ("attention_at", "message"),
    [
        ((1, 3), r"attention_at=\(1, 3\) names \[3\], but the depths of 3 blocks are \[0, 1, 2\]"),
        ((-1,), r"attention_at=\(-1,\) names \[-1\], .*; pass some of these"),
    ],
)
def test_a_depth_that_is_not_there_is_refused(attention_at, message):
    with pytest.raises(ParameterError, match=message):
        make(attention_at=attention_at)


def test_a_wrong_name_is_refused():
    with pytest.raises(ParameterError, match="selection='exp'; pass one of"):
        make(selection="exp")


@each_way
@each_option
def test_checkpointing_changes_memory_and_time_only(options, bidirectional):
    plain = make(bidirectional=bidirectional, dropout=0.3, **options)
    frugal = make(bidirectional=bidirectional, dropout=0.3, checkpoint=True, **options)
    frugal.load_state_dict(plain.state_dict())
    x, weights, scale = torch.randn(3, 2, 20, WIDTH)
    steps = {"mask": torch.rand(2, 20) < 0.8, "delta_scale": scale[..., 0].abs()}
    results, calls = [], []
    for stack in (plain, frugal):
        counted = []
        stack.layers[1].register_forward_pre_hook(lambda *_, counted=counted: counted.append(1))
        torch.manual_seed(0)  # the same dropout
        results.append(
            outputs_and_gradients(stack, lambda x, run=stack: run(x, **steps), x, weights)
        )
        calls.append(len(counted))
    assert calls == [1, 2]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_is_computed_twice_outside_training():
    stack = make(checkpoint=True).eval()
    calls = []
    stack.layers[0].register_forward_pre_hook(lambda *_: calls.append(1))
    stack(torch.randn(1, 5, WIDTH)).sum().backward()
    assert len(calls) == 1


# One piece after another


def in_pieces(stack, cuts):
    """Return ``stack.prefill`` of the pieces between ``cuts``, joined."""

    def run(x, **rows):
        state, out = None, []
        for piece in (slice(*ends) for ends in pairwise(cuts)):
            own = {name: row[:, piece] for name, row in rows.items()}
            y, state = stack.prefill(x[:, piece], state=state, **own)
            out.append(y)
        return torch.cat(out, dim=1)

    return run


@each_causal_option
@pytest.mark.parametrize("cuts", [(0, 40), (0, 1, 3, 3, 40), (0, 20, 39, 40)], ids=str)
def test_pieces_give_the_numbers_of_the_whole_sequence(cuts, options):
    stack = make(**options).double()
    x, weights, scale = torch.randn(3, 2, 40, WIDTH, dtype=torch.float64)
    rows = {"mask": torch.rand(2, 40) < 0.7, "delta_scale": scale[..., 0].abs()}
    pieces, whole = (
        outputs_and_gradients(stack, partial(run, **rows), x, weights)
        for run in (in_pieces(stack, cuts), stack)
    )
    for one, other in zip(pieces, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@each_causal_option
def test_a_history_is_followed_by_steps(options):
    stack = make(**options)
    x, scale = torch.randn(2, 20, WIDTH), 2 * torch.rand(2, 20)
    mask = torch.rand(2, 20) < 0.7
    mask[:, 12:] = True
    whole = stack(x, mask=mask, delta_scale=scale)
    y, state = stack.prefill(x[:, :12], mask=mask[:, :12], delta_scale=scale[:, :12])
    torch.testing.assert_close(y, whole[:, :12], rtol=1e-4, atol=1e-5)
    for t in range(12, 20):
        y, state = stack.step(x[:, t], state, delta_scale=scale[:, t])
        torch.testing.assert_close(y, whole[:, t], rtol=1e-4, atol=1e-5)


@each_causal_option
def test_padding_before_a_history_leaves_no_trace(options):
    stack = make(**options).double()
    x = torch.randn(2, 20, WIDTH, dtype=torch.float64)
    mask = (torch.arange(20) >= 7).expand(2, -1)
    holed = torch.where(mask[..., None], x, torch.nan)
    _, padded = stack.prefill(holed, mask=mask)
    _, absent = stack.prefill(x[:, 7:])
    torch.testing.assert_close(padded, absent, rtol=1e-9, atol=1e-12)


def test_a_piece_leaves_the_state_before_it_alone():
    stack, x = make(), torch.randn(2, 20, WIDTH)
    _, state = stack.prefill(x)
    kept = [[part.clone() for part in own] for own in state]
    first, _ = stack.prefill(x, state=state)
    again, _ = stack.prefill(x, state=state)
    assert torch.equal(first, again)
    for own, old in zip(state, kept, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(own, old, strict=True))


def test_pieces_can_be_checkpointed():
    plain, frugal = make(dropout=0.3), make(dropout=0.3, checkpoint=True)
    frugal.load_state_dict(plain.state_dict())
    x, weights = torch.randn(2, 2, 20, WIDTH)
    results, calls = [], []
    for stack in (plain, frugal):
        counted = []
        stack.layers[1].norm.register_forward_pre_hook(lambda *_, c=counted: c.append(1))
        torch.manual_seed(0)  # the same dropout
        results.append(outputs_and_gradients(stack, in_pieces(stack, (0, 8, 20)), x, weights))
        calls.append(len(counted))
    assert calls == [2, 4]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "kwargs", [{"bidirectional": True}, HYBRID], ids=["bidirectional", "hybrid"]
)
def test_a_stack_that_needs_the_whole_sequence_has_no_state(kwargs):
    stack, causal = make(**kwargs), make().init_state(1)
    for call in (
        lambda: stack.init_state(1),
        lambda: stack.step(torch.randn(1, WIDTH), causal),
        lambda: stack.prefill(torch.randn(1, 5, WIDTH)),
        lambda: stack.prefill(torch.randn(1, 5, WIDTH), state=causal),
    ):
        with pytest.raises(RuntimeError, match="need the whole sequence; call forward, or build a"):
            call()


def test_a_bidirectional_block_has_no_state():
    block = MambaBlock(WIDTH, bidirectional=True)
    message = "a bidirectional block needs the whole sequence; call forward"
    with pytest.raises(RuntimeError, match=message):
        block.step(torch.randn(1, WIDTH), block.mixer.init_state(1))
    with pytest.raises(RuntimeError, match=message):
        block.prefill(torch.randn(1, 5, WIDTH))


def test_a_state_of_another_depth_is_refused():
    stack = make()
    with pytest.raises(ValueError, match="zip"):
        stack.step(torch.randn(1, WIDTH), stack.init_state(1)[:2])
    with pytest.raises(ValueError, match="zip"):
        stack.prefill(torch.randn(1, 5, WIDTH), state=stack.init_state(1)[:2])


def test_dropout_is_active_in_training_only():
    stack = make(dropout=0.5)
    x = torch.randn(1, 8, WIDTH)
    assert not torch.equal(stack(x), stack(x))
    stack.eval()
    assert torch.equal(stack(x), stack(x))


@each_way
@each_option
def test_every_parameter_gets_a_gradient(options, bidirectional):
    stack = make(bidirectional=bidirectional, **options)
    # The sum of squares of a normed vector is constant, so it would hide the gradients.
    (stack(torch.randn(2, 11, WIDTH)) * torch.randn(WIDTH)).sum().backward()
    silent = [name for name, p in stack.named_parameters() if p.grad is None or not p.grad.any()]
    assert not silent


@pytest.mark.parametrize("kwargs", [{}, {"bidirectional": True}, {"attention_at": (1,)}], ids=str)
def test_a_long_sequence_in_pieces_is_the_whole(kwargs, monkeypatch):
    monkeypatch.setattr("tsmamba.nn.mamba.PIECE", 16)
    stack = MambaStack(8, 3, **kwargs)
    x, gaps = torch.randn(2, 50, 8), torch.rand(2, 50) * 2
    mask = torch.rand(2, 50) < 0.8
    whole = stack(x, mask=mask, delta_scale=gaps)
    with torch.no_grad():
        pieces = stack(x, mask=mask, delta_scale=gaps)
    torch.testing.assert_close(pieces, whole, rtol=1e-5, atol=1e-6)
