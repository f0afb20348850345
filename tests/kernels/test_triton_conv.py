"""The Triton convolution, run by Triton's interpreter, against the reference in float64."""

from itertools import pairwise

import pytest
import torch

from tsmamba_kernels import causal_conv1d, causal_conv1d_update
from tsmamba_kernels.testing import (
    CONV_OPTIONS,
    LAYOUTS,
    check_parity,
    conv_inputs,
    masks,
    run_with_gradients,
    with_layout,
)

pytestmark = pytest.mark.usefixtures("triton")

SERIES = {
    "one": [0, 37],
    "short": [0, 1, 3, 6, 10, 37],
    "empty": [0, 0, 20, 20, 37, 37],
}


def agrees(inputs, **extra):
    check_parity(causal_conv1d, inputs | extra, backend="triton")


def packed_inputs(bounds, width=4, **sizes):
    inputs = conv_inputs(1, bounds[-1], 5, width, **sizes)
    state = torch.randn(len(bounds) - 1, width - 1, 5, dtype=inputs["weight"].dtype)
    return inputs | {"initial_state": state, "cu_seqlens": torch.tensor(bounds)}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        *({"length": length} for length in (0, 1, 2, 31, 61, 62, 130)),
        *({"channels": channels} for channels in (0, 1, 64, 65)),
        *({"width": width} for width in (1, 2, 3, 5)),
        {"width": 20, "length": 50, "channels": 3},
        {"batch": 0},
    ],
    ids=str,
)
def test_every_size_agrees(sizes, reverse):
    agrees(conv_inputs(**({"channels": 5} | sizes), dtype=torch.float64), reverse=reverse)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_short_types_agree_on_the_rounded_inputs(dtype, reverse):
    inputs = conv_inputs(2, 33, 5, dtype=dtype) | {"reverse": reverse}
    agrees(inputs)
    out, final_state = causal_conv1d(**inputs, backend="triton")
    assert (out.dtype, final_state.dtype) == (dtype, torch.float32)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize(
    "options",
    [(), *((name,) for name in CONV_OPTIONS), *(set(CONV_OPTIONS) - {x} for x in CONV_OPTIONS)],
    ids=lambda options: "+".join(sorted(options)) or "none",
)
def test_every_optional_operand_may_be_absent(options, activation):
    agrees(conv_inputs(2, 37, 5, options=options), activation=activation)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("pattern", masks(1, 1))
