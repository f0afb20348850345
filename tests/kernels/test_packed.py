"""Packed series are series apart, whatever computes them."""

import re
from itertools import pairwise

import pytest
import torch

from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels.errors import ShapeError
from tsmamba_kernels.testing import (
    CONV_OPTIONS,
    SCAN_OPTIONS,
    boundaries,
    check_parity,
    conv_inputs,
    pack,
    run_with_gradients,
    scan_inputs,
)

LENGTH = 150
TIMED = ("u", "delta", "B", "C", "z", "delta_scale", "x", "mask")
PATTERNS = boundaries(LENGTH)

both = pytest.mark.parametrize(
    ("op", "draw"),
    [(selective_scan, scan_inputs), (causal_conv1d, conv_inputs)],
    ids=["scan", "convolution"],
)


def apart(op):
    """Return ``op`` series by series, its results joined: what packing stands for."""

    def call(cu_seqlens, initial_state, **arguments):
        results = []
        for i, (start, end) in enumerate(pairwise(cu_seqlens.tolist())):
            piece = {k: v[:, start:end] if k in TIMED else v for k, v in arguments.items()}
            results.append(op(**piece, initial_state=initial_state[i : i + 1]))
        outs, states = zip(*results, strict=True)
        return torch.cat(outs, dim=1), torch.cat(states)

    return call


@both
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_packed_series_are_series_apart(backend, op, draw, pattern, reverse):
    inputs = pack(draw(1, LENGTH, 9), PATTERNS[pattern]) | {"reverse": reverse, "backend": backend}
    outputs, gradients = run_with_gradients(op, inputs)
    expected_outputs, expected_gradients = run_with_gradients(apart(op), inputs)
    torch.testing.assert_close(outputs, expected_outputs, rtol=0, atol=0)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-4)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_packed_series_agree(native, op, draw, pattern, dtype):
    check_parity(op, pack(draw(1, LENGTH, 13, dtype=dtype), PATTERNS[pattern]))


@both
def test_packed_series_agree_whatever_is_absent(native, op, draw):
    options = SCAN_OPTIONS if op is selective_scan else CONV_OPTIONS
    for chosen in ((), *((name,) for name in options)):
        inputs = draw(1, LENGTH, 9, options=chosen)
        check_parity(op, pack(inputs, PATTERNS["some_empty"]))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_groups_and_elapsed_times_agree(native, per_channel, reverse):
    inputs = pack(scan_inputs(1, LENGTH, 10, groups=2), [0, 64, 65, LENGTH])
    if per_channel:
        inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1) * torch.rand(1, LENGTH, 10)
    check_parity(selective_scan, inputs | {"reverse": reverse})


@both
def test_series_of_no_steps_keep_their_states(backend, op, draw):
    inputs = pack(draw(1, 0, 9), [0, 0, 0])
    outputs, gradients = run_with_gradients(op, inputs, backend=backend)
    assert outputs[0].shape == (1, 0, 9)
    assert torch.equal(outputs[1], inputs["initial_state"])
    _, expected = run_with_gradients(lambda initial_state, **_: initial_state * 1, inputs)
    assert torch.equal(gradients["initial_state"], expected["initial_state"])
    assert all(not gradients[name].any() for name in gradients if name != "initial_state")


@both
def test_the_boundaries_may_be_short_integers(backend, op, draw):
    inputs = pack(draw(1, LENGTH, 9), PATTERNS["many_short"]) | {"backend": backend}
    short = inputs | {"cu_seqlens": inputs["cu_seqlens"].int()}
    torch.testing.assert_close(op(**short), op(**inputs), rtol=0, atol=0)


