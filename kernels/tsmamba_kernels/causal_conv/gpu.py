"""The causal convolution in Triton, as torch custom ops with a backward pass.

Both kernels walk a padded time axis on which the W - 1 inputs of its initial state stand before the
inputs of each series, so that no filter reaches from one packed series into the next. A position on
this axis has a place in its series, counted in scan order; the places of the state are negative.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tsmamba_kernels import _tiles

# Elements of a tile: what four warps hold in registers several times over.
TILE = 2048


@triton.jit
def _program(positions, channels, STEP, BLOCK_D):
    """Return the batch row, the tile and the channels of this program; neighbours share time."""
    tiles, blocks = tl.cdiv(positions, STEP), tl.cdiv(channels, BLOCK_D)
    program = tl.program_id(0)
    part = program // blocks
    d = program % blocks * BLOCK_D + tl.arange(0, BLOCK_D)
    return (part // tiles).to(tl.int64), part % tiles, d


@triton.jit
def _series(position, positions, b, length, series_of, bounds, WIDTH: tl.constexpr):
    """Return the series at a position, the rows where it begins and ends, and the place."""
    if series_of is None:
        series, start, end = b, 0, length
        place = position - (WIDTH - 1)
    else:
        series = tl.load(series_of + tl.minimum(position, positions - 1))
        start, end = tl.load(bounds + series), tl.load(bounds + series + 1)
        place = position - start - (series + 1) * (WIDTH - 1)
    return series, start, end, place


@triton.jit
def _touches_state(first, last, positions, b, length, series_of, bounds, WIDTH: tl.constexpr):
    """Whether a filter that ends between two positions may reach back into an initial state."""
    series, _, _, place = _series(first, positions, b, length, series_of, bounds, WIDTH)
    other, _, _, _ = _series(last, positions, b, length, series_of, bounds, WIDTH)
    return (place < WIDTH - 1) | (series != other)


@triton.jit
def _locate(
    first, rank, positions, b, length, d, channels, series_of, bounds,
    x, x_b, x_l, x_d, mask, mask_b, mask_l, WIDTH: tl.constexpr, REVERSE: tl.constexpr,
):  # fmt: skip
    """Return of a tile's positions what both kernels need.

    Place, row, whether there is such a row and whether it is seen; pointers to the rows of x and of
    the mask, each with the step to the next place; the offset in the states of the oldest input
    that a filter which ends at the position may meet.
    """
    position = first + rank
    series, start, end, place = _series(position, positions, b, length, series_of, bounds, WIDTH)
    row = (end - 1 - place if REVERSE else start + place).to(tl.int64)
    valid = (position < positions) & (place >= 0) & (place < end - start)
    live = valid
    if mask is not None:
        mask += b * mask_b + row * mask_l
        live &= tl.load(mask, valid, 0) != 0
    x += b * x_b + (row * x_l)[:, None] + (d.to(tl.int64) * x_d)[None, :]
    x_step = tl.cast(-x_l if REVERSE else x_l, tl.int64)
    mask_step = tl.cast(-mask_l if REVERSE else mask_l, tl.int64)
    old = ((series * (WIDTH - 1) + place).to(tl.int64) * channels)[:, None] + d[None, :]
    return place, row, valid, live, x, x_step, mask, mask_step, old


@triton.jit
def _add_taps(
    total, weight, x, x_step, mask, mask_step, state, channels, place, live, d,
    WIDTH: tl.constexpr, TOUCHES: tl.constexpr,
):  # fmt: skip
    """Add up what meets each column of the filter, times its weight."""
    inside = (d < channels)[None, :]
    for j in tl.range(WIDTH, loop_unroll_factor=4):
        back = j - (WIDTH - 1)
        seen = live & (place + back >= 0) if TOUCHES else live
        if mask is not None:
            seen &= tl.load(mask + back * mask_step, seen, 0) != 0
        tap = tl.load(x + back * x_step, seen[:, None] & inside, 0.0).to(total.dtype)
        if TOUCHES:
            older = (live & (place + back < 0))[:, None] & inside
            tap = tl.load(state + j * channels, older, tap)
        total += tl.load(weight + d * WIDTH + j, d < channels, 0.0)[None, :] * tap
    return total


@triton.jit
def _filter(
    touches, weight, bias, x, x_step, mask, mask_step, state, channels, place, live, d,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Return the sums before the activation."""
    total = tl.zeros(x.shape, state.dtype.element_ty)
    if bias is not None:
        total += tl.load(bias + d, d < channels, 0.0)[None, :]
    if touches:
        total = _add_taps(
            total, weight, x, x_step, mask, mask_step, state, channels, place, live, d,
            WIDTH, True,
        )  # fmt: skip
    else:
        total = _add_taps(
            total, weight, x, x_step, mask, mask_step, state, channels, place, live, d,
            WIDTH, False,
        )  # fmt: skip
    return total