def test_every_mask_pattern_agrees(pattern, reverse):
    agrees(conv_inputs(2, 70, 3), mask=masks(2, 70)[pattern], reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_agrees(layout, reverse):
    inputs = conv_inputs(2, 30, 8) | {"reverse": reverse}
    inputs["x"] = with_layout(inputs["x"], layout)
    inputs["initial_state"] = with_layout(inputs["initial_state"], layout)
    inputs["mask"] = with_layout(inputs["mask"].unsqueeze(2), "transposed").squeeze(2)
    inputs["weight"] = inputs["weight"].t().contiguous().t()
    inputs["bias"] = inputs["bias"].repeat_interleave(2)[::2]
    agrees(inputs)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("width", [1, 4, 9])
@pytest.mark.parametrize("bounds", SERIES.values(), ids=SERIES)
def test_packed_series_agree(bounds, width, reverse):
    agrees(packed_inputs(bounds, width, dtype=torch.float64), reverse=reverse)


def test_boundaries_may_be_short_integers():
    inputs = packed_inputs(SERIES["short"])
    agrees(inputs | {"cu_seqlens": inputs["cu_seqlens"].int()})


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bounds", SERIES.values(), ids=SERIES)
def test_packed_series_are_series_apart(bounds, reverse):
    inputs = packed_inputs(bounds) | {"reverse": reverse, "backend": "triton"}
    out, final_state = causal_conv1d(**inputs)
    del inputs["cu_seqlens"]
    for i, (start, end) in enumerate(pairwise(bounds)):
        part = {
            "x": inputs["x"][:, start:end],
            "mask": inputs["mask"][:, start:end],
            "initial_state": inputs["initial_state"][i : i + 1],
        }
        alone, alone_state = causal_conv1d(**(inputs | part))
        torch.testing.assert_close(out[:, start:end], alone)
        torch.testing.assert_close(final_state[i : i + 1], alone_state, rtol=0, atol=0)


@pytest.mark.parametrize("bounds", [[-9, 20, 99], [30, 10, 37], [0, 99, -9]], ids=str)
def test_boundaries_out_of_place_reach_no_foreign_memory(bounds):
    """A GPU's values are not checked; the interpreter would crash on an address out of place."""
    inputs = packed_inputs([0, 20, 37]) | {"cu_seqlens": torch.tensor(bounds)}
    del inputs["mask"]
    guarded = {}
    for name in ("x", "initial_state"):
        x = inputs[name]
        wider = torch.full((3 * x.numel(),), torch.nan)
        wider[x.numel() : 2 * x.numel()] = x.flatten()
        guarded[name] = wider[x.numel() : 2 * x.numel()].view_as(x)
    inputs |= guarded | {"return_final_state": False}
    _, gradients = run_with_gradients(causal_conv1d, inputs, backend="triton")
    assert all(gradients[name].isfinite().all() for name in ("weight", "bias"))


@pytest.mark.parametrize("width", [1, 4])
def test_a_loop_of_single_steps_is_one_pass(width):
    inputs = conv_inputs(2, 9, 5, width, options=("bias", "initial_state"))
    whole, final_state = causal_conv1d(**inputs, backend="triton")
    state, outs = inputs["initial_state"], []
    for t in range(9):
        out, state = causal_conv1d_update(
            inputs["x"][:, t], state, inputs["weight"], inputs["bias"], "silu", backend="triton"
        )
        outs.append(out)
    torch.testing.assert_close(torch.stack(outs, dim=1), whole)
    assert torch.equal(state, final_state)


def test_a_missing_step_may_hold_anything():
    inputs = conv_inputs(2, 70, 3)
    clean = run_with_gradients(causal_conv1d, inputs, backend="triton")
    inputs["x"] = torch.where(inputs["mask"].unsqueeze(-1), inputs["x"], torch.nan)
    spoiled = run_with_gradients(causal_conv1d, inputs, backend="triton")
    torch.testing.assert_close(spoiled, clean, rtol=0, atol=0)


@pytest.mark.usefixtures("poisoned_empty")
@pytest.mark.parametrize("bounds", [None, *SERIES.values()], ids=str)
def test_no_output_is_left_unwritten(bounds):
    agrees(conv_inputs(2, 66, 5) if bounds is None else packed_inputs(bounds))


def test_it_is_a_sound_custom_op_both_ways():
    from tsmamba_kernels.causal_conv import gpu

    inputs = packed_inputs(SERIES["short"])
    names = ("x", "weight", "bias", "initial_state", "mask", "cu_seqlens")
    operands = [inputs[name] for name in names]
    torch.library.opcheck(gpu._backward, [torch.randn_like(operands[0]), *operands, True, False])
    leaves = [x.requires_grad_() if x.is_floating_point() else x for x in operands]
    torch.library.opcheck(gpu._forward, [*leaves, True, False])


def test_equal_calls_give_equal_bits():
    inputs = conv_inputs(3, 130, 5)
    first = run_with_gradients(causal_conv1d, inputs, backend="triton")
    again = run_with_gradients(causal_conv1d, inputs, backend="triton")
    torch.testing.assert_close(first, again, rtol=0, atol=0)


def test_it_compiles_to_one_graph_for_any_length():
    torch._dynamo.reset()

    def block(x, weight):
        return causal_conv1d(x, weight, None, "silu", return_final_state=True, backend="triton")

    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (9, 33):
        operands = [torch.randn(2, length, 5).requires_grad_(), torch.randn(5, 4).requires_grad_()]
        results = []
        for run in (compiled, block):
            out, final_state = run(*operands)
            loss = out.square().sum() + final_state.sum()
            results.append((out, final_state, *torch.autograd.grad(loss, operands)))
        torch.testing.assert_close(results[0], results[1])
    torch._dynamo.reset()
