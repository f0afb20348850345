"""Calls drawn at random: any shape, layout and choice of options, common and extreme values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels.testing import (
    CONV_OPTIONS,
    LAYOUTS,
    SCAN_OPTIONS,
    TOLERANCES,
    check_parity,
    conv_inputs,
    pack,
    run_with_gradients,
    scan_inputs,
    with_layout,
)

pytestmark = pytest.mark.usefixtures("native")

ROWS = ("u", "delta", "z", "B", "C", "mask", "delta_scale")
BAD = (torch.nan, -torch.nan, torch.inf, -torch.inf)

# The same calls in every run, so that a change is judged by what it changes.
stable = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@st.composite
def batches(draw, longest):
    """Draw a batch size and a length, and boundaries where one row holds packed series."""
    length = draw(st.integers(0, longest))
    if draw(st.booleans()):
        return draw(st.integers(1, 4)), length, None
    inner = draw(st.lists(st.integers(0, length), max_size=5))
    return 1, length, [0, *sorted(inner), length]


@st.composite
def scans(draw, dtypes=tuple(TOLERANCES), options=SCAN_OPTIONS):
    batch, length, bounds = draw(batches(140))
    groups = draw(st.integers(1, 3))
    channels = groups * draw(st.integers(1, 19))
    inputs = scan_inputs(
        batch, length, channels, draw(st.integers(1, 18)),
        groups=groups, options=draw(st.sets(st.sampled_from(options))),
        dtype=draw(st.sampled_from(dtypes)), seed=draw(st.integers(0, 999)),
    )  # fmt: skip
    if "delta_scale" in inputs and draw(st.booleans()):
        inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1).repeat(1, 1, channels)
    for name in ROWS:
        if name in inputs:
            inputs[name] = with_layout(inputs[name], draw(st.sampled_from(LAYOUTS)))
    limits = [(0.0, torch.inf), (0.05, 0.2)]
    if draw(st.booleans()):
        inputs["A"] = inputs["A"][:, 0]
    else:
        # Steps back in time make a state grow. That of rate n A then keeps n times the rounding
        # of its one exponential, which a decaying state forgets as fast as it comes.
        limits.append((-0.02, 0.2))
    inputs["delta_softplus"] = draw(st.booleans())
    inputs["reverse"] = draw(st.booleans())
    inputs["dt_limit"] = draw(st.sampled_from(limits))
    return inputs if bounds is None else pack(inputs, bounds)


@st.composite
def convolutions(draw):
    batch, length, bounds = draw(batches(300))
    inputs = conv_inputs(
        batch, length, draw(st.integers(1, 35)), draw(st.integers(1, 7)),
        options=draw(st.sets(st.sampled_from(CONV_OPTIONS))),
        dtype=draw(st.sampled_from(tuple(TOLERANCES))), seed=draw(st.integers(0, 999)),
    )  # fmt: skip
    inputs["x"] = with_layout(inputs["x"], draw(st.sampled_from(LAYOUTS)))
    inputs["activation"] = draw(st.sampled_from([None, "silu"]))
    inputs["reverse"] = draw(st.booleans())
    return inputs if bounds is None else pack(inputs, bounds)


@st.composite
def extreme_scans(draw):
    """Draw a scan of step sizes and rates far out, with up to three values that are not finite."""
    inputs = draw(scans(dtypes=(torch.float32, torch.float64)))
    dtype, seed = inputs["u"].dtype, draw(st.integers(0, 999))
    far = torch.Generator().manual_seed(seed)
    inputs["delta"] = -20 + 60 * torch.rand(inputs["delta"].shape, generator=far, dtype=dtype)
    # No rate is zero: over an infinite step it decays by nobody knows what.
    inputs["A"] = inputs["A"] * draw(st.sampled_from([1e-30, 1e-6, 1.0, 250.0]))
    # With steps below zero such rates grow beyond all numbers.
    inputs["dt_limit"] = draw(st.sampled_from([(0.0, torch.inf), (0.05, 0.2)]))
    names = [name for name in ("u", "delta", "B", "C", "z") if name in inputs]
    for _ in range(draw(st.integers(0, 3)) if inputs["u"].numel() else 0):
        name = draw(st.sampled_from(names))
        x = inputs[name].clone(memory_format=torch.contiguous_format)
        x.view(-1)[draw(st.integers(0, x.numel() - 1))] = draw(st.sampled_from(BAD))
        inputs[name] = x
    return inputs


@stable
@given(scans())
def test_any_scan_agrees(inputs):
    check_parity(selective_scan, inputs)


@stable
@given(convolutions())
def test_any_convolution_agrees(inputs):
    check_parity(causal_conv1d, inputs)


def check_where_finite(name, actual, true, tolerance):
    finite = true.isfinite()
    actual, true = actual[finite].double(), true[finite]
    assert actual.isfinite().all(), f"{name} is not finite where the reference is"
    # What underflows in the reference may be a smallest number here.
    assert (actual - true).norm() <= tolerance * true.norm() + 1e-30, name


@stable
@given(extreme_scans())
def test_any_extreme_scan_agrees_wherever_the_reference_is_finite(inputs):
    tolerance = TOLERANCES[inputs["u"].dtype]
    exact = {
        name: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for name, x in inputs.items()
    }
    outputs, gradients = run_with_gradients(selective_scan, inputs, backend="native")
    true_outputs, true_gradients = run_with_gradients(selective_scan, exact, backend="reference")
    if inputs["delta"].isnan().any() and not inputs["delta_softplus"]:
        # torch's clamp gives a NaN no gradient; the kernel shows it.
        del true_gradients["delta"]
        true_gradients.pop("delta_bias", None)
    for i, true in enumerate(true_outputs):
        check_where_finite(f"output {i}", outputs[i], true, tolerance.output)
        assert not outputs[i][~true.isfinite()].isfinite().any()
    for name, true in true_gradients.items():
        check_where_finite(f"gradient of {name}", gradients[name], true, tolerance.gradient)
        # Torch multiplies what is not finite with the zero gradient of a missing step.
        if "mask" not in inputs:
            assert not gradients[name][~true.isfinite()].isfinite().any(), name
