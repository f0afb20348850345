"""One step of a whole stack equals its reference, and the reference in float64."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import product
from random import Random

import pytest
import torch

from tsmamba_kernels import LayerWeights, StackStep, backend_report
from tsmamba_kernels.errors import BackendUnavailableError
from tsmamba_kernels.stack_step.layout import pack_state
from tsmamba_kernels.stack_step.reference import stack_step_reference
from tsmamba_kernels.testing import relative_error

EPS = 1e-5
LENGTH = 6
OPTIONAL = ("in_proj_bias", "conv1d_bias", "out_proj_bias", "gain_proj", "gain_proj_bias")
SIZES = {
    "width": (1, 7, 40, 64),
    "expand": (1, 2, 3),
    "states": (1, 3, 5, 16, 17),
    "filter_width": (1, 2, 4, 5),
    "rank": (1, 3),
    "depth": (1, 2, 3, 4),
    "streams": (1, 2, 3, 5, 24, 25, 60),
    "tied": (False, True),
    "timed": (False, True),
    "optional": ((), OPTIONAL, ("conv1d_bias",), ("gain_proj", "gain_proj_bias")),
}
CASES = Random(0).sample(list(product(*SIZES.values())), 80)


def draw_layer(
    width=12, expand=2, states=5, filter_width=4, rank=2, tied=False, optional=OPTIONAL, dtype=None
):
    """Draw weights as large as a trained network's, with some logits of gains beyond the clamp."""
    inner = expand * width

    def matrix(rows, columns):
        return torch.randn(rows, columns, dtype=dtype) / columns**0.5

    weights = {
        "norm": 0.5 + torch.rand(width, dtype=dtype),
        "in_proj": matrix(2 * inner, width),
        "in_proj_bias": torch.randn(2 * inner, dtype=dtype) / 4,
        "conv1d": matrix(inner, filter_width),
        "conv1d_bias": torch.randn(inner, dtype=dtype) / 4,
        "x_proj": matrix(rank + 2 * states, inner),
        "dt_proj": matrix(inner, rank),
        "dt_proj_bias": torch.randn(inner, dtype=dtype) - 2,
        "gain_proj": matrix(2 * states, inner),
        "gain_proj_bias": 6 * torch.randn(2 * states, dtype=dtype),
        "A": -0.1 - 4 * torch.rand((inner,) if tied else (inner, states), dtype=dtype),
        "D": torch.randn(inner, dtype=dtype),
        "out_proj": matrix(width, inner),
        "out_proj_bias": torch.randn(width, dtype=dtype) / 4,
    }
    absent = set(OPTIONAL) - set(optional)
    return LayerWeights(**{name: x for name, x in weights.items() if name not in absent})


def draw_stack(depth=2, width=12, *, backend="auto", **sizes):
    layers = [draw_layer(width, **sizes) for _ in range(depth)]
    return StackStep(layers, 0.5 + torch.rand(width), eps=EPS, backend=backend)


def map_weights(f, layer):
    given = {field.name: getattr(layer, field.name) for field in fields(layer)}
    return replace(layer, **{name: f(x) for name, x in given.items() if x is not None})


def run(stack, x, state, scale=None, **slots):
    """Take a step for each row of ``x`` (L, B, M) and return the outputs."""
    return torch.stack(
        [
            stack(x_t, state, delta_scale=None if scale is None else scale[t], **slots)
            for t, x_t in enumerate(x)
        ]
    )


def both(layers, norm_f):
    return [StackStep(layers, norm_f, backend=name) for name in ("native", "reference")]


