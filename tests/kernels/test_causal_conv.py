"""The causal convolution against its reference in float64, and the laws of both."""

import pytest
import torch
from torch import Tensor

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

TIMED = ("x", "mask")


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        *({"length": length} for length in (0, 1, 2, 63, 255, 256, 257, 1000)),
        *({"channels": channels} for channels in (0, 1, 3, 8, 13, 40)),
        *({"width": width} for width in (1, 2, 3, 5, 9, 80)),
        {"width": 300, "length": 520, "channels": 3},
        {"batch": 0},
    ],
    ids=str,
)
def test_every_size_agrees(sizes, reverse, dtype):
    check_parity(causal_conv1d, conv_inputs(**sizes, dtype=dtype) | {"reverse": reverse})


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_short_types_agree_on_the_rounded_inputs(dtype):
    inputs = conv_inputs(dtype=dtype)
    check_parity(causal_conv1d, inputs)
    out, final_state = causal_conv1d(**inputs)
    assert (out.dtype, final_state.dtype) == (dtype, torch.float32)


def every_bfloat16():
    """Return all 2^16 of them, as (1, 256, 256)."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16).view(1, 256, 256)


def test_every_bfloat16_passes_unchanged(native):
    x = every_bfloat16().requires_grad_()
    out = causal_conv1d(x, torch.ones(256, 1), backend=native)
    (grad,) = torch.autograd.grad(out, x, x.detach())
    torch.testing.assert_close(out, x, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(grad, x, rtol=0, atol=0, equal_nan=True)


def test_results_are_rounded_to_the_nearest_bfloat16_and_ties_to_even(native):
    """Between all neighbours: the middle, the numbers beside it, and what is nearest to either."""
    low = every_bfloat16().float().flatten().view(torch.int32)
    between = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=torch.int32)
    numbers = (low.unsqueeze(1) + between).flatten().view(torch.float32)
    out = causal_conv1d(
        torch.ones(1, 1, len(numbers), dtype=torch.bfloat16), numbers.unsqueeze(1), backend=native
    )
    expected = numbers.bfloat16()
    torch.testing.assert_close(out.flatten(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize(
    "options",
    [(), *((name,) for name in CONV_OPTIONS), *(set(CONV_OPTIONS) - {x} for x in CONV_OPTIONS)],
    ids=lambda options: "+".join(sorted(options)) or "none",
)
def test_every_optional_operand_may_be_absent(options, activation):
    check_parity(causal_conv1d, conv_inputs(options=options) | {"activation": activation})


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [3, 300])
@pytest.mark.parametrize("pattern", masks(1, 1))
def test_every_mask_pattern_agrees(pattern, length, reverse):
    inputs = conv_inputs(length=length) | {"mask": masks(2, length)[pattern], "reverse": reverse}
    check_parity(causal_conv1d, inputs)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_agrees(layout, reverse):
    inputs = conv_inputs(2, 30, 8) | {"reverse": reverse}
    inputs["x"] = with_layout(inputs["x"], layout)
    inputs["initial_state"] = with_layout(inputs["initial_state"], layout)
    inputs["weight"] = inputs["weight"].t().contiguous().t()
    inputs["bias"] = inputs["bias"].repeat_interleave(2)[::2]
    check_parity(causal_conv1d, inputs)


@pytest.mark.parametrize("cut", [0, 1, 2, 37, 69, 70])
@pytest.mark.parametrize("reverse", [False, True])
def test_two_pieces_with_the_state_carried_are_one_pass(backend, cut, reverse):
    inputs = conv_inputs(length=70) | {"reverse": reverse, "backend": backend}
    whole, final_state = causal_conv1d(**inputs)
    outs, state = [torch.empty(0), torch.empty(0)], inputs["initial_state"]
    parts = (slice(cut), slice(cut, None))
    for i in (1, 0) if reverse else (0, 1):
        piece = {k: v[:, parts[i]] if k in TIMED else v for k, v in inputs.items()}
        outs[i], state = causal_conv1d(**(piece | {"initial_state": state}))
    close(torch.cat(outs, dim=1), whole)
    assert torch.equal(state, final_state)


@pytest.mark.parametrize("width", [1, 4])
def test_a_loop_of_single_steps_is_one_pass(backend, width):
    inputs = conv_inputs(3, 20, 9, width, options=("bias", "initial_state"))
    whole, final_state = causal_conv1d(**inputs, backend=backend)
    state, outs = inputs["initial_state"], []
    for t in range(20):
        out, state = causal_conv1d_update(
            inputs["x"][:, t], state, inputs["weight"], inputs["bias"], "silu", backend=backend
        )
        outs.append(out)
    close(torch.stack(outs, dim=1), whole)
    assert torch.equal(state, final_state)


def test_reverse_is_flip(backend):
    inputs = conv_inputs() | {"backend": backend}
    flipped = {k: v.flip(1) if k in TIMED else v for k, v in inputs.items()}
    out, final_state = causal_conv1d(**inputs, reverse=True)
    flipped_out, flipped_state = causal_conv1d(**flipped)
    close(out, flipped_out.flip(1))
    assert torch.equal(final_state, flipped_state)


def test_right_padding_is_a_shorter_sequence(backend):
    inputs = conv_inputs(1, 40, 9) | {"mask": torch.arange(40).unsqueeze(0) < 33}
    out, _ = causal_conv1d(**inputs, backend=backend)
    short = inputs | {"x": inputs["x"][:, :33], "mask": None}
    close(out[:, :33], causal_conv1d(**short, backend=backend)[0])
    assert not out[:, 33:].any()


def test_a_missing_step_may_hold_anything(backend):
    inputs = conv_inputs()
    clean_outputs, clean_gradients = run_with_gradients(causal_conv1d, inputs, backend=backend)
    inputs["x"] = torch.where(inputs["mask"].unsqueeze(-1), inputs["x"], torch.nan)
    outputs, gradients = run_with_gradients(causal_conv1d, inputs, backend=backend)
    torch.testing.assert_close(outputs, clean_outputs, rtol=0, atol=0)
    torch.testing.assert_close(gradients, clean_gradients, rtol=0, atol=0)


@pytest.mark.parametrize("bad", [torch.nan, -torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["x", "weight", "bias", "initial_state"])
def test_what_is_not_finite_shows_wherever_the_reference_shows_it(native, name, bad):
    inputs = conv_inputs(options=("bias", "initial_state"))
    spoiled = inputs[name].clone()
    spoiled.view(-1)[spoiled.numel() // 3] = bad
    inputs[name] = spoiled
    y, _ = causal_conv1d(**inputs, backend=native)
    true, _ = causal_conv1d(**inputs, backend="reference")
    assert not (y.isfinite() & ~true.isfinite()).any()
    torch.testing.assert_close(y[true.isfinite()], true[true.isfinite()], rtol=1e-4, atol=1e-5)


def test_batch_rows_do_not_meet(native):
    inputs = conv_inputs(5, 300, 24) | {"backend": native}
    whole, _ = causal_conv1d(**inputs)
    for row in range(5):
        part = slice(row, row + 1)
        batched = (*TIMED, "initial_state")
        alone = {k: v[part] if k in batched else v for k, v in inputs.items()}
        assert torch.equal(whole[part], causal_conv1d(**alone)[0])


def test_outputs_and_gradients_are_the_same_for_any_number_of_threads(native):
    inputs = conv_inputs(3, 600, 24)
    before, results = torch.get_num_threads(), []
    for count in (1, 2, 3, 2):
        torch.set_num_threads(count)
        results.append(run_with_gradients(causal_conv1d, inputs, backend=native))
    torch.set_num_threads(before)
    for outputs, gradients in results[1:]:
        assert torch.equal(outputs[0], results[0][0][0])
        for name in ("x", "initial_state"):
            assert torch.equal(gradients[name], results[0][1][name])
        for name in ("weight", "bias"):
            close(gradients[name], results[0][1][name])


@pytest.mark.parametrize("length", [0, 1, 70])
def test_no_input_is_written_to(backend, length):
    inputs = conv_inputs(length=length)
    before = {k: v.clone() for k, v in inputs.items() if isinstance(v, Tensor)}
    run_with_gradients(causal_conv1d, inputs, backend=backend)
    assert all(torch.equal(inputs[name], x) for name, x in before.items())


@pytest.mark.usefixtures("poisoned_empty")
@pytest.mark.parametrize("pattern", masks(1, 1))
@pytest.mark.parametrize("length", [0, 1, 2, 300])
def test_all_memory_is_written(native, length, pattern):
    inputs = conv_inputs(2, length, 13) | {"mask": masks(2, length)[pattern]}
    outputs, gradients = run_with_gradients(causal_conv1d, inputs, backend=native)
    assert all(x.isfinite().all() for x in (*outputs, *gradients.values()))
