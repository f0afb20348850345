"""The operations as torch sees them: derivatives, registration, compilation."""

import pytest
import torch
from torch import Tensor

from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels.causal_conv import cpu as conv_cpu
from tsmamba_kernels.selective_scan import cpu as scan_cpu
from tsmamba_kernels.testing import conv_inputs, scan_inputs


def gradcheck(op, inputs, *, backend, **extra):
    names = [k for k, x in inputs.items() if isinstance(x, Tensor) and x.is_floating_point()]

    def call(*tensors):
        return op(**(inputs | dict(zip(names, tensors, strict=True)) | extra), backend=backend)

    return torch.autograd.gradcheck(
        call,
        [inputs[name].requires_grad_() for name in names],
        fast_mode=backend == "reference",  # what is torch's own needs no more
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(2, 5, 4, 3), (1, 3, 3, 5)], ids=str)
def test_gradients_of_the_scan_are_its_finite_differences(backend, sizes, reverse):
    inputs = scan_inputs(*sizes, dtype=torch.float64)
    assert gradcheck(selective_scan, inputs, backend=backend, reverse=reverse)


def test_gradients_of_the_scan_hold_with_groups_and_times_of_each_channel(backend):
    inputs = scan_inputs(1, 4, 4, 2, groups=2, dtype=torch.float64)
    inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1).repeat(1, 1, 4)
    assert gradcheck(selective_scan, inputs, backend=backend, dt_limit=(0.01, 5.0))


def test_gradients_of_the_scan_hold_across_its_tiles(native):
    inputs = scan_inputs(1, scan_cpu.CHUNK + 2, 1, 1, dtype=torch.float64, options=("D", "z"))
    assert gradcheck(selective_scan, inputs, backend=native)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(2, 5, 3, 4), (1, 2, 9, 1), (1, 2, 2, 5)], ids=str)
def test_gradients_of_the_convolution_are_its_finite_differences(
    backend, sizes, reverse, activation
):
    inputs = conv_inputs(*sizes, dtype=torch.float64) | {"activation": activation}
    assert gradcheck(causal_conv1d, inputs, backend=backend, reverse=reverse)


SCAN_ORDER = (
    *("u", "delta", "A", "B", "C", "D", "z"),
    *("delta_bias", "initial_state", "mask", "delta_scale"),
)
SCAN_FLAGS = (True, 0.0, torch.inf)


def scan_operands(reverse, **sizes):
    inputs = scan_inputs(2, 66, 8, 4, groups=2, **sizes)
    return [inputs.get(name) for name in SCAN_ORDER], [*SCAN_FLAGS, reverse]


def conv_operands(reverse, **sizes):
    inputs = conv_inputs(2, 9, 8, **({"options": ("bias", "initial_state", "mask")} | sizes))
    names = ("x", "weight", "bias", "initial_state", "mask")
    return [inputs.get(name) for name in names], [True, reverse]


def leaves(operands):
    return [
        x.requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in operands
    ]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", [(), SCAN_ORDER], ids=["bare", "full"])
def test_the_forward_scan_is_a_sound_custom_op(native, options, reverse):
    operands, flags = scan_operands(reverse, options=options)
    torch.library.opcheck(scan_cpu._forward, [*leaves(operands), *flags, True])
    operands, flags = scan_operands(reverse, options=options)
    torch.library.opcheck(scan_cpu._forward, [*operands, *flags, False])


@pytest.mark.parametrize("options", [(), SCAN_ORDER], ids=["bare", "full"])
def test_the_backward_scan_is_a_sound_custom_op(native, options):
    operands, flags = scan_operands(False, options=options)
    out, final_state, chunk_states = scan_cpu._forward(*operands, *flags, True)
    pulled = [torch.randn_like(out), torch.randn_like(final_state)]
    torch.library.opcheck(scan_cpu._backward, [*pulled, chunk_states, *operands, *flags])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", [("initial_state",), ("bias", "initial_state", "mask")])
def test_the_convolution_is_a_sound_custom_op_both_ways(native, options, reverse):
    operands, flags = conv_operands(reverse, options=options)
    pulled = torch.randn_like(operands[0])
    torch.library.opcheck(conv_cpu._backward, [pulled, *operands, *flags])
    torch.library.opcheck(conv_cpu._forward, [*leaves(operands), *flags])


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_a_block_compiles_to_one_graph_for_any_length(native, compiler):
    def block(x, weight, delta, A, B, C):
        x = causal_conv1d(x, weight, None, "silu")
        return selective_scan(x, delta, A, B, C, delta_softplus=True, return_final_state=True)

    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend=compiler)
    weight = torch.randn(8, 4)
    for length in (9, 33, 130):
        inputs = scan_inputs(length=length, channels=8, options=())
        operands = leaves(
            [inputs["u"], weight, inputs["delta"], inputs["A"], inputs["B"], inputs["C"]]
        )
        results = []
        for run in (compiled, block):
            out, final_state = run(*operands)
            loss = out.square().sum() + final_state.sum()
            results.append((out, final_state, *torch.autograd.grad(loss, operands)))
        torch.testing.assert_close(results[0], results[1])


def test_activation_checkpointing_gives_the_same_gradients(native):
    inputs = scan_inputs(2, 70, 9, options=()) | {"return_final_state": False}
    u = inputs["u"].requires_grad_()
    (expected,) = torch.autograd.grad(selective_scan(**inputs).square().sum(), u)
    out = torch.utils.checkpoint.checkpoint(
        lambda u: selective_scan(**(inputs | {"u": u})), u, use_reentrant=False
    )
    (actual,) = torch.autograd.grad(out.square().sum(), u)
    assert torch.equal(actual, expected)


def test_a_change_of_a_saved_operand_before_backward_is_noticed(native):
    inputs = scan_inputs(2, 9, 3, options=()) | {"return_final_state": False}
    inputs["A"].requires_grad_()
    out = selective_scan(**inputs, backend=native)
    inputs["u"].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