# The numbers


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(x) for x in case[:-1]))
@pytest.mark.usefixtures("poisoned_empty")
def test_a_step_is_that_of_the_reference_in_float64(backend, case):
    sizes = dict(zip(SIZES, case, strict=True))
    depth, streams, timed = (sizes.pop(name) for name in ("depth", "streams", "timed"))
    layers = [draw_layer(**sizes) for _ in range(depth)]
    norm_f = 0.5 + torch.rand(sizes["width"])
    stack = StackStep(layers, norm_f, eps=EPS, backend=backend)
    x = torch.randn(LENGTH, streams, sizes["width"])
    scale = 2 * torch.rand(LENGTH, streams) if timed else None
    state = torch.zeros_like(stack.init_state(streams))
    y = run(stack, x, state, scale)

    exact = [map_weights(torch.Tensor.double, layer) for layer in layers]
    true_state = stack.init_state(streams).double()
    truth = [
        stack_step_reference(
            exact, norm_f.double(), EPS, x[t].double(), true_state,
            None if scale is None else scale[t].double(),
        )
        for t in range(LENGTH)
    ]  # fmt: skip
    assert relative_error(y, torch.stack(truth)) < 1e-5
    assert relative_error(state, true_state) < 1e-5


@pytest.mark.parametrize("name", OPTIONAL)
def test_every_optional_weight_counts(backend, name):
    layer, x, outputs = draw_layer(), torch.randn(3, 12), []
    for weights in (layer, replace(layer, **{name: None})):
        stack = StackStep([weights], torch.ones(12), backend=backend)
        outputs.append(stack(x, stack.init_state(3)))
    assert relative_error(*outputs) > 1e-3