@triton.jit
def causal_conv_forward(
    x, weight, bias, state, mask, series_of, bounds, out,
    x_b, x_l, x_d, mask_b, mask_l, length, channels, positions,
    WIDTH: tl.constexpr, SILU: tl.constexpr, REVERSE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Filter one tile of positions and channels."""
    # Positions of a state have no output; but for packed series, all of them come first.
    SKIPPED: tl.constexpr = WIDTH - 1 if series_of is None else 0
    b, tile, d = _program(positions - SKIPPED, channels, BLOCK_T, BLOCK_D)
    first = SKIPPED + tile * BLOCK_T
    place, row, valid, live, x, x_step, mask, mask_step, old = _locate(
        first, tl.arange(0, BLOCK_T), positions, b, length, d, channels, series_of, bounds,
        x, x_b, x_l, x_d, mask, mask_b, mask_l, WIDTH, REVERSE,
    )  # fmt: skip
    last = first + BLOCK_T - 1
    touches = _touches_state(first, last, positions, b, length, series_of, bounds, WIDTH)
    total = _filter(
        touches, weight, bias, x, x_step, mask, mask_step, state + old, channels, place, live, d,
        WIDTH,
    )  # fmt: skip
    if SILU:
        total = total / (1.0 + tl.exp(-total))
    total = tl.where(live[:, None], total, 0.0).to(out.dtype.element_ty)
    out += ((b * length + row) * channels)[:, None] + d[None, :]
    tl.store(out, total, valid[:, None] & (d < channels)[None, :])


@triton.jit
def causal_conv_backward(
    grad_out, x, weight, bias, state, mask, series_of, bounds,
    grad_x, grad_weight, grad_bias, grad_state,
    g_b, g_l, g_d, x_b, x_l, x_d, mask_b, mask_l, length, channels, positions,
    WIDTH: tl.constexpr, SILU: tl.constexpr, REVERSE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Store a tile's gradients of inputs and states, and its part of those of the filter."""
    # The last WIDTH - 1 rows of a tile lend their gradients to the rows before; the next tile,
    # which begins with them, is the one that counts and stores them.
    STEP: tl.constexpr = BLOCK_T - (WIDTH - 1)
    b, tile, d = _program(positions, channels, STEP, BLOCK_D)
    first = tile * STEP
    rank = tl.arange(0, BLOCK_T)
    place, row, valid, live, x, x_step, mask, mask_step, old = _locate(
        first, rank, positions, b, length, d, channels, series_of, bounds,
        x, x_b, x_l, x_d, mask, mask_b, mask_l, WIDTH, REVERSE,
    )  # fmt: skip
    inside = (d < channels)[None, :]
    grad_out += b * g_b + (row * g_l)[:, None] + (d.to(tl.int64) * g_d)[None, :]
    pulled = tl.load(grad_out, live[:, None] & inside, 0.0).to(state.dtype.element_ty)
    if SILU:
        last = first + BLOCK_T - 1
        touches = _touches_state(first, last, positions, b, length, series_of, bounds, WIDTH)
        total = _filter(
            touches, weight, bias, x, x_step, mask, mask_step, state + old, channels, place, live,
            d, WIDTH,
        )  # fmt: skip
        gate = 1.0 / (1.0 + tl.exp(-total))
        pulled *= gate * (1.0 + total * (1.0 - gate))
        pulled = tl.where(live[:, None], pulled, 0.0)
    own = (rank < STEP) & (first + rank < positions)
    kept = own & (place < 0) & (place >= 1 - WIDTH)
    part = b * tl.cdiv(positions, STEP) + tile
    if bias is not None:
        counted = tl.where(own[:, None], pulled, 0.0)
        tl.store(grad_bias + part * channels + d, tl.sum(counted, 0), d < channels)
    newest = old + (WIDTH - 1) * channels  # of a state's position: its own offset
    here = tl.load(x, (own & live)[:, None] & inside, 0.0).to(pulled.dtype)
    here = tl.load(state + newest, kept[:, None] & inside, here)
    total = tl.zeros_like(here)
    for j in tl.range(WIDTH, loop_unroll_factor=4):
        # Of each input, the output that it reaches through column j of the filter.
        later = tl.minimum(rank + (WIDTH - 1) - j, BLOCK_T - 1)[:, None]
        later = tl.gather(pulled, tl.broadcast_to(later, pulled.shape), 0)
        at = (part * WIDTH + j) * channels + d
        tl.store(grad_weight + at, tl.sum(here * later, 0), d < channels)
        total += tl.load(weight + d * WIDTH + j, d < channels, 0.0)[None, :] * later
    grad_x += ((b * length + row) * channels)[:, None] + d[None, :]
    shown = tl.where(live[:, None], total, 0.0).to(grad_x.dtype.element_ty)
    tl.store(grad_x, shown, (own & valid)[:, None] & inside)
    tl.store(grad_state + newest, total, kept[:, None] & inside)


def _packing(
    length: int, cu_seqlens: Tensor | None, state: Tensor
) -> tuple[int, Tensor | None, Tensor | None]:
    """Return the length of the padded axis, the series at each position, and their boundaries."""
    series, reach, _ = state.shape
    if cu_seqlens is None:
        return length + reach, None, None
    positions = length + series * reach
    bounds = cu_seqlens.clamp(0, length)
    ends = bounds[1:] + reach * torch.arange(1, series + 1, device=bounds.device)
    position = torch.arange(positions, device=bounds.device)
    series_of = torch.searchsorted(ends, position, right=True).clamp_(max=series - 1)
    return positions, series_of, bounds


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def forward_tile(x: Tensor, width: int, steps: int) -> _tiles.Tile:
    """Return the tile of the forward kernel for so many positions of each batch row."""
    block_d = min(_power_of_two(x.shape[2]), 64)
    rule = {"BLOCK_T": TILE // block_d, "BLOCK_D": block_d, "num_warps": 4}
    sizes = {"D": x.shape[2], "W": width, "dtype": x.dtype}
    chosen = _tiles.tile("causal_conv_forward", x.device, rule, sizes)
    return {**chosen, "BLOCK_T": min(chosen["BLOCK_T"], _power_of_two(steps))}


def backward_tile(x: Tensor, width: int, steps: int) -> _tiles.Tile:
    """Return the tile of the backward kernel, at most half of whose rows are lent."""
    block_t = max(64, _power_of_two(2 * (width - 1)))
    block_d = min(_power_of_two(x.shape[2]), max(TILE // block_t, 1))
    rule = {"BLOCK_T": block_t, "BLOCK_D": block_d, "num_warps": 4}
    sizes = {"D": x.shape[2], "W": width, "dtype": x.dtype}
    chosen = _tiles.tile("causal_conv_backward", x.device, rule, sizes)
    block_t = min(chosen["BLOCK_T"], _power_of_two(steps))
    return {**chosen, "BLOCK_T": max(block_t, _power_of_two(2 * (width - 1)))}


@torch.library.custom_op(
    "tsmamba::causal_conv_triton_fwd", mutates_args=(), device_types=("cpu", "cuda")
)
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
    batch, length, channels = x.shape
    width = weight.shape[1]
    bias = None if bias is None else bias.contiguous()
    positions, series_of, bounds = _packing(length, cu_seqlens, initial_state)
    steps = positions if cu_seqlens is not None else length
    tile = forward_tile(x, width, steps)
    programs = batch * triton.cdiv(steps, tile["BLOCK_T"]) * triton.cdiv(channels, tile["BLOCK_D"])
    out = x.new_empty(x.shape)
    if programs:
        with torch.cuda.device_of(x):
            causal_conv_forward[(programs,)](
                x, weight.contiguous(), bias, initial_state.contiguous(), mask, series_of, bounds,
                out, *x.stride(), *_strides(mask), length, channels, positions,
                WIDTH=width, SILU=silu, REVERSE=reverse, **tile,
            )  # fmt: skip
    return out


def _strides(mask: Tensor | None) -> tuple[int, ...]:
    return (0, 0) if mask is None else mask.stride()


@_forward.register_fake
def _(x: Tensor, *others: Any) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.custom_op(
    "tsmamba::causal_conv_triton_bwd", mutates_args=(), device_types=("cpu", "cuda")
)
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
    batch, length, channels = x.shape
    width = weight.shape[1]
    bias = None if bias is None else bias.contiguous()
    positions, series_of, bounds = _packing(length, cu_seqlens, initial_state)
    tile = backward_tile(x, width, positions)
    parts = batch * triton.cdiv(positions, tile["BLOCK_T"] - (width - 1))
    programs = parts * triton.cdiv(channels, tile["BLOCK_D"])
    grad_x, grad_state = x.new_empty(x.shape), initial_state.new_empty(initial_state.shape)
    grad_weight = weight.new_empty(parts, width, channels)
    grad_bias = weight.new_empty(parts if bias is not None else 0, channels)
    if programs:
        with torch.cuda.device_of(x):
            causal_conv_backward[(programs,)](
                grad_out, x, weight.contiguous(), bias, initial_state.contiguous(), mask,
                series_of, bounds, grad_x, grad_weight, grad_bias, grad_state,
                *grad_out.stride(), *x.stride(), *_strides(mask), length, channels, positions,
                WIDTH=width, SILU=silu, REVERSE=reverse, **tile,
            )  # fmt: skip
    return [
        grad_x,
        grad_weight.sum(0).t().contiguous(),
        weight.new_empty(0) if bias is None else grad_bias.sum(0),
        grad_state,
    ]


@_backward.register_fake
def _(grad_out: Tensor, x: Tensor, *inputs: Any) -> list[Tensor]:
    weight, bias, initial_state = inputs[:3]
    return [
        x.new_empty(x.shape),
        weight.new_empty(weight.shape),
        weight.new_empty(0 if bias is None else bias.shape),
        initial_state.new_empty(initial_state.shape),
    ]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.flags = inputs[6:]


def _autograd(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
    bias = ctx.saved_tensors[2]
    grads = _backward(grad_out, *ctx.saved_tensors, *ctx.flags)
    return grads[0], grads[1], None if bias is None else grads[2], grads[3], *[None] * 4


_forward.register_autograd(_autograd, setup_context=_setup_context)


def causal_conv1d_triton(
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
    """Return the filtered sequence, shape (B, L, D), in the type of ``x``."""
    out: Tensor = _forward(x, weight, bias, initial_state, mask, cu_seqlens, silu, reverse)
    return out
