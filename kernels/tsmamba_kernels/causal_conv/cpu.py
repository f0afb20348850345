"""The causal convolution on the compiled CPU kernel, as torch custom ops with a backward pass."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from tsmamba_kernels import _native
from tsmamba_kernels._shapes import check_boundaries

# Time steps of one task: long enough to hide its start, short enough to stay cached.
TILE = 256


def _prepare(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    initial_state: Tensor,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    silu: bool,
    reverse: bool,
) -> tuple[_native.ConvArgs, list[Tensor | None]]:
    """Describe the inputs of a call; the returned tensors own the memory it points to."""
    x, weight_t, state = _native.rows(x), weight.t().contiguous(), initial_state.contiguous()
    bias = None if bias is None else bias.contiguous()
    args = _native.ConvArgs()
    args.batch, args.length, args.channels = x.shape
    args.width, args.tile, args.silu = weight.shape[1], TILE, silu
    args.threads = torch.get_num_threads()
    args.tiles, series = args.batch * -(-args.length // TILE), None
    if cu_seqlens is not None:
        series, args.tiles = _packed(cu_seqlens, args.length, reverse)
        args.batch, args.series = len(series), series.data_ptr()
    args.x, args.mask = _native.view(x, reverse=reverse), _native.view(mask, reverse=reverse)
    args.weight_t, args.bias = weight_t.data_ptr(), _native.pointer(bias)
    args.initial_state = state.data_ptr()
    return args, [x, weight_t, bias, state, mask, series]


def _packed(cu_seqlens: Tensor, length: int, reverse: bool) -> tuple[Tensor, int]:
    """Describe packed series as rows of ``tsm_series``, and count their tiles."""
    rows, tiles = [], 0
    for start, end in pairwise(check_boundaries("causal_conv1d", cu_seqlens, length)):
        rows.append((0, length - end if reverse else start, end - start, tiles))
        tiles += -(-(end - start) // TILE)
    return torch.tensor(rows), tiles


@torch.library.custom_op("tsmamba::causal_conv_fwd", mutates_args=(), device_types="cpu")
def _forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    initial_state: Tensor,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    silu: bool,
    reverse: bool,
) -> Tensor:
    args, owners = _prepare(x, weight, bias, initial_state, mask, cu_seqlens, silu, reverse)
    out = _native.empty(x, *x.shape)
    args.out = _native.view(out, reverse=reverse)
    _native.call("causal_conv_fwd", x.dtype, args, owners)
    return out


@_forward.register_fake
def _(x: Tensor, *others: Any) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.custom_op("tsmamba::causal_conv_bwd", mutates_args=(), device_types="cpu")
def _backward(
    grad_out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    initial_state: Tensor,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    silu: bool,
    reverse: bool,
) -> list[Tensor]:
    """Return the gradients of x, weight, bias (empty when absent) and initial_state."""
    args, owners = _prepare(x, weight, bias, initial_state, mask, cu_seqlens, silu, reverse)
    channels = x.shape[2]
    grad_out = _native.rows(grad_out)
    grad_x = _native.empty(x, *x.shape)
    grad_weight_t = weight.new_empty(args.tiles, weight.shape[1], channels)
    grad_bias = weight.new_empty(args.tiles if bias is not None else 0, channels)
    grad_state = initial_state.new_zeros(
        initial_state.shape
    )  # of an empty series no task writes it
    args.grad_out, args.grad_x = (_native.view(v, reverse=reverse) for v in (grad_out, grad_x))
    args.grad_weight_t = grad_weight_t.data_ptr()
    args.grad_bias = _native.pointer(None if bias is None else grad_bias)
    args.grad_initial_state = grad_state.data_ptr()
    _native.call("causal_conv_bwd", x.dtype, args, [*owners, grad_out])
    grad_weight = grad_weight_t.sum(0).t().contiguous()
    return [
        grad_x,
        grad_weight,
        weight.new_empty(0) if bias is None else grad_bias.sum(0),
        grad_state,
    ]


@_backward.register_fake
def _(grad_out: Tensor, x: Tensor, *inputs: Any) -> list[Tensor]:
    weight, bias, initial_state = inputs[:3]
    empty = weight.new_empty(0)
    return [
        x.new_empty(x.shape),
        weight.new_empty(weight.shape),
        empty if bias is None else bias.new_empty(bias.shape),
        initial_state.new_empty(initial_state.shape),
    ]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.flags = inputs[6:]


def _autograd(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
    tensors = ctx.saved_tensors  # once: checkpointing recomputes what it gives, and only once
    bias = tensors[2]
    grads = _backward(grad_out, *tensors, *ctx.flags)
    return grads[0], grads[1], None if bias is None else grads[2], grads[3], None, None, None, None


_forward.register_autograd(_autograd, setup_context=_setup_context)


def causal_conv1d_native(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    silu: bool,
    initial_state: Tensor,
    mask: Tensor | None,
    reverse: bool,
    cu_seqlens: Tensor | None,
) -> Tensor:
    """Return the filtered sequence, shape (B, L, D)."""
    out: Tensor = _forward(x, weight, bias, initial_state, mask, cu_seqlens, silu, reverse)
    return out
