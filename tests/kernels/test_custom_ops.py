"""The operations as torch sees them: derivatives, registration, compilation."""

import pytest
import torch
from torch import Tensor

from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels.causal_conv import cpu as conv_cpu
from tsmamba_kernels.selective_scan import cpu as scan_cpu
from tsmamba_kernels.selective_scan import cpu_plan
from tsmamba_kernels.testing import boundaries, conv_inputs, pack, scan_inputs


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
    inputs = scan_inputs(1, cpu_plan.CHUNK + 2, 1, 1, dtype=torch.float64, options=("D", "z"))
    assert gradcheck(selective_scan, inputs, backend=native)


def test_gradients_of_the_scan_hold_for_tied_rates_of_packed_series(backend):
    inputs = pack(scan_inputs(1, 6, 3, 3, dtype=torch.float64), [0, 2, 2, 6])
    inputs["A"] = inputs["A"][:, 0]
    assert gradcheck(selective_scan, inputs, backend=backend)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(2, 5, 3, 4), (1, 2, 9, 1), (1, 2, 2, 5)], ids=str)
def test_gradients_of_the_convolution_are_its_finite_differences(
    backend, sizes, reverse, activation
):
    inputs = conv_inputs(*sizes, dtype=torch.float64) | {"activation": activation}
    assert gradcheck(causal_conv1d, inputs, backend=backend, reverse=reverse)


SCAN_ORDER = (
    *("u", "delta", "A", "B", "C", "D", "z", "delta_bias"),
    *("initial_state", "mask", "delta_scale", "cu_seqlens"),
)
CONV_ORDER = ("x", "weight", "bias", "initial_state", "mask", "cu_seqlens")
SCAN_CASES = {
    "bare": scan_inputs(2, 66, 8, 4, groups=2, options=()),
    "full": scan_inputs(2, 66, 8, 4, groups=2),
    "short type": scan_inputs(2, 66, 8, 4, groups=2, options=("D", "z"), dtype=torch.bfloat16),
    # Of these lengths every place for a saved state is taken; others leave some unwritten.
    "packed": pack(scan_inputs(1, 130, 8, 4, groups=2), [0, 65, 130]),
}
CONV_CASES = {
    "bare": conv_inputs(2, 9, 8, options=("initial_state",)),
    "full": conv_inputs(2, 9, 8),
    "short type": conv_inputs(2, 9, 8, dtype=torch.bfloat16),
    "packed": pack(conv_inputs(1, 9, 8), boundaries(9)["some_empty"]),
}


def operands(inputs, order, *, leaves=False):
    found = [inputs.get(name) for name in order]
    if not leaves:
        return found
    return [
        x.detach().requires_grad_() if x is not None and x.is_floating_point() else x for x in found
    ]


@pytest.mark.parametrize("inputs", SCAN_CASES.values(), ids=SCAN_CASES)
def test_both_passes_of_the_scan_are_sound_custom_ops(native, inputs):
    flags = (True, 0.0, torch.inf, True, False)  # reversed, with rates of their own
    plain = operands(inputs, SCAN_ORDER)
    torch.library.opcheck(scan_cpu._forward, [*plain, *flags, False])
    leaves = operands(inputs, SCAN_ORDER, leaves=True)
    torch.library.opcheck(scan_cpu._forward, [*leaves, *flags, True])
    out, final_state, chunk_states = scan_cpu._forward(*plain, *flags, True)
    pulled = [torch.randn_like(out), torch.randn_like(final_state)]
    torch.library.opcheck(scan_cpu._backward, [*pulled, chunk_states, *plain, *flags])


@pytest.mark.parametrize("inputs", CONV_CASES.values(), ids=CONV_CASES)
def test_both_passes_of_the_convolution_are_sound_custom_ops(native, inputs):
    flags = (True, True)  # silu, reversed
    plain = operands(inputs, CONV_ORDER)
    torch.library.opcheck(conv_cpu._backward, [torch.randn_like(plain[0]), *plain, *flags])
    leaves = operands(inputs, CONV_ORDER, leaves=True)
    torch.library.opcheck(conv_cpu._forward, [*leaves, *flags])


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_block_compiles_to_one_graph_for_any_length_and_number_of_series(
    native, packed, compiler
):
    def block(x, weight, delta, A, B, C, cu_seqlens):
        x = causal_conv1d(x, weight, None, "silu", cu_seqlens=cu_seqlens)
        return selective_scan(
            x, delta, A, B, C, delta_softplus=True, return_final_state=True, cu_seqlens=cu_seqlens
        )

    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend=compiler)
    for bounds in ([0, 4, 9], [0, 3, 3, 33], [0, 64, 128, 129, 130]):
        inputs = scan_inputs(1 if packed else 2, bounds[-1], 8, options=())
        inputs |= {"weight": torch.randn(8, 4), "A": inputs["A"][:, 0]}
        leaves = operands(inputs, ("u", "weight", "delta", "A", "B", "C"), leaves=True)
        results = []
        for run in (compiled, block):
            out, final_state = run(*leaves, torch.tensor(bounds) if packed else None)
            loss = out.square().sum() + final_state.sum()
            results.append((out, final_state, *torch.autograd.grad(loss, leaves)))
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