@both
@pytest.mark.parametrize("reverse", [False, True])
def test_a_series_does_not_reach_its_neighbours(native, op, draw, reverse):
    bounds = [0, 20, 70, LENGTH]
    inputs = pack(draw(1, LENGTH, 9), bounds) | {"reverse": reverse, "backend": native}
    clean_outputs, clean = run_with_gradients(op, inputs)
    spoiled = {
        name: torch.cat([x[:, :20], torch.full_like(x[:, 20:70], torch.nan), x[:, 70:]], dim=1)
        for name, x in inputs.items()
        if name in TIMED and name != "mask"
    }
    outputs, gradients = run_with_gradients(op, inputs | spoiled)
    others = torch.arange(LENGTH).lt(20) | torch.arange(LENGTH).ge(70)
    assert torch.equal(outputs[0][:, others], clean_outputs[0][:, others])
    assert torch.equal(outputs[1][[0, 2]], clean_outputs[1][[0, 2]])
    for name in spoiled:
        assert torch.equal(gradients[name][:, others], clean[name][:, others])
        assert gradients[name][:, ~others].isnan().any()


@both
@pytest.mark.usefixtures("poisoned_empty")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_all_memory_is_written(native, op, draw, pattern):
    inputs = pack(draw(1, LENGTH, 13), PATTERNS[pattern])
    outputs, gradients = run_with_gradients(op, inputs, backend=native)
    assert all(x.isfinite().all() for x in (*outputs, *gradients.values()))


@both
@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([1, 5], "cu_seqlens must rise from 0 to L = 5, but is [1, 5]"),
        ([0, 4], "cu_seqlens must rise from 0 to L = 5, but is [0, 4]"),
        ([0, 6], "cu_seqlens must rise from 0 to L = 5, but is [0, 6]"),
        ([0, 3, 2, 5], "cu_seqlens must rise from 0 to L = 5, but is [0, 3, 2, 5]"),
        ([0, -1, 5], "cu_seqlens must rise from 0 to L = 5, but is [0, -1, 5]"),
        (
            [0, 1, 2, 3, 4, 5, 4, 5, 5],
            "cu_seqlens must rise from 0 to L = 5, but is [0, 1, 2, 3, '...', 4, 5, 5]",
        ),
        ([0], "cu_seqlens has 1 boundaries; one series has two, [0, L]"),
        ([], "cu_seqlens has 0 boundaries; one series has two, [0, L]"),
    ],
    ids=str,
)
def test_boundaries_that_do_not_fit_are_refused(backend, op, draw, bounds, message):
    inputs = draw(1, 5, 4, options=()) | {"cu_seqlens": torch.tensor(bounds, dtype=torch.int64)}
    with pytest.raises(ShapeError, match=re.escape(f"{op.__name__}: {message}")):
        op(**inputs, backend=backend)


@both
@pytest.mark.parametrize(
    ("batch", "change", "message"),
    [
        (
            1,
            {"cu_seqlens": torch.tensor([0.0, 5.0])},
            "cu_seqlens is a 1-dimensional tensor of torch.float32; pass the S + 1 boundaries of "
            "S series as one axis of int32 or int64",
        ),
        (
            1,
            {"cu_seqlens": torch.tensor([[0, 5]])},
            "cu_seqlens is a 2-dimensional tensor of torch.int64; pass the S + 1 boundaries",
        ),
        (
            2,
            {"cu_seqlens": torch.tensor([0, 5])},
            "cu_seqlens packs all series into one batch row, but B = 2; "
            "reshape the operands to (1, B * L, ...)",
        ),
    ],
    ids=["floats", "two axes", "two rows"],
)
def test_packing_that_does_not_fit_is_refused(backend, op, draw, batch, change, message):
    inputs = draw(batch, 5, 4, options=()) | change
    with pytest.raises(ShapeError, match=re.escape(f"{op.__name__}: {message}")):
        op(**inputs, backend=backend)


@both
def test_states_of_another_number_of_series_are_refused(backend, op, draw):
    inputs = draw(1, 5, 4) | {"cu_seqlens": torch.tensor([0, 2, 5])}
    message = "cu_seqlens has the boundaries of 2 series, but initial_state has S = 1"
    with pytest.raises(ShapeError, match=f"{op.__name__}: {message}"):
        op(**inputs, backend=backend)