def test_a_tied_rate_stands_for_its_multiples(backend):
    tied = draw_layer(tied=True)
    free = replace(tied, A=tied.A[:, None] * torch.arange(1, 6))
    x, results = torch.randn(LENGTH, 3, 12), []
    for layer in (tied, free):
        stack = StackStep([layer], torch.ones(12), backend=backend)
        results.append(run(stack, x, stack.init_state(3)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_very_short_and_very_long_gaps_agree(native, scale):
    layers, norm_f = [draw_layer(), draw_layer()], torch.ones(12)
    x, gaps = torch.randn(LENGTH, 3, 12), torch.full((LENGTH, 3), scale)
    one, other = (run(stack, x, stack.init_state(3), gaps) for stack in both(layers, norm_f))
    assert relative_error(one, other) < 1e-5


def test_what_fills_up_the_last_channels_stays_zero(backend):
    stack = draw_stack(width=7, backend=backend)
    state = stack.init_state(3)
    run(stack, torch.randn(LENGTH, 3, 7), state)
    assert state.any()
    assert torch.equal(stack.pack(stack.unpack(state)), state)


def test_a_nan_stays_in_its_stream(backend):
    stack = draw_stack(backend=backend)
    x, spoiled = torch.randn(2, LENGTH, 5, 12)
    spoiled = torch.where(torch.arange(5)[:, None] == 3, torch.nan, x)
    clean, state = stack.init_state(5), stack.init_state(5)
    expected, actual = run(stack, x, clean), run(stack, spoiled, state)
    others = [0, 1, 2, 4]
    assert torch.equal(actual[:, others], expected[:, others])
    assert torch.equal(state[others], clean[others])
    assert actual[:, 3].isnan().all()


# Streams


def test_the_state_of_a_stream_has_one_size(backend):
    stack = draw_stack(3, 20, expand=2, states=5, filter_width=4, backend=backend)
    assert stack.state_shape == (3, 64 // 16, 3 + 5, 16)
    state = stack.init_state(7)
    assert state.shape == (7, *stack.state_shape)
    assert not state.any()


@pytest.mark.parametrize("threads_used", [1, 2])
def test_any_grouping_of_streams_gives_the_same_numbers(native, threads, threads_used):
    threads(threads_used)
    stack = draw_stack(3, 40, backend=native)
    x, scale = torch.randn(LENGTH, 60, 40), 2 * torch.rand(LENGTH, 60)
    whole = stack.init_state(60)
    expected = run(stack, x, whole, scale)
    for size in (1, 2, 3, 25):
        state = stack.init_state(60)
        pieces = [
            run(stack, x[:, i], state, scale[:, i], slots=i) for i in torch.arange(60).split(size)
        ]
        torch.testing.assert_close(torch.cat(pieces, dim=1), expected, rtol=1e-6, atol=2e-6)
        torch.testing.assert_close(state, whole, rtol=1e-6, atol=2e-6)


def test_runs_repeat_bit_for_bit(native):
    stack = draw_stack(3, 40, backend=native)
    x = torch.randn(LENGTH, 25, 40)
    first, *others = (run(stack, x, stack.init_state(25)) for _ in range(5))
    assert all(torch.equal(first, other) for other in others)


def test_a_permutation_of_slots_is_one_of_states(backend):
    stack = draw_stack(backend=backend)
    x, order = torch.randn(LENGTH, 9, 12), torch.randperm(9)
    plain, permuted = stack.init_state(9), stack.init_state(9)
    expected = run(stack, x, plain)
    assert torch.equal(run(stack, x, permuted, slots=order), expected)
    assert torch.equal(permuted[order], plain)


def test_states_that_no_slot_names_stay_as_they_are(backend):
    stack = draw_stack(backend=backend)
    state = torch.randn_like(stack.init_state(9))
    before, slots = state.clone(), torch.tensor([7, 0, 4])
    own = before[slots].clone()
    x = torch.randn(3, 12)
    assert torch.equal(stack(x, state, slots=slots), stack(x, own))
    assert torch.equal(state[slots], own)
    others = [1, 2, 3, 5, 6, 8]
    assert torch.equal(state[others], before[others])
    assert (state[slots] != before[slots]).any(-1).all()


def test_operands_may_have_gaps_in_memory(backend):
    stack = draw_stack(backend=backend)
    x, scale, slots = torch.randn(5, 12), torch.rand(5), torch.tensor([3, 0, 4, 1, 2])
    spread = {
        "x": torch.full((5, 24), torch.nan),
        "delta_scale": torch.full((10,), torch.nan),
        "slots": torch.full((10,), 99),
    }
    for name, values in zip(spread, (x, scale, slots), strict=True):
        spread[name] = spread[name][..., ::2]
        spread[name].copy_(values)
        assert not spread[name].is_contiguous()
    states = [stack.init_state(5), stack.init_state(5)]
    expected = stack(x, states[0], delta_scale=scale, slots=slots)
    assert torch.equal(stack(state=states[1], **spread), expected)
    assert torch.equal(*states)


def test_no_streams_take_no_step(backend):
    stack = draw_stack(backend=backend)
    state = torch.randn_like(stack.init_state(4))
    before, nothing = state.clone(), torch.randn(0, 12)
    assert stack(nothing, stack.init_state(0)).shape == (0, 12)
    assert stack(nothing, stack.init_state(0), delta_scale=torch.ones(0)).shape == (0, 12)
    slots = torch.zeros(0, dtype=torch.int64)
    assert stack(nothing, state, slots=slots).shape == (0, 12)
    assert torch.equal(state, before)


def test_threads_share_a_stack(backend):
    stack = draw_stack(backend=backend)
    x = torch.randn(4, 50, 3, 12)
    expected = [run(stack, one, stack.init_state(3)) for one in x]
    with ThreadPoolExecutor(2) as pool:
        actual = list(pool.map(lambda one: run(stack, one, stack.init_state(3)), x))
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


# Laws of time


def without_input(layer):
    """Let zeros in be zeros inside, so that a step is nothing but time passing."""
    return replace(layer, in_proj_bias=None, conv1d_bias=None, out_proj_bias=None)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.25, 3.5), (0.0, 2.0)])
def test_a_gap_without_input_is_the_sum_of_its_parts(backend, a, b, tied):
    layers = [without_input(draw_layer(tied=tied)) for _ in range(2)]
    stack = StackStep(layers, torch.ones(12), backend=backend)
    scans = torch.randn(2, 3, 24, 5)
    start = [(torch.zeros(3, 3, 24), scan) for scan in scans]
    once, twice = stack.pack(start), stack.pack(start)
    nothing = torch.zeros(3, 12)
    stack(nothing, once, delta_scale=torch.full((3,), a + b))
    for gap in (a, b):
        stack(nothing, twice, delta_scale=torch.full((3,), gap))
    torch.testing.assert_close(once, twice, rtol=1e-5, atol=1e-6)
    after = torch.stack([scan for _, scan in stack.unpack(once)])
    assert (after.abs() < scans.abs()).all()


