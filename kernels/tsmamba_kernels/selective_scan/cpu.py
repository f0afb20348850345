"""The selective scan on the compiled CPU kernel, as torch custom ops with a backward pass.

Tensors arrive checked: u, delta, z, B and C of one type, the others float64 with it or else
float32. States travel as (B, N, D) inside and are handed out as a (B, D, N) view of that, so a
state that is fed back is not copied.
"""

from typing import Any

import torch
from torch import Tensor

from tsmamba_kernels import _native
from tsmamba_kernels.errors import KernelError
from tsmamba_kernels.selective_scan import cpu_plan


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
    mask: Tensor | None,
    delta_scale: Tensor | None,
    cu_seqlens: Tensor | None,
    softplus: bool,
    dt_min: float,
    dt_max: float,
    reverse: bool,
    tied: bool,
) -> tuple[_native.ScanArgs, list[Tensor | None]]:
    """Describe the inputs of a call; the returned tensors own the memory it points to."""
    u, delta, z = _native.rows(u), _native.rows(delta), None if z is None else _native.rows(z)
    B, C = _group_rows(B), _group_rows(C)
    per_channel = delta_scale is not None and delta_scale.dim() == u.dim()
    if delta_scale is not None and per_channel:
        delta_scale = _native.rows(delta_scale)
    a_t = _transposed(A)
    D = None if D is None else D.contiguous()
    delta_bias = None if delta_bias is None else delta_bias.contiguous()
    args = _native.ScanArgs()
    args.batch, args.length, args.channels = u.shape
    args.groups, args.states = B.shape[2:]
    args.threads = torch.get_num_threads()
    args.chunk, args.softplus, args.tied = cpu_plan.CHUNK, softplus, tied
    args.dt_min, args.dt_max = dt_min, dt_max
    series = None
    if cu_seqlens is not None:
        series = cpu_plan.packed("selective_scan", cu_seqlens, args.length, reverse)
        args.batch, args.series = len(series), series.data_ptr()
    args.splits = cpu_plan.splits(args.batch, args.groups, args.channels, args.threads)
    args.u, args.delta, args.z, args.mask = (
        _native.view(x, reverse=reverse) for x in (u, delta, z, mask)
    )
    args.b, args.c = (_native.view(x, reverse=reverse, inner_stride=args.states) for x in (B, C))
    args.dt_scale = _native.view(delta_scale, reverse=reverse, inner_stride=int(per_channel))
    args.a_t, args.d_skip = a_t.data_ptr(), _native.pointer(D)
    args.delta_bias = _native.pointer(delta_bias)
    return args, [u, delta, z, B, C, mask, delta_scale, a_t, D, delta_bias, series]


