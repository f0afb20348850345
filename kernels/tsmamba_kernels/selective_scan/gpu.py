"""The selective scan on Triton kernels, as torch custom ops with a backward pass.

Operands are read in their own type and with their own strides; sums and states are float32, or
float64 where u is. No call waits for the device, so what only the values tell is not checked: an A
above zero makes the state grow, and boundaries that do not cut L into pieces give wrong numbers.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tsmamba_kernels import _tiles
from tsmamba_kernels._shapes import compute_dtype
from tsmamba_kernels.errors import KernelError
from tsmamba_kernels.selective_scan.gpu_backward import backward_kernel
from tsmamba_kernels.selective_scan.gpu_common import View
from tsmamba_kernels.selective_scan.gpu_forward import forward_kernel, join_kernel, segment_kernel

# Steps between two states that a forward pass saves, and between two that a backward program takes
# to registers from scratch.
CHUNK, UNROLL = 64, 2
# A shorter segment is not worth the second pass that it costs.
SHORTEST_SEGMENT = 256
# Programs, of one warp each, that keep a multiprocessor busy, and how few leave it idle.
PROGRAMS_WANTED, PROGRAMS_FEW = 8, 2


def _tile(x: Tensor, states: int) -> dict[str, int]:
    """Return the tile of a program, one for both passes, which share the saved states' blocks.

    By rule there are as many channels as leave the states of a run in registers, and a thread has
    up to 16 states of one channel.
    """
    block_n = triton.next_power_of_2(max(states, 1))
    rule = {"BLOCK_D": 32 if states <= 16 else 16, "num_warps": max(1, block_n // 16)}
    sizes = {"N": states, "dtype": x.dtype}
    return {"BLOCK_N": block_n, **_tiles.tile("selective_scan", x.device, rule, sizes)}


def _view(x: Tensor | None) -> View | None:
    """Describe a (B, L), (B, L, D) or (B, L, G, N) operand; the last has contiguous states."""
    if x is None:
        return None
    if x.dim() == 4 and x.stride(3) != 1:
        x = x.contiguous()
    batch, time, inner = (*x.stride(), 0)[:3]
    return View(x, batch, time, inner)


def _states_first(state: Tensor | None) -> Tensor | None:
    """Return states (S, D, N) as (S, N, D), which is how they travel inside."""
    return None if state is None else state.transpose(1, 2).contiguous()


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _series(u: Tensor, cu_seqlens: Tensor | None) -> int:
    return u.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


def _slots(u: Tensor, cu_seqlens: Tensor | None) -> int:
    """Return how many saved states there is room for: one every CHUNK steps of each series."""
    batch, length = u.shape[:2]
    if cu_seqlens is None:
        return batch * -(-length // CHUNK)
    return length // CHUNK + cu_seqlens.shape[0] - 1


def _room_for_states(u: Tensor, B: Tensor, cu_seqlens: Tensor | None, save: bool) -> Tensor:
    """Return memory for the saved states, blocked as the backward kernel reads them."""
    groups, states = B.shape[2:]
    block_d = _tile(u, states)["BLOCK_D"]
    blocks = -(-u.shape[2] // groups // block_d)
    slots = _slots(u, cu_seqlens) if save else 0
    return u.new_empty(slots, groups, blocks, states, block_d, dtype=compute_dtype(u))


def _segments(u: Tensor, series: int, blocks: int) -> int:
    """Return into how many segments to cut each series, so that the device has work for all."""
    programs = series * blocks
    if u.device.type == "cpu" or programs == 0:
        return 1
    processors = torch.cuda.get_device_properties(u.device).multi_processor_count
    if programs >= PROGRAMS_FEW * processors:
        return 1
    mean_length = u.shape[0] * u.shape[1] // series
    wanted = PROGRAMS_WANTED * processors // programs
    return max(1, min(wanted, mean_length // SHORTEST_SEGMENT))


def _arguments(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    delta_bias: Tensor | None,
    mask: Tensor | None,
    delta_scale: Tensor | None,
    cu_seqlens: Tensor | None,
    softplus: bool,
    dt_min: float,
    dt_max: float,
    reverse: bool,
) -> dict[str, Any]:
    """Return the arguments that all kernels have which walk over time."""
    groups, states = B.shape[2:]
    return {
        "delta": _view(delta),
        "A": A.contiguous(),
        "bias": _contiguous(delta_bias),
        "mask": _view(mask),
        "scale": _view(delta_scale),
        "cu_seqlens": _contiguous(cu_seqlens),
        "length": u.shape[1],
        "groups": groups,
        "group_size": u.shape[2] // groups,
        "N": states,
        "SOFTPLUS": softplus,
        "DT_MIN": dt_min,
        "DT_MAX": dt_max,
        "REVERSE": reverse,
        "CHUNK": CHUNK,
        "ACC": tl.float64 if u.dtype == torch.float64 else tl.float32,
    }


def _entering(
    x: Tensor,
    maps: Tensor,
    z: Tensor | None,
    outer: Tensor | None,
    arguments: dict[str, Any],
    series: int,
    segments: int,
    adjoint: bool,
) -> Tensor | None:
    """Return what enters each segment, (S, segments, N, D), given what enters the whole series."""
    if segments == 1:
        return outer
    groups, group_size, states = (arguments[key] for key in ("groups", "group_size", "N"))
    tile = _tile(x, states)
    grid = series * groups * triton.cdiv(group_size, tile["BLOCK_D"])
    dtype = arguments["A"].dtype
    local = x.new_empty(series, segments, states, groups * group_size, dtype=dtype)
    elapsed = x.new_empty(series, segments, groups * group_size, dtype=dtype)
    segment_kernel[(grid * segments,)](
        _view(x), maps=_view(maps), z=_view(z), local=local, elapsed=elapsed,
        SEGMENTS=segments, ADJOINT=adjoint, **arguments, **tile,
    )  # fmt: skip
    entering = torch.empty_like(local)
    join_kernel[(grid,)](
        local, elapsed, arguments["A"], outer, entering, groups, group_size,
        N=states, SEGMENTS=segments, ACC=arguments["ACC"], ADJOINT=adjoint, **tile,
    )  # fmt: skip
    return entering


@torch.library.custom_op(
    "tsmamba::selective_scan_triton_fwd", mutates_args=(), device_types=("cpu", "cuda")
)
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
    segments: int,
    save_states: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, the final state and the states that a backward pass starts from.

    ``segments`` is the number of pieces that each series is cut into, or zero to choose it.
    """
    out = torch.empty(u.shape, dtype=u.dtype, device=u.device)
    groups, states = B.shape[2:]
    series, group_size = _series(u, cu_seqlens), u.shape[2] // groups
    final_state = u.new_empty(series, states, u.shape[2], dtype=compute_dtype(u))
    chunk_states = _room_for_states(u, B, cu_seqlens, save_states)
    tile = _tile(u, states)
    programs = series * groups * triton.cdiv(group_size, tile["BLOCK_D"])
    segments = segments or _segments(u, series, programs // max(series, 1))
    arguments = _arguments(
        u, delta, A, B, delta_bias, mask, delta_scale, cu_seqlens,
        softplus, dt_min, dt_max, reverse,
    )  # fmt: skip
    with torch.cuda.device_of(u):
        entering = _entering(
            u, B, None, _states_first(initial_state), arguments, series, segments, False
        )
        forward_kernel[(programs * segments,)](
            _view(u), B=_view(B), C=_view(C), D=_contiguous(D), z=_view(z), entering=entering,
            out=out, final_state=final_state, chunk_states=chunk_states if save_states else None,
            SEGMENTS=segments, **arguments, **tile,
        )  # fmt: skip
    return out, final_state.transpose(1, 2), chunk_states


@_forward.register_fake
def _(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    cu_seqlens, save_states = others[7], others[-1]
    return (
        torch.empty(u.shape, dtype=u.dtype, device=u.device),
        u.new_empty(_series(u, cu_seqlens), *A.t().shape, dtype=compute_dtype(u)).transpose(1, 2),
        _room_for_states(u, B, cu_seqlens, save_states),
    )


def _room_for_gradients(
    u: Tensor,
    delta: Tensor,
    B: Tensor,
    z: Tensor | None,
    delta_scale: Tensor | None,
    series: int,
    segments: int,
    blocks: int,
) -> dict[str, Tensor]:
    """Return memory for what the backward kernel writes, parts that are yet to be summed."""
    channels, states = u.shape[2], B.shape[3]

    def empty(*shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return u.new_empty(shape, dtype=dtype or compute_dtype(u))

    return {
        "grad_u": empty(*u.shape, dtype=u.dtype),
        "grad_delta": empty(*u.shape, dtype=delta.dtype),
        "grad_z": empty(0) if z is None else empty(*u.shape, dtype=z.dtype),
        "grad_scale": empty(0) if delta_scale is None else empty(*u.shape),
        "grad_B": empty(blocks, *B.shape),
        "grad_C": empty(blocks, *B.shape),
        "grad_A": empty(series, segments, channels, states),
        "grad_D": empty(series, segments, channels),
        "grad_bias": empty(series, segments, channels),
        "grad_initial": empty(series, channels, states),
    }


def _summed(
    grads: dict[str, Tensor],
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    delta_bias: Tensor | None,
    initial_state: Tensor | None,
    delta_scale: Tensor | None,
) -> list[Tensor]:
    """Add up the parts, and return the gradients in the order of the operands."""
    grad_scale, grad_initial = grads["grad_scale"], grads["grad_initial"]
    if delta_scale is not None:
        grad_scale = grad_scale if delta_scale.dim() == 3 else grad_scale.sum(-1)
        grad_scale = grad_scale.to(delta_scale.dtype)
    return [
        grads["grad_u"],
        grads["grad_delta"],
        grads["grad_A"].sum((0, 1)),
        grads["grad_B"].sum(0).to(B.dtype),
        grads["grad_C"].sum(0).to(C.dtype),
        grad_initial.new_empty(0) if D is None else grads["grad_D"].sum((0, 1)),
        grads["grad_z"],
        grad_initial.new_empty(0) if delta_bias is None else grads["grad_bias"].sum((0, 1)),
        grad_initial.new_empty(0) if initial_state is None else grad_initial,
        grad_scale,
    ]


@torch.library.custom_op(
    "tsmamba::selective_scan_triton_bwd", mutates_args=(), device_types=("cpu", "cuda")
)
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
    segments: int,
) -> list[Tensor]:
    """Return the gradients of u, delta, A, B, C, D, z, delta_bias, initial_state, delta_scale.

    The gradient of an absent operand is an empty tensor.
    """
    if chunk_states.shape[0] != _slots(u, cu_seqlens):
        raise KernelError("no states were saved for a backward pass; call with save_states=True")
    arguments = _arguments(
        u, delta, A, B, delta_bias, mask, delta_scale, cu_seqlens,
        softplus, dt_min, dt_max, reverse,
    )  # fmt: skip
    tile, series = _tile(u, arguments["N"]), _series(u, cu_seqlens)
    blocks = triton.cdiv(arguments["group_size"], tile["BLOCK_D"])
    segments = segments or _segments(u, series, arguments["groups"] * blocks)
    programs = series * segments * arguments["groups"] * blocks
    run_states = chunk_states.new_empty(programs, CHUNK // UNROLL, tile["BLOCK_N"], tile["BLOCK_D"])
    grads = _room_for_gradients(u, delta, B, z, delta_scale, series, segments, blocks)
    with torch.cuda.device_of(u):
        entering = _entering(
            grad_out, C, z, _states_first(grad_final_state), arguments, series, segments, True
        )
        backward_kernel[(programs,)](
            _view(grad_out), _view(u), B=_view(B), C=_view(C), D=_contiguous(D), z=_view(z),
            entering=entering, chunk_states=chunk_states, run_states=run_states,
            batches=u.shape[0], SEGMENTS=segments, UNROLL=UNROLL, **grads, **arguments, **tile,
        )  # fmt: skip
    return _summed(grads, B, C, D, delta_bias, initial_state, delta_scale)


# The operands of `_backward`'s result, as positions among the inputs of `_forward`.
_DIFFERENTIABLE = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)
_TENSORS = 12


@_backward.register_fake
def _(
    grad_out: Tensor, grad_final_state: Tensor, chunk_states: Tensor, *inputs: Any
) -> list[Tensor]:
    grads = []
    for position in _DIFFERENTIABLE:
        x, like = inputs[position], inputs[0]
        empty = like.new_empty(0, dtype=compute_dtype(like))
        grads.append(empty if x is None else torch.empty(x.shape, dtype=x.dtype, device=x.device))
    return grads


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.flags = inputs[_TENSORS:-1]
    ctx.save_for_backward(output[2], *inputs[:_TENSORS])
    ctx.set_materialize_grads(False)


def _autograd(
    ctx: Any, grad_out: Tensor | None, grad_state: Tensor | None, _: Tensor | None
) -> tuple[Any, ...]:
    chunk_states, *tensors = ctx.saved_tensors
    u, A, cu_seqlens = tensors[0], tensors[2], tensors[11]
    if grad_out is None:
        grad_out = torch.zeros_like(u)
    if grad_state is None:
        grad_state = u.new_zeros(_series(u, cu_seqlens), *A.shape, dtype=compute_dtype(u))
    grads = _backward(grad_out, grad_state, chunk_states, *tensors, *ctx.flags)
    result: list[Tensor | None] = [None] * (_TENSORS + len(ctx.flags) + 1)
    for position, grad in zip(_DIFFERENTIABLE, grads, strict=True):
        result[position] = grad if tensors[position] is not None else None
    return tuple(result)


_forward.register_autograd(_autograd, setup_context=_setup_context)


def selective_scan_triton(
    *tensors: Any, flags: tuple[bool, float, float, bool, bool], segments: int = 0
) -> tuple[Tensor, Tensor]:
    """Run the kernels; saves states for a backward pass only where a gradient is wanted.

    ``segments`` cuts each series into so many pieces that run side by side; zero chooses. That A is
    tied, the last flag, makes no difference here.
    """
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    out, final_state, _ = _forward(*tensors, *flags[:-1], segments, wanted)
    return out, final_state
