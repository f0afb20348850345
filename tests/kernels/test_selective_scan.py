"""The selective scan against its reference in float64, outputs and all gradients."""

import pytest
import torch

from tsmamba_kernels import selective_scan
from tsmamba_kernels.errors import ShapeError
from tsmamba_kernels.testing import (
    LAYOUTS,
    SCAN_OPTIONS,
    TOLERANCES,
    Tolerance,
    check_parity,
    masks,
    run_with_gradients,
    scan_inputs,
    with_layout,
)

pytestmark = pytest.mark.usefixtures("native")

ROWS = ("u", "delta", "z", "B", "C", "mask", "delta_scale")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "sizes",
    [
        *({"length": length} for length in (0, 1, 2, 63, 64, 65, 130)),
        *({"channels": channels} for channels in (1, 3, 8, 13, 24, 40)),
        *({"states": states} for states in (1, 4, 5, 16, 17, 33)),
        *({"channels": channels, "groups": 2} for channels in (2, 8, 24, 40)),
        {"channels": 24, "groups": 24, "states": 1},
        {"batch": 1, "channels": 40},
        {"batch": 9, "channels": 3},
        {"batch": 0},
        {"channels": 0},
        {"states": 0},
    ],
    ids=str,
)
def test_every_size_agrees(sizes, dtype):
    check_parity(selective_scan, scan_inputs(**({"length": 9} | sizes), dtype=dtype))


def test_a_long_sequence_agrees():
    check_parity(selective_scan, scan_inputs(1, 1000, 13, 16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_short_types_agree_on_the_rounded_inputs(dtype, groups):
    inputs = scan_inputs(length=70, states=16, groups=groups, dtype=dtype)
    check_parity(selective_scan, inputs)
    (out, final_state), gradients = run_with_gradients(selective_scan, inputs)
    assert (out.dtype, final_state.dtype) == (dtype, torch.float32)
    assert all(gradient.dtype == inputs[name].dtype for name, gradient in gradients.items())


@pytest.mark.parametrize("name", ["u", "delta", "B", "C", "z"])
@pytest.mark.parametrize("other", [torch.float32, torch.float16], ids=str)
def test_an_operand_of_another_type_agrees(name, other):
    inputs = scan_inputs(length=70, dtype=torch.bfloat16)
    inputs[name] = inputs[name].to(other)
    check_parity(selective_scan, inputs, tolerance=TOLERANCES[torch.bfloat16])
    assert selective_scan(**inputs)[0].dtype == inputs["u"].dtype


@pytest.mark.parametrize(
    "options",
    [(), *((name,) for name in SCAN_OPTIONS), *(set(SCAN_OPTIONS) - {x} for x in SCAN_OPTIONS)],
    ids=lambda options: "+".join(sorted(options)) or "none",
)
def test_every_optional_operand_may_be_absent(options):
    check_parity(selective_scan, scan_inputs(1, 20, 11, 4, options=options))


@pytest.mark.parametrize(
    "change",
    [
        {"delta_softplus": False, "dt_limit": (-0.02, 0.2)},
        {"delta_softplus": False},
        {"dt_limit": (0.05, 0.3)},
        {"dt_limit": (0.1, 0.1)},
        {"reverse": True},
        {"reverse": True, "dt_limit": (0.05, 0.3)},
    ],
    ids=str,
)
def test_every_flag_agrees(change):
    check_parity(selective_scan, scan_inputs(length=70, groups=2) | change)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("states", [5, 16])
@pytest.mark.parametrize("pattern", masks(1, 1))
def test_every_mask_pattern_agrees(pattern, states, reverse):
    inputs = scan_inputs(2, 70, 9, states)
    inputs["mask"] = masks(2, 70)[pattern]
    check_parity(selective_scan, inputs | {"reverse": reverse})


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_agrees(layout, reverse):
    inputs = scan_inputs(2, 19, 8, 4, groups=2)
    inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1).repeat(1, 1, 8)
    for name in ROWS:
        inputs[name] = with_layout(inputs[name], layout)
    check_parity(selective_scan, inputs | {"reverse": reverse})


@pytest.mark.parametrize("name", ["A", "D", "delta_bias", "initial_state", "B", "C"])
def test_a_transposed_or_repeated_operand_agrees(name):
    inputs = scan_inputs(2, 9, 8, 4)
    x = inputs[name]
    inputs[name] = x.mT.contiguous().mT if x.dim() > 1 else x.repeat_interleave(3)[::3]
    check_parity(selective_scan, inputs)
    inputs[name] = x[..., :1].expand(x.shape)
    check_parity(selective_scan, inputs)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_elapsed_times_agree(per_channel, scale):
    inputs = scan_inputs(2, 66, 9)
    if per_channel:
        inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1) * torch.rand(2, 66, 9)
    inputs["delta_scale"] = inputs["delta_scale"] * scale
    check_parity(selective_scan, inputs)