def _enter(
    args: _native.ScanArgs,
    owners: list[Tensor | None],
    dtype: torch.dtype,
    A: Tensor,  # (D, N)
    state: Tensor | None,  # (B, D, N)
    *,
    backward: bool = False,
) -> Tensor | None:
    """Cut the series into segments where that pays; return the state (B, N, D) entering each.

    Of a backward pass it is the adjoint state, which enters a segment at its end.
    """
    first = None if state is None else _transposed(state)
    batch = args.batch
    count = cpu_plan.segments(batch, args.groups, args.channels, args.length, args.threads)
    if args.series or count == 1:
        return first
    plan = cpu_plan.cut(batch, args.length, count)
    some = (plan[:, 1:] if backward else plan[:, :-1]).contiguous()  # the others feed no segment
    own = A.new_empty(*some.shape[:2], args.states, args.channels)
    total_dt = A.new_empty(*some.shape[:2], args.channels)
    args.batch, args.series = some[..., 0].numel(), some.data_ptr()
    args.total_dt = total_dt.data_ptr()
    if backward:
        args.grad_initial_state = own.data_ptr()
        _native.call("selective_scan_bwd", dtype, args, [*owners, some])
        states = cpu_plan.chain(first, own.flip(1), total_dt.flip(1), A.t()).flip(1)
    else:
        args.final_state = own.data_ptr()
        _native.call("selective_scan_fwd", dtype, args, [*owners, some])
        states = cpu_plan.chain(first, own, total_dt, A.t())
    args.batch, args.series, args.total_dt = plan[..., 0].numel(), plan.data_ptr(), None
    args.splits = cpu_plan.splits(args.batch, args.groups, args.channels, args.threads)
    owners.append(plan)
    return states.flatten(0, 1)


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
    cu_seqlens: Tensor | None,
    softplus: bool,
    dt_min: float,
    dt_max: float,
    reverse: bool,
    tied: bool,
    save_states: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, the final state and the states that a backward pass starts from."""
    args, owners = _prepare(
        u, delta, A, B, C, D, z, delta_bias, mask, delta_scale, cu_seqlens,
        softplus, dt_min, dt_max, reverse, tied,
    )  # fmt: skip
    states = _enter(args, owners, u.dtype, A, initial_state)
    args.initial_state = _native.pointer(states)
    out = _native.empty(u, *u.shape)
    saved = cpu_plan.saved_states(u.shape[0], u.shape[1], cu_seqlens) if save_states else 0
    chunk_states = _native.empty(A, saved, A.shape[1], A.shape[0])
    final_state = A.new_empty(args.batch, A.shape[1], A.shape[0])
    args.out, args.final_state = _native.view(out, reverse=reverse), final_state.data_ptr()
    args.chunk_states = chunk_states.data_ptr() if save_states else None
    _native.call("selective_scan_fwd", u.dtype, args, [*owners, states])
    if args.series and cu_seqlens is None:  # of every batch row the last segment's
        final_state = final_state.unflatten(0, (u.shape[0], -1))[:, -1].contiguous()
    return out, final_state.transpose(1, 2), chunk_states


@_forward.register_fake
def _(u: Tensor, delta: Tensor, A: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    cu_seqlens, save_states = others[8], others[-1]
    series = u.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    saved = cpu_plan.saved_states(u.shape[0], u.shape[1], cu_seqlens) if save_states else 0
    return (
        u.new_empty(u.shape),
        A.new_empty(series, A.shape[1], A.shape[0]).transpose(1, 2),
        A.new_empty(saved, A.shape[1], A.shape[0]),
    )


def _row_gradients(
    args: _native.ScanArgs, shape: torch.Size, reverse: bool, **operands: Tensor | None
) -> dict[str, Tensor]:
    """Make room for the gradients of the operands that have a row a step and are there.

    That of ``dt_scale`` has all channels, whatever its own shape.
    """
    rows = {}
    for name, x in operands.items():
        if x is None:
            continue
        rows[name] = _native.empty(x, *shape)
        setattr(args, f"grad_{name}", _native.view(rows[name], reverse=reverse))
    return rows


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
    cu_seqlens: Tensor | None,
    softplus: bool,
    dt_min: float,
    dt_max: float,
    reverse: bool,
    tied: bool,
) -> list[Tensor]:
    """Return the gradients of u, delta, A, B, C, D, z, delta_bias, initial_state, delta_scale.

    The gradient of an absent operand is an empty tensor.
    """
    args, owners = _prepare(
        u, delta, A, B, C, D, z, delta_bias, mask, delta_scale, cu_seqlens,
        softplus, dt_min, dt_max, reverse, tied,
    )  # fmt: skip
    if chunk_states.shape[0] != cpu_plan.saved_states(u.shape[0], u.shape[1], cu_seqlens):
        raise KernelError("no states were saved for a backward pass; call with save_states=True")
    grad_out = _native.rows(grad_out)
    args.grad_out = _native.view(grad_out, reverse=reverse)
    grad_state = _enter(args, owners, u.dtype, A, grad_final_state, backward=True)
    args.grad_final_state, args.chunk_states = _native.pointer(grad_state), chunk_states.data_ptr()
    rows = _row_gradients(args, u.shape, reverse, u=u, delta=delta, z=z, dt_scale=delta_scale)
    grad_b, grad_c = (_native.empty(A, args.splits, *B.shape) for _ in range(2))
    args.grad_b, args.grad_c = (
        _native.view(x[0], reverse=reverse, inner_stride=x.stride(0)) for x in (grad_b, grad_c)
    )
    grad_a_t, grad_initial = (A.new_empty(args.batch, A.shape[1], A.shape[0]) for _ in range(2))
    grad_d, grad_bias = (A.new_empty(args.batch, A.shape[0]) for _ in range(2))
    args.grad_a_t, args.grad_initial_state = grad_a_t.data_ptr(), grad_initial.data_ptr()
    args.grad_d_skip, args.grad_delta_bias = grad_d.data_ptr(), grad_bias.data_ptr()
    _native.call("selective_scan_bwd", u.dtype, args, [*owners, grad_out, grad_state, chunk_states])
    if delta_scale is not None and delta_scale.dim() < u.dim():
        rows["dt_scale"] = rows["dt_scale"].sum(-1)
    if args.series and cu_seqlens is None:  # of every batch row the first segment's
        grad_initial = grad_initial.unflatten(0, (u.shape[0], -1))[:, 0].contiguous()
    grad_b, grad_c = ((x[0] if len(x) == 1 else x.sum(0)).to(u.dtype) for x in (grad_b, grad_c))
    return [
        rows["u"],
        rows["delta"],
        grad_a_t.sum(0).t().contiguous(),
        grad_b,
        grad_c,
        grad_d.sum(0) if D is not None else A.new_empty(0),
        rows.get("z", u.new_empty(0)),
        grad_bias.sum(0) if delta_bias is not None else A.new_empty(0),
        grad_initial.transpose(1, 2) if initial_state is not None else A.new_empty(0),
        rows.get("dt_scale", A.new_empty(0)),
    ]


# The operands of `_backward`'s result, as positions among the inputs of `_forward`.
_DIFFERENTIABLE = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)


@_backward.register_fake
def _(
    grad_out: Tensor, grad_final_state: Tensor, chunk_states: Tensor, *inputs: Any
) -> list[Tensor]:
    u, A = inputs[0], inputs[2]
    grads = []
    for position in _DIFFERENTIABLE:
        x, like = inputs[position], u if position == 6 else A
        grads.append(like.new_empty(0) if x is None else x.new_empty(x.shape))
    if inputs[8] is not None:
        grads[8] = grads[8].transpose(1, 2).contiguous().transpose(1, 2)
    return grads


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.flags = inputs[:12], inputs[12:17]
    ctx.save_for_backward(output[2], *tensors)
    ctx.state_shape = output[1].shape
    ctx.set_materialize_grads(False)


def _autograd(
    ctx: Any, grad_out: Tensor | None, grad_state: Tensor | None, _: Tensor | None
) -> tuple[Any, ...]:
    chunk_states, *tensors = ctx.saved_tensors
    u, A = tensors[0], tensors[2]
    if grad_out is None:
        grad_out = torch.zeros_like(u)
    if grad_state is None:
        grad_state = A.new_zeros(ctx.state_shape)
    grads = _backward(grad_out, grad_state, chunk_states, *tensors, *ctx.flags)
    result: list[Tensor | None] = [None] * 18
    for position, grad in zip(_DIFFERENTIABLE, grads, strict=True):
        result[position] = grad if tensors[position] is not None else None
    return tuple(result)


_forward.register_autograd(_autograd, setup_context=_setup_context)


def selective_scan_native(
    *tensors: Any, flags: tuple[bool, float, float, bool, bool]
) -> tuple[Tensor, Tensor]:
    """Run the kernel; saves states for a backward pass only where a gradient is wanted."""
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    out, final_state, _ = _forward(*tensors, *flags, wanted)
    return out, final_state
