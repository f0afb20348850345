"""What a step of a whole stack refuses, and that nothing is changed then."""

import re
from dataclasses import replace

import pytest
import torch

from tests.kernels.test_stack_step import draw_layer, draw_stack
from tsmamba_kernels import StackStep
from tsmamba_kernels.errors import ShapeError

ONES = torch.ones(3)
WRONG_OPERANDS = {
    "x of one axis": (
        {"x": torch.randn(12)},
        r"x is (12,) of torch.float32 on cpu; pass (streams, 12) of torch.float32 on the CPU",
    ),
    "x too narrow": ({"x": torch.randn(3, 11)}, "x is (3, 11) of torch.float32 on cpu; pass"),
    "x in float64": ({"x": torch.randn(3, 12).double()}, "x is (3, 12) of torch.float64 on cpu"),
    "x elsewhere": ({"x": torch.randn(3, 12, device="meta")}, "(3, 12) of torch.float32 on meta"),
    "fewer rows than states": (
        {"x": torch.randn(2, 12)},
        "x has 2 rows, but there are 3 states; pass one for each row, or slots",
    ),
    "times of another number": (
        {"delta_scale": torch.ones(2)},
        "delta_scale is (2,) of torch.float32 on cpu; pass (3,) of torch.float32 on the CPU",
    ),
    "times in float64": ({"delta_scale": ONES.double()}, "delta_scale is (3,) of torch.float64"),
    "times elsewhere": ({"delta_scale": ONES.to("meta")}, "of torch.float32 on meta; pass (3,)"),
    "slots of another number": (
        {"slots": torch.arange(2)},
        "slots is (2,) of torch.int64 on cpu; pass (3,) of torch.int64 on the CPU",
    ),
    "slots in int32": ({"slots": torch.arange(3).int()}, "slots is (3,) of torch.int32 on cpu"),
    "slots elsewhere": ({"slots": torch.arange(3, device="meta")}, "of torch.int64 on meta; pass"),
    "a slot twice": (
        {"slots": torch.tensor([1, 0, 1])},
        "slots name state 1 more than once; pass each once",
    ),
    "a slot too high": (
        {"slots": torch.tensor([0, 1, 3])},
        "slots go from 0 to 3; there are 3 states, counted from 0",
    ),
    "a slot below zero": (
        {"slots": torch.tensor([0, 1, -1])},
        "slots go from -1 to 1; there are 3",
    ),
}


@pytest.mark.parametrize(("operands", "message"), WRONG_OPERANDS.values(), ids=WRONG_OPERANDS)
def test_a_refused_step_changes_nothing(backend, operands, message):
    stack = draw_stack(backend=backend)
    state = torch.randn_like(stack.init_state(3))
    before = state.clone()
    with pytest.raises(ShapeError, match="stack_step: .*" + re.escape(message)):
        stack(**({"x": torch.randn(3, 12), "state": state} | operands))
    assert torch.equal(state, before)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state[:, :1], r"state is non-contiguous (3, 1, 2, 8, 16) of torch.float32"),
        (lambda state: state[0], "state is (2, 2, 8, 16) of torch.float32 on cpu; pass a contiguo"),
        (lambda state: state.double(), "(3, 2, 2, 8, 16) of torch.float64 on cpu; pass a contigu"),
        (
            lambda state: state.to("meta"),
            "of torch.float32 on meta; pass a contiguous (streams, 2,",
        ),
        (
            lambda state: torch.cat([state, state])[::2],
            "state is non-contiguous (3, 2, 2, 8, 16) of torch.float32 on cpu; pass a contiguous "
            "(streams, 2, 2, 8, 16) of torch.float32 on the CPU",
        ),
    ],
    ids=["layers", "one stream", "float64", "elsewhere", "every second"],
)
def test_a_state_of_another_form_is_refused(spoil, message):
    stack = draw_stack()
    state = spoil(stack.init_state(3))
    with pytest.raises(ShapeError, match="stack_step: .*" + re.escape(message)):
        stack(torch.randn(3, 12), state)
    with pytest.raises(ShapeError, match=re.escape(message)):
        stack.unpack(state)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([(torch.zeros(2, 3, 24), torch.zeros(2, 24, 5))], r"[((3, 24), (24, 5))] after the axis"),
        (
            [(torch.zeros(2, 3, 24), torch.zeros(2, 5, 24))] * 2,
            "after the axis of streams; pass 2 times ((3, 24), (24, 5))",
        ),
    ],
    ids=["depth", "transposed"],
)
def test_states_of_another_stack_are_refused(states, message):
    with pytest.raises(
        ShapeError, match="stack_step: states have the shapes .*" + re.escape(message)
    ):
        draw_stack().pack(states)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"norm": torch.ones(11)}, "in_proj has shape (48, 12), but axes (2E, M) want M = 11, not"),
        (
            {"in_proj": torch.ones(47, 12)},
            "in_proj_bias has shape (48,), but axes (2E) want 2E = 47",
        ),
        (
            {"in_proj": torch.ones(47, 12), "in_proj_bias": None},
            "in_proj has 47 rows, but E = 24, R = 2, N = 5 want 2E = 48",
        ),
        ({"conv1d": torch.ones(24)}, "conv1d has shape (24,); expected axes (E, W)"),
        ({"conv1d": torch.ones(24, 0)}, "no axis may be empty, but W = 0"),
        (
            {"x_proj": torch.ones(13, 24)},
            "x_proj has 13 rows, but E = 24, R = 2, N = 5 want R+2N = 12",
        ),
        (
            {"x_proj": torch.ones(13, 24), "A": -torch.ones(24)},
            "x_proj has 13 rows, but E = 24, R = 2, N = 5 want R+2N = 12",
        ),
        ({"A": -torch.ones(24, 4)}, "x_proj has 12 rows, but E = 24, R = 2, N = 4 want R+2N = 10"),
        (
            {"gain_proj": torch.ones(9, 24), "gain_proj_bias": None},
            "gain_proj has 9 rows, but E = 24, R = 2, N = 5 want 2N = 10",
        ),
        ({"out_proj": torch.ones(24, 12)}, "out_proj has shape (24, 12), but axes (M, E) want"),
        ({"D": torch.ones(24, dtype=torch.int64)}, "D is torch.int64; pass floating-point numbers"),
        ({"A": torch.full((24, 5), 0.1)}, "A has a positive entry"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_weights_that_do_not_fit_together_are_refused(weights, message):
    with pytest.raises(ShapeError, match=re.escape(message)):
        StackStep([replace(draw_layer(), **weights)], torch.ones(12))


def test_a_final_norm_of_another_width_is_refused():
    with pytest.raises(ShapeError, match=r"norm_f has shape \(11,\); pass \(12,\)"):
        StackStep([draw_layer()], torch.ones(11))


def test_a_stack_without_layers_is_refused():
    with pytest.raises(ShapeError, match="there are no layers; pass at least one"):
        StackStep([], torch.ones(12))


@pytest.mark.parametrize(
    ("other", "names"),
    [
        ({"states": 4}, "x_proj, A, gain_proj, gain_proj_bias"),
        ({"optional": ()}, "in_proj_bias, conv1d_bias, out_proj_bias, gain_proj, gain_proj_bias"),
        ({"tied": True}, "A"),
    ],
    ids=["states", "optional", "tied"],
)
def test_layers_that_differ_are_refused(other, names):
    layers = [draw_layer(), draw_layer(), draw_layer(**other)]
    with pytest.raises(
        ShapeError, match=f"layers 0 and 2 differ in the shape of {names}; pass lay"
    ):
        StackStep(layers, torch.ones(12))
