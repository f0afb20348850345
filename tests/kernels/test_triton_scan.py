"""The Triton scan, run by Triton's interpreter, against the reference in float64."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tsmamba_kernels import selective_scan, selective_state_update
from tsmamba_kernels.testing import (
    LAYOUTS,
    SCAN_OPTIONS,
    check_parity,
    masks,
    run_with_gradients,
    scan_inputs,
    with_layout,
)

pytestmark = pytest.mark.usefixtures("triton")

ROWS = ("u", "delta", "z", "B", "C", "mask", "delta_scale")
SERIES = {
    "one": [0, 9],
    "short": [0, 1, 3, 9],
    "empty": [0, 0, 5, 5, 9, 9],
}


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Save states every fourth step, so that short sequences have several chunks."""
    gpu = pytest.importorskip("tsmamba_kernels.selective_scan.gpu")
    monkeypatch.setattr(gpu, "CHUNK", 4)
    return gpu


def agrees(inputs, **extra):
    check_parity(selective_scan, inputs | extra, backend="triton")


def packed_inputs(bounds, **sizes):
    inputs = scan_inputs(1, bounds[-1], 3, 4, **sizes)
    state = torch.randn(len(bounds) - 1, 3, 4, dtype=inputs["A"].dtype)
    return inputs | {"initial_state": state, "cu_seqlens": torch.tensor(bounds)}


@pytest.mark.parametrize(
    "sizes",
    [
        *({"length": length} for length in (0, 1, 2, 9, 17, 33)),
        *({"channels": channels} for channels in (0, 1, 33)),
        *({"states": states} for states in (0, 1, 5, 16, 17)),
        {"channels": 10, "groups": 2},
        {"channels": 36, "groups": 2, "states": 9, "length": 3},
        *({"batch": batch} for batch in (0, 3)),
    ],
    ids=str,
)
def test_every_size_agrees(sizes):
    sizes = {"batch": 1, "length": 5, "channels": 3, "states": 3} | sizes
    agrees(scan_inputs(**sizes, dtype=torch.float64))


def test_chunks_of_their_real_length_agree(monkeypatch, short_chunks):
    monkeypatch.undo()
    agrees(scan_inputs(1, short_chunks.CHUNK + 1, 2, 3, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_shorter_types_agree_on_the_rounded_inputs(dtype):
    inputs = scan_inputs(1, 9, 6, 5, dtype=dtype)
    agrees(inputs)
    out, final_state = selective_scan(**inputs, backend="triton")
    assert (out.dtype, final_state.dtype) == (dtype, torch.float32)


@pytest.mark.parametrize(
    "options",
    [(), *((name,) for name in SCAN_OPTIONS), *(set(SCAN_OPTIONS) - {x} for x in SCAN_OPTIONS)],
    ids=lambda options: "+".join(sorted(options)) or "none",
)
def test_every_optional_operand_may_be_absent(options):
    agrees(scan_inputs(1, 5, 3, 4, options=options, dtype=torch.float64))


@pytest.mark.parametrize(
    "change",
    [
        {"delta_softplus": False, "dt_limit": (-0.02, 0.2)},
        {"delta_softplus": False},
        {"dt_limit": (0.05, 0.3)},
        {"reverse": True},
        {"reverse": True, "dt_limit": (0.1, 0.1)},
    ],
    ids=str,
)
def test_every_flag_agrees(change):
    agrees(scan_inputs(1, 6, 4, 3, groups=2, dtype=torch.float64), **change)


@pytest.mark.parametrize("pattern", masks(1, 1))
def test_every_mask_pattern_agrees(pattern):
    inputs = scan_inputs(1, 7, 3, 4, dtype=torch.float64)
    agrees(inputs, mask=masks(1, 7)[pattern])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_agrees(layout):
    inputs = scan_inputs(2, 5, 4, 3, dtype=torch.float64)
    inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1).repeat(1, 1, 4)
    for name in ROWS:
        inputs[name] = with_layout(inputs[name], layout)
    for name in ("A", "initial_state"):
        inputs[name] = inputs[name].mT.contiguous().mT
    inputs["D"] = inputs["D"].repeat_interleave(3)[::3]
    agrees(inputs)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("scale", [0.0, 300.0])
def test_elapsed_times_agree(per_channel, scale):
    inputs = scan_inputs(1, 5, 3, 4, dtype=torch.float64)
    if per_channel:
        inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1) * torch.rand(1, 5, 3).double()
    inputs["delta_scale"] = inputs["delta_scale"] * scale
    agrees(inputs)


def test_one_rate_a_channel_agrees():
    inputs = scan_inputs(1, 5, 3, 4, dtype=torch.float64)
    agrees(inputs, A=inputs["A"][:, 0].contiguous())