@pytest.mark.parametrize("wanted", ["out", "final_state"])
def test_either_output_alone_carries_all_gradients(wanted):
    inputs = scan_inputs(2, 66, 9)

    def one_output(**arguments):
        out, final_state = selective_scan(**arguments)
        return out if wanted == "out" else final_state

    check_parity(one_output, inputs)


@pytest.mark.parametrize("name", ["u", "A", "initial_state", "delta_scale"])
def test_a_gradient_may_be_wanted_of_one_operand_only(name, backend):
    inputs = scan_inputs(2, 9, 3)
    _, everything = run_with_gradients(selective_scan, inputs, backend=backend)
    leaf = inputs[name].clone().requires_grad_()
    out, final_state = selective_scan(**(inputs | {name: leaf}), backend=backend)
    draw = torch.Generator().manual_seed(1)
    pulled = [
        torch.randn(y.shape, generator=draw, dtype=torch.float64).bfloat16().to(y.dtype)
        for y in (out, final_state)
    ]
    (grad,) = torch.autograd.grad([out, final_state], [leaf], pulled)
    torch.testing.assert_close(grad, everything[name])


def test_raw_step_sizes_from_minus_20_to_40_agree():
    inputs = scan_inputs(1, 121, 8, 4, options=("z", "D"))
    inputs["delta"] = torch.linspace(-20, 40, 121).view(1, 121, 1).repeat(1, 1, 8)
    check_parity(selective_scan, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rate", [0.0, -1e-6, -1e3, -1e30])
def test_extreme_decay_rates_agree(rate, dtype):
    inputs = scan_inputs(1, 70, 9, 4, dtype=dtype)
    inputs["A"] = torch.full_like(inputs["A"], rate)
    check_parity(selective_scan, inputs, tolerance=Tolerance(1e-5, 1e-4))


def test_a_step_of_no_time_leaves_the_state_bit_for_bit(backend):
    inputs = scan_inputs(2, 5, 9) | {"delta_scale": torch.zeros(2, 5)}
    inputs.pop("mask")
    _, final_state = selective_scan(**inputs, backend=backend)
    assert torch.equal(final_state, inputs["initial_state"])


@pytest.mark.parametrize("bad", [torch.nan, -torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["u", "delta", "B", "C", "z", "initial_state", "A", "D"])
def test_what_is_not_finite_shows_wherever_the_reference_shows_it(name, bad):
    inputs = scan_inputs(2, 20, 9, 4, options=("D", "z", "initial_state"))
    spoiled = inputs[name].clone()
    spoiled.view(-1)[spoiled.numel() // 3] = bad
    inputs[name] = spoiled
    if name == "A" and bad == torch.inf:
        with pytest.raises(ShapeError):
            selective_scan(**inputs, backend="native")
        return
    actual = selective_scan(**inputs, backend="native")
    for y, true in zip(actual, selective_scan(**inputs, backend="reference"), strict=True):
        assert not (y.isfinite() & ~true.isfinite()).any()
        clean = true.isfinite()
        torch.testing.assert_close(y[clean], true[clean], rtol=1e-4, atol=1e-5)
    run_with_gradients(selective_scan, inputs, backend="native")


def test_a_missing_step_may_hold_anything(backend):
    inputs = scan_inputs(2, 66, 9) | {"mask": masks(2, 66)["interior_gap"]}
    clean_outputs, clean_gradients = run_with_gradients(selective_scan, inputs, backend=backend)
    for name in set(ROWS) - {"mask"}:
        seen = inputs["mask"].view(2, 66, *[1] * (inputs[name].dim() - 2))
        inputs[name] = torch.where(seen, inputs[name], torch.nan)
    outputs, gradients = run_with_gradients(selective_scan, inputs, backend=backend)
    torch.testing.assert_close(outputs, clean_outputs, rtol=0, atol=0)
    torch.testing.assert_close(gradients, clean_gradients, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_no_gradient_is_wanted_of_what_cannot_have_one(dtype):
    out, final_state = selective_scan(**scan_inputs(2, 9, 3, dtype=dtype), backend="native")
    assert not out.requires_grad
    assert not final_state.requires_grad
