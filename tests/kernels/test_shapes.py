"""Operands that do not fit are refused, with a message that says which and why."""

import re

import pytest
import torch

from tsmamba_kernels import causal_conv1d, selective_scan, selective_state_update
from tsmamba_kernels.errors import KernelError, ShapeError
from tsmamba_kernels.testing import conv_inputs, scan_inputs

SCAN = scan_inputs(2, 5, 4, 3)
CONV = conv_inputs(2, 5, 4, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": torch.ones(2, 5)}, "u has shape (2, 5); expected axes (B, L, D)"),
        (
            {"delta": torch.ones(2, 6, 4)},
            "delta has shape (2, 6, 4), but axes (B, L, D) want L = 5, not 6",
        ),
        (
            {"A": -torch.ones(3, 3)},
            "A has shape (3, 3), but axes (D, N) or (D) want D = 4, not 3",
        ),
        ({"A": -torch.ones(3)}, "A has shape (3,), but axes (D, N) or (D) want D = 4, not 3"),
        (
            {"B": torch.ones(2, 5, 7)},
            "B has shape (2, 5, 1, 7), but axes (B, L, G, N) want N = 3, not 7",
        ),
        (
            {"B": torch.ones(2, 5, 2, 3), "C": torch.ones(2, 5, 1, 3)},
            "C has shape (2, 5, 1, 3), but axes (B, L, G, N) want G = 2, not 1",
        ),
        ({"D": torch.ones(1)}, "D has shape (1,), but axes (D) want D = 4, not 1"),
        (
            {"initial_state": torch.ones(2, 3, 4)},
            "initial_state has shape (2, 3, 4), but axes (B, D, N) want D = 4, not 3",
        ),
        (
            {"delta_scale": torch.ones(2)},
            "delta_scale has shape (2,); expected axes (B, L) or (B, L, D)",
        ),
        (
            {"mask": torch.ones(2, 4) > 0},
            "mask has shape (2, 4), but axes (B, L) want L = 5, not 4",
        ),
        ({"mask": torch.ones(2, 5)}, "mask is torch.float32; pass a bool tensor"),
        (
            {"mask": torch.ones(2, 5, dtype=torch.int64)},
            "mask is torch.int64; pass a bool tensor, True where observed",
        ),
        (
            {"u": torch.ones(2, 5, 4, dtype=torch.int64)},
            "u is torch.int64; pass floating-point numbers",
        ),
        ({"z": torch.ones(2, 5, 4) > 0}, "z is torch.bool; pass floating-point numbers"),
        ({"D": torch.ones(4, device="meta")}, "D is on meta, the first operand on cpu"),
        (
            {"B": torch.ones(2, 5, 3, 3), "C": torch.ones(2, 5, 3, 3)},
            "4 channels cannot be shared by 3 groups; the number of groups must divide",
        ),
        (
            {"B": torch.ones(2, 5, 0, 3), "C": torch.ones(2, 5, 0, 3)},
            "4 channels cannot be shared by 0 groups",
        ),
        ({"A": torch.full((4, 3), 1e-9)}, "A has a positive entry"),
        ({"A": torch.full((4,), 1e-9)}, "A has a positive entry"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_scan_refuses_what_does_not_fit(backend, change, message):
    with pytest.raises(ShapeError, match=re.escape(message)) as caught:
        selective_scan(**(SCAN | change), backend=backend)
    assert isinstance(caught.value, KernelError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.ones(2, 5)}, "x has shape (2, 5); expected axes (B, L, D)"),
        ({"weight": torch.ones(4, 1, 3)}, "weight has shape (4, 1, 3); expected axes (D, W)"),
        (
            {"weight": torch.ones(5, 3)},
            "weight has shape (5, 3), but axes (D, W) want D = 4, not 5",
        ),
        ({"weight": torch.ones(4, 0)}, "weight has no columns; a filter is at least one step wide"),
        ({"bias": torch.ones(3)}, "bias has shape (3,), but axes (D) want D = 4, not 3"),
        ({"activation": "relu"}, "activation 'relu'; pass 'silu' or None"),
        (
            {"initial_state": torch.ones(2, 3, 4)},
            "initial_state has shape (2, 3, 4), but axes (B, W-1, D) want W-1 = 2, not 3",
        ),
        (
            {"initial_state": torch.ones(2, 4, 2)},
            "initial_state has shape (2, 4, 2), but axes (B, W-1, D) want D = 4, not 2",
        ),
        (
            {"initial_state": torch.ones(2, 4)},
            "initial_state has shape (2, 4); expected axes (B, W-1, D)",
        ),
        (
            {"mask": torch.ones(2, 4) > 0},
            "mask has shape (2, 4), but axes (B, L) want L = 5, not 4",
        ),
        ({"mask": torch.ones(2, 5)}, "mask is torch.float32; pass a bool tensor"),
        ({"weight": torch.ones(4, 3) > 0}, "weight is torch.bool; pass floating-point numbers"),
        ({"initial_state": torch.ones(2, 2, 4, device="meta")}, "initial_state is on meta"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_convolution_refuses_what_does_not_fit(backend, change, message):
    with pytest.raises(ShapeError, match=re.escape(f"causal_conv1d: {message}")):
        causal_conv1d(**(CONV | change), backend=backend)


def test_a_state_of_another_size_is_refused_by_the_step():
    one = torch.ones(2, 4)
    with pytest.raises(ShapeError, match=re.escape("(2, 4, 9), but axes (B, D, N) want N = 3")):
        selective_state_update(
            torch.ones(2, 4, 9), one, one, -torch.ones(4, 3), torch.ones(2, 3), torch.ones(2, 3)
        )