def test_small_step_sizes_keep_their_precision():
    """With one step, no state and no decay, the output is the step size itself."""
    delta = torch.linspace(-20, 40, 241).view(1, 1, 241)
    one = torch.ones(1, 1, 1)
    out = selective_scan(
        torch.ones(1, 1, 241), delta, torch.zeros(241, 1), one, one,
        delta_softplus=True, backend="triton",
    )  # fmt: skip
    exact = torch.log1p(delta.double().neg().abs().neg().exp()) + delta.double().clamp(min=0)
    assert ((out.double() - exact) / exact).abs().max() < 3e-7


@pytest.mark.parametrize("rate", [0.0, -1e-6, -1e3, -1e30])
def test_extreme_decay_rates_agree(rate):
    inputs = scan_inputs(1, 5, 3, 4)
    inputs["A"] = torch.full_like(inputs["A"], rate)
    agrees(inputs)


@pytest.mark.parametrize(
    ("name", "reverse"), [("one", False), ("short", False), ("short", True), ("empty", True)]
)
def test_packed_series_agree(name, reverse):
    agrees(packed_inputs(SERIES[name], dtype=torch.float64), reverse=reverse)


def test_packed_series_are_series_apart():
    bounds = SERIES["short"]
    inputs = packed_inputs(bounds) | {"backend": "triton"}
    inputs["cu_seqlens"] = inputs["cu_seqlens"].int()
    out, final_state = selective_scan(**inputs)
    del inputs["cu_seqlens"]
    for i, (start, end) in enumerate(pairwise(bounds)):
        part = {name: inputs[name][:, start:end] for name in ROWS}
        part["initial_state"] = inputs["initial_state"][i : i + 1]
        alone, alone_state = selective_scan(**(inputs | part))
        torch.testing.assert_close(out[:, start:end], alone, rtol=0, atol=0)
        torch.testing.assert_close(final_state[i : i + 1], alone_state, rtol=0, atol=0)


def test_boundaries_outside_the_row_are_moved_to_its_ends():
    inputs = packed_inputs([0, 4, 9])
    outside = inputs | {"cu_seqlens": torch.tensor([-5, 4, 10**12])}
    expected = run_with_gradients(selective_scan, inputs, backend="triton")
    actual = run_with_gradients(selective_scan, outside, backend="triton")
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.fixture
def in_segments(monkeypatch, short_chunks):
    """Return a function that cuts every series into so many segments."""

    def cut(segments):
        run = partial(short_chunks.selective_scan_triton, segments=segments)
        monkeypatch.setattr(short_chunks, "selective_scan_triton", run)

    return cut


@pytest.mark.parametrize(("segments", "reverse"), [(1, False), (2, True), (3, False)])
def test_any_number_of_segments_agrees(in_segments, segments, reverse):
    in_segments(segments)
    agrees(scan_inputs(1, 13, 3, 4, dtype=torch.float64), reverse=reverse)


@pytest.mark.parametrize("options", [(), ("initial_state",), ("z", "mask")], ids=str)
def test_segments_agree_whatever_is_absent(in_segments, options):
    in_segments(2)
    agrees(scan_inputs(1, 6, 4, 3, groups=2, options=options, dtype=torch.float64))


@pytest.mark.parametrize("bounds", SERIES.values(), ids=SERIES)
def test_segments_of_packed_series_agree(in_segments, bounds):
    in_segments(2)
    agrees(packed_inputs(bounds, dtype=torch.float64))


@pytest.mark.parametrize("wanted", [0, 1])
def test_either_output_alone_carries_all_gradients(wanted):
    def one_output(**arguments):
        return selective_scan(**arguments)[wanted]

    check_parity(one_output, scan_inputs(1, 5, 3, 4, dtype=torch.float64), backend="triton")