def test_no_time_changes_no_state_of_the_scan(backend):
    stack = draw_stack(backend=backend)
    state = torch.randn_like(stack.init_state(3))
    before = stack.unpack(state)
    stack(torch.randn(3, 12), state, delta_scale=torch.zeros(3))
    for (conv, ssm), (old_conv, old_ssm) in zip(stack.unpack(state), before, strict=True):
        assert torch.equal(ssm, old_ssm)
        assert torch.equal(conv[:, :-1], old_conv[:, 1:])


def test_an_even_gap_is_the_default(backend):
    stack = draw_stack(backend=backend)
    x, states = torch.randn(LENGTH, 3, 12), (stack.init_state(3), stack.init_state(3))
    torch.testing.assert_close(
        run(stack, x, states[0], torch.ones(LENGTH, 3)), run(stack, x, states[1])
    )


# A copy of the weights


def test_later_changes_of_the_weights_are_not_seen(backend):
    layer, norm_f, x = draw_layer(), torch.rand(12), torch.randn(3, 12)
    stack = StackStep([layer], norm_f, backend=backend)
    before = stack(x, stack.init_state(3))
    norm_f.zero_()
    map_weights(torch.Tensor.zero_, layer)
    assert torch.equal(stack(x, stack.init_state(3)), before)


def test_nothing_requires_a_gradient(backend):
    layer = map_weights(torch.Tensor.requires_grad_, draw_layer())
    stack = StackStep([layer], torch.ones(12, requires_grad=True), backend=backend)
    conv, ssm = torch.zeros(3, 3, 24), torch.zeros(3, 24, 5, requires_grad=True)
    state = stack.pack([(conv, ssm)])
    y = stack(torch.randn(3, 12, requires_grad=True), state, slots=torch.arange(3))
    assert not y.requires_grad
    assert not state.requires_grad


def test_weights_of_another_type_are_rounded(backend):
    layer, norm_f = draw_layer(dtype=torch.float64), torch.rand(12, dtype=torch.float64)
    wide = StackStep([layer], norm_f, backend=backend)
    short = StackStep([map_weights(torch.Tensor.float, layer)], norm_f.float(), backend=backend)
    x = torch.randn(3, 12)
    assert torch.equal(wide(x, wide.init_state(3)), short(x, short.init_state(3)))


# States layer by layer


@pytest.mark.parametrize(("states", "filter_width"), [(1, 1), (5, 1), (1, 2), (17, 5)])
def test_packing_is_undone_by_unpacking(states, filter_width):
    stack = draw_stack(3, 7, states=states, filter_width=filter_width)
    given = [(torch.randn(2, filter_width - 1, 14), torch.randn(2, 14, states)) for _ in range(3)]
    state = stack.pack(given)
    assert state.shape == (2, *stack.state_shape)
    unpacked = stack.unpack(state)
    state.zero_()  # what was unpacked is a copy
    for one, other in zip(unpacked, given, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_rows_of_a_state_are_the_window_and_the_states_of_the_scan():
    conv, ssm = torch.randn(2, 3, 20), torch.randn(2, 20, 5)
    state = pack_state(conv, ssm)
    assert state.shape == (2, 2, 3 + 5, 16)
    for channel in (0, 15, 16, 19):
        rows = state[:, channel // 16, :, channel % 16]
        assert torch.equal(rows, torch.cat([conv[:, :, channel], ssm[:, channel]], dim=1))
    assert not state[:, 1, :, 4:].any()


# Backends


def test_a_backend_that_is_not_there_is_refused():
    with pytest.raises(
        BackendUnavailableError, match="cannot run stack_step: it has no triton kern"
    ):
        draw_stack(backend="triton")
    with pytest.raises(BackendUnavailableError, match="no backend 'numpy'; choose one of"):
        draw_stack(backend="numpy")


def test_the_report_names_the_backend(backend):
    draw_stack(backend=backend)
    assert backend_report()["stack_step"] == backend
