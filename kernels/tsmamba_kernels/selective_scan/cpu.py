"""The selective scan on the compiled CPU kernel, as torch custom ops with a backward pass.

Tensors arrive checked and of one type, float32 or float64. States travel as (B, N, D) inside and
are handed out as a (B, D, N) view of that, so a state that is fed back is not copied.
"""

from typing import Any

import torch
from torch import Tensor

from tsmamba_kernels import _native
from tsmamba_kernels.errors import KernelError

# Steps between two saved states. A backward tile holds 2 * CHUNK * N vectors, which fit the
# second-level cache; longer tiles save memory but spill it.
CHUNK = 64


def _splits(batch: int, groups: int, channels: int, threads: int) -> int:
    """Return in how many parts to cut the channels of a group so that all threads have work."""
    tasks = batch * groups
    if tasks % threads == 0 or tasks >= 4 * threads:
        return 1
    return max(1, min(threads, channels // groups // 8))  # no part below a vector of 8 lanes


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous()


def _group_rows(x: Tensor) -> Tensor:
    """Return a (B, L, G, N) tensor whose groups and states are contiguous."""
    dense = x.stride(3) == 1 and (x.shape[2] == 1 or x.stride(2) == x.shape[3])
    return x if dense else x.contiguous()


def _prepare(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
    delta_scale: Tensor | None,
    softplus: bool,
    dt_min: float,
    dt_max: float,
    reverse: bool,
) -> tuple[_native.ScanArgs, list[Tensor | None]]:
    """Describe the inputs of a call; the returned tensors own the memory it points to."""
    u, delta, z = _native.rows(u), _native.rows(delta), None if z is None else _native.rows(z)
    B, C = _group_rows(B), _group_rows(C)
    per_channel = delta_scale is not None and delta_scale.dim() == u.dim()
    if delta_scale is not None and per_channel:
        delta_scale = _native.rows(delta_scale)
    a_t = _transposed(A)
    state = None if initial_state is None else _transposed(initial_state)
    D = None if D is None else D.contiguous()
    delta_bias = None if delta_bias is None else delta_bias.contiguous()
    args = _native.ScanArgs()
    args.batch, args.length, args.channels = u.shape
    args.groups, args.states = B.shape[2:]
    args.threads = torch.get_num_threads()
    args.splits = _splits(args.batch, args.groups, args.channels, args.threads)
    args.chunk, args.softplus, args.dt_min, args.dt_max = CHUNK, softplus, dt_min, dt_max
    args.u, args.delta, args.z, args.mask = (
        _native.view(x, reverse=reverse) for x in (u, delta, z, mask)
    )
    args.b, args.c = (_native.view(x, reverse=reverse, inner_stride=args.states) for x in (B, C))
    args.dt_scale = _native.view(delta_scale, reverse=reverse, inner_stride=int(per_channel))
    args.a_t, args.d_skip = a_t.data_ptr(), _native.pointer(D)
    args.delta_bias, args.initial_state = _native.pointer(delta_bias), _native.pointer(state)
    return args, [u, delta, z, B, C, mask, delta_scale, a_t, D, delta_bias, state]


@torch.library.custom_op("tsmamba::selective_scan_fwd", mutates_args=(), device_types="cpu")
def _forward(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
    delta_scale: Tensor | None,
    softplus: bool,
    dt_min: float,
    dt_max: float,
    reverse: bool,
    save_states: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, the final state and the states that a backward pass starts from."""
    args, owners = _prepare(
        u, delta, A, B, C, D, z, delta_bias, initial_state, mask, delta_scale,
        softplus, dt_min, dt_max, reverse,
    )  # fmt: skip
    batch, length, channels = u.shape
    out = u.new_empty(batch, length, channels)
    final_state = u.new_empty(batch, A.shape[1], channels)
    chunks = -(-length // CHUNK) if save_states else 0
    chunk_states = u.new_empty(batch, chunks, A.shape[1], channels)
    args.out, args.final_state = _native.view(out, reverse=reverse), final_state.data_ptr()
    args.chunk_states = chunk_states.data_ptr() if save_states else None
    _native.call("selective_scan_fwd", u.dtype, args, owners)
    return out, final_state.transpose(1, 2), chunk_states


@_forward.register_fake
def _(u: Tensor, delta: Tensor, A: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    batch, length, channels = u.shape
    chunks = -(-length // CHUNK) if others[-1] else 0
    return (
        u.new_empty(batch, length, channels),
        u.new_empty(batch, A.shape[1], channels).transpose(1, 2),
        u.new_empty(batch, chunks, A.shape[1], channels),
    )


@torch.library.custom_op("tsmamba::selective_scan_bwd", mutates_args=(), device_types="cpu")
def _backward(
    grad_out: Tensor,
    grad_final_state: Tensor,
    chunk_states: Tensor,
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
    delta_scale: Tensor | None,
    softplus: bool,
    dt_min: float,
    dt_max: float,
    reverse: bool,
) -> list[Tensor]:
    """Return the gradients of u, delta, A, B, C, D, z, delta_bias, initial_state, delta_scale.

    The gradient of an absent operand is an empty tensor.
    """
    args, owners = _prepare(
        u, delta, A, B, C, D, z, delta_bias, initial_state, mask, delta_scale,
        softplus, dt_min, dt_max, reverse,
    )  # fmt: skip
    batch, length, channels = u.shape
    states = A.shape[1]
    if chunk_states.shape[1] != -(-length // CHUNK):
        raise KernelError("no states were saved for a backward pass; call with save_states=True")
    grad_out, grad_state = _native.rows(grad_out), _transposed(grad_final_state)
    present = {"u": u, "delta": delta, "z": z, "dt_scale": delta_scale}
    rows = {name: u.new_empty(0 if x is None else u.shape) for name, x in present.items()}
    for name, x in present.items():
        if x is not None:
            setattr(args, f"grad_{name}", _native.view(rows[name], reverse=reverse))
    grad_b, grad_c = (u.new_zeros(args.splits, *B.shape) for _ in range(2))
    args.grad_b, args.grad_c = (
        _native.view(x[0], reverse=reverse, inner_stride=x.stride(0)) for x in (grad_b, grad_c)
    )
    grad_a_t, grad_initial = (u.new_empty(batch, states, channels) for _ in range(2))
    grad_d, grad_bias = (u.new_empty(batch, channels) for _ in range(2))
    args.grad_a_t, args.grad_initial_state = grad_a_t.data_ptr(), grad_initial.data_ptr()
    args.grad_d_skip, args.grad_delta_bias = grad_d.data_ptr(), grad_bias.data_ptr()
    args.grad_out = _native.view(grad_out, reverse=reverse)
    args.grad_final_state, args.chunk_states = grad_state.data_ptr(), chunk_states.data_ptr()
    _native.call("selective_scan_bwd", u.dtype, args, [*owners, grad_out, grad_state])
    if delta_scale is not None and delta_scale.dim() < u.dim():
        rows["dt_scale"] = rows["dt_scale"].sum(-1)
    grad_b, grad_c = (x[0] if args.splits == 1 else x.sum(0) for x in (grad_b, grad_c))
    return [
        rows["u"],
        rows["delta"],
        grad_a_t.sum(0).t().contiguous(),
        grad_b,
        grad_c,
        grad_d.sum(0) if D is not None else u.new_empty(0),
        rows["z"],
        grad_bias.sum(0) if delta_bias is not None else u.new_empty(0),
        grad_initial.transpose(1, 2) if initial_state is not None else u.new_empty(0),
        rows["dt_scale"],
    ]


# The operands of `_backward`'s result, as positions among the inputs of `_forward`.
_DIFFERENTIABLE = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)


@_backward.register_fake
def _(
    grad_out: Tensor, grad_final_state: Tensor, chunk_states: Tensor, *inputs: Any
) -> list[Tensor]:
    grads = []
    for position in _DIFFERENTIABLE:
        x = inputs[position]
        grads.append(inputs[0].new_empty(0) if x is None else inputs[0].new_empty(x.shape))
    if inputs[8] is not None:
        grads[8] = grads[8].transpose(1, 2).contiguous().transpose(1, 2)
    return grads


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.flags = inputs[:11], inputs[11:15]
    ctx.save_for_backward(output[2], *tensors)
    ctx.set_materialize_grads(False)


def _autograd(
    ctx: Any, grad_out: Tensor | None, grad_state: Tensor | None, _: Tensor | None
) -> tuple[Any, ...]:
    chunk_states, *tensors = ctx.saved_tensors
    u, A = tensors[0], tensors[2]
    if grad_out is None:
        grad_out = torch.zeros_like(u)
    if grad_state is None:
        grad_state = u.new_zeros(u.shape[0], u.shape[2], A.shape[1])
    grads = _backward(grad_out, grad_state, chunk_states, *tensors, *ctx.flags)
    result: list[Tensor | None] = [None] * 16
    for position, grad in zip(_DIFFERENTIABLE, grads, strict=True):
        result[position] = grad if tensors[position] is not None else None
    return tuple(result)


_forward.register_autograd(_autograd, setup_context=_setup_context)


def selective_scan_native(
    *tensors: Any, flags: tuple[bool, float, float, bool]
) -> tuple[Tensor, Tensor]:
    """Run the kernel; saves states for a backward pass only where a gradient is wanted."""
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    out, final_state, _ = _forward(*tensors, *flags, wanted)
    return out, final_state