def test_a_loop_of_single_steps_is_one_pass():
    options = ("D", "z", "delta_bias", "initial_state", "delta_scale")
    inputs = scan_inputs(2, 5, 6, 4, groups=2, options=options)
    whole, final_state = selective_scan(**inputs, backend="triton")
    state, outs = inputs["initial_state"], []
    for t in range(5):
        u, delta, B, C, z, scale = (
            inputs[name][:, t] for name in ("u", "delta", "B", "C", "z", "delta_scale")
        )
        out, state = selective_state_update(
            state, u, delta, inputs["A"], B, C, inputs["D"], z, dt_bias=inputs["delta_bias"],
            dt_softplus=True, delta_scale=scale, backend="triton",
        )  # fmt: skip
        outs.append(out)
    torch.testing.assert_close(torch.stack(outs, dim=1), whole, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(state, final_state, rtol=1e-6, atol=1e-6)


def test_a_missing_step_may_hold_anything():
    inputs = scan_inputs(1, 8, 3, 4) | {"mask": masks(1, 8)["interior_gap"]}
    expected = run_with_gradients(selective_scan, inputs, backend="triton")
    for name in set(ROWS) - {"mask"}:
        seen = inputs["mask"].view(1, 8, *[1] * (inputs[name].dim() - 2))
        inputs[name] = torch.where(seen, inputs[name], torch.nan)
    actual = run_with_gradients(selective_scan, inputs, backend="triton")
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["u", "delta", "z", "initial_state"])
def test_what_is_not_finite_shows_wherever_the_reference_shows_it(name, bad):
    inputs = scan_inputs(1, 5, 3, 4, options=("D", "z", "initial_state"))
    inputs[name] = inputs[name].clone()
    inputs[name].view(-1)[inputs[name].numel() // 3] = bad
    actual = selective_scan(**inputs, backend="triton")
    for y, true in zip(actual, selective_scan(**inputs, backend="reference"), strict=True):
        assert torch.equal(y.isfinite(), true.isfinite())
        torch.testing.assert_close(y[y.isfinite()], true[y.isfinite()], rtol=1e-4, atol=1e-5)


def test_a_rate_above_zero_is_not_looked_for():
    """Looking would wait for the device; the state grows instead."""
    inputs = scan_inputs(1, 2, 1, 1, options=()) | {"A": torch.full((1, 1), 0.5)}
    inputs |= {"delta": torch.ones(1, 2, 1), "delta_softplus": False}
    _, state = selective_scan(**inputs, backend="triton")
    pushed = (inputs["B"] * inputs["u"]).flatten()
    expected = pushed[0] * torch.tensor(0.5).exp() + pushed[1]
    torch.testing.assert_close(state.flatten(), expected.view(1))


@pytest.mark.usefixtures("poisoned_empty")
@pytest.mark.parametrize("length", [0, 1, 9])
@pytest.mark.parametrize("pattern", ["none_seen", "alternating"])
def test_all_memory_is_written(in_segments, length, pattern):
    in_segments(2)
    inputs = scan_inputs(1, length, 3, 5) | {"mask": masks(1, length)[pattern]}
    outputs, gradients = run_with_gradients(selective_scan, inputs, backend="triton")
    assert all(x.isfinite().all() for x in (*outputs, *gradients.values()))


def test_no_value_is_asked_for_on_the_way(monkeypatch, in_segments):
    """Each of these would wait for the device, and could not be captured in a CUDA graph."""
    in_segments(2)
    inputs = packed_inputs(SERIES["short"])
    leaf = inputs["u"].requires_grad_()

    def refuse(*_):
        raise AssertionError("the host waits for the device")

    for name in ("item", "tolist", "__bool__", "__int__", "__index__", "__float__", "nonzero"):
        monkeypatch.setattr(Tensor, name, refuse)
    out, _ = selective_scan(**inputs, backend="triton")
    (grad,) = torch.autograd.grad(out, leaf, torch.ones_like(out))
    monkeypatch.undo()
    assert grad.isfinite().all()


ORDER = (
    *("u", "delta", "A", "B", "C", "D", "z", "delta_bias"),
    *("initial_state", "mask", "delta_scale", "cu_seqlens"),
)
FLAGS = (True, 0.0, torch.inf, False, 1)


@pytest.mark.parametrize("options", [(), SCAN_OPTIONS], ids=["bare", "full"])
def test_both_passes_are_sound_custom_ops(short_chunks, options):
    inputs = scan_inputs(1, 1, 2, 2, groups=2, options=options)
    operands = [inputs.get(name) for name in ORDER]
    out, final_state, saved = short_chunks._forward(*operands, *FLAGS, True)
    pulled = [torch.randn_like(out), torch.randn_like(final_state)]
    torch.library.opcheck(short_chunks._backward, [*pulled, saved, *operands, *FLAGS])
    leaves = [
        x.requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in operands
    ]
    torch.library.opcheck(short_chunks._forward, [*leaves, *FLAGS, True])


def test_a_call_compiles_to_one_graph_for_any_length():
    torch._dynamo.reset()

    def run(u, delta, A, B, C):
        return selective_scan(
            u, delta, A, B, C, delta_softplus=True, return_final_state=True, backend="triton"
        )

    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (3, 5):
        inputs = scan_inputs(2, length, 4, 3, options=())
        operands = [inputs[name].requires_grad_() for name in ("u", "delta", "A", "B", "C")]
        results = []
        for call in (compiled, run):
            out, final_state = call(*operands)
            loss = out.square().sum() + final_state.sum()
            results.append((out, final_state, *torch.autograd.grad(loss, operands)))
        torch.testing.assert_close(results[0], results[1])
    torch._dynamo.reset()
