"""Device kernels that run the selective scan forward, and those that join segments of it."""

import triton
import triton.language as tl

from tsmamba_kernels.selective_scan.gpu_common import (
    LOG2E,
    extent,
    is_seen,
    load_channels,
    load_optional,
    load_states,
    locate,
    step_size,
)


@triton.jit
def load_step(
    u, delta, B, C, z, mask, scale, batch, t, group, channel, inside, n, has_n, within,
    ACC: tl.constexpr,
):  # fmt: skip
    """Load all that one step reads; an absent gate is some tensor, an absent scale one."""
    seen = is_seen(mask, batch, t, within)
    here = inside & seen
    u_t = load_channels(u, batch, t, channel, here, ACC)
    delta_t = load_channels(delta, batch, t, channel, here, ACC)
    z_t = u_t if z is None else load_channels(z, batch, t, channel, here, ACC)
    scale_t = 1.0 if scale is None else load_channels(scale, batch, t, channel, here, ACC)
    B_t = load_states(B, batch, t, group, n, has_n & seen, ACC)
    C_t = load_states(C, batch, t, group, n, has_n & seen, ACC)
    return u_t, delta_t, B_t, C_t, z_t, scale_t, seen


@triton.jit(do_not_specialize=["group_size"])
def forward_kernel(
    u, delta, A, B, C, D, z, bias, mask, scale, cu_seqlens,
    entering,  # (S, SEGMENTS, N, D), or None for zeros
    out,  # (B, L, D)
    final_state,  # (S, N, D)
    chunk_states,  # (slots, groups, blocks, N, BLOCK_D): before every CHUNK-th step, or None
    length, groups, group_size,
    SOFTPLUS: tl.constexpr, DT_MIN: tl.constexpr, DT_MAX: tl.constexpr, REVERSE: tl.constexpr,
    SEGMENTS: tl.constexpr, CHUNK: tl.constexpr,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Run one segment of one series; the loads of a step are under way during the step before."""
    series, segment, group, block, channel, inside = locate(groups, group_size, SEGMENTS, BLOCK_D)
    batch, origin, slot, first, last = extent(
        cu_seqlens, series, segment, length, SEGMENTS, CHUNK, REVERSE
    )
    channels = groups * group_size
    n = tl.arange(0, BLOCK_N)[:, None]
    has_n = n < N
    stored = inside & has_n
    at = n * channels + channel  # in a state (N, D)
    in_tile = n * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    blocks = tl.cdiv(group_size, BLOCK_D)
    rates = tl.load(A + channel * N + n, stored, 0.0).to(ACC) * LOG2E
    skip = load_optional(D, channel, inside, ACC)
    shift = load_optional(bias, channel, inside, ACC)
    piece = (series * SEGMENTS + segment) * channels * N
    h = load_optional(entering, piece + at, stored, ACC)

    sign = -1 if REVERSE else 1
    ahead = load_step(
        u, delta, B, C, z, mask, scale, batch, origin + sign * first, group,
        channel, inside, n, has_n, first < last, ACC,
    )  # fmt: skip
    for i in range(first, last):
        u_t, delta_t, B_t, C_t, z_t, scale_t, seen = ahead
        ahead = load_step(
            u, delta, B, C, z, mask, scale, batch, origin + sign * (i + 1), group,
            channel, inside, n, has_n, i + 1 < last, ACC,
        )  # fmt: skip
        if chunk_states is not None:  # noqa: SIM102  only this much is known to the compiler
            if i % CHUNK == 0:
                saved = ((slot + i // CHUNK) * groups + group) * blocks + block
                tl.store(chunk_states + saved * (N * BLOCK_D) + in_tile, h, has_n)
        dt = step_size(delta_t, shift, scale_t, seen, SOFTPLUS, DT_MIN, DT_MAX, ACC)[0]
        h = tl.exp2(dt * rates) * h + (dt * u_t) * B_t
        y = tl.sum(h * C_t, 0, keep_dims=True) + skip * u_t
        if z is not None:
            y *= z_t * tl.sigmoid(z_t)
        if mask is not None:
            y = tl.where(seen, y, 0.0)
        row = (batch * length + origin + sign * i) * channels
        tl.store(out + row + channel, y.to(out.dtype.element_ty), inside)
    if segment == SEGMENTS - 1:
        tl.store(final_state + series * channels * N + at, h, stored)


@triton.jit(do_not_specialize=["group_size"])
def segment_kernel(
    x, delta, A, maps, z, bias, mask, scale, cu_seqlens,
    local,  # (S, SEGMENTS, N, D)
    elapsed,  # (S, SEGMENTS, D)
    length, groups, group_size,
    SOFTPLUS: tl.constexpr, DT_MIN: tl.constexpr, DT_MAX: tl.constexpr, REVERSE: tl.constexpr,
    SEGMENTS: tl.constexpr, CHUNK: tl.constexpr,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, ACC: tl.constexpr,
    ADJOINT: tl.constexpr,
):  # fmt: skip
    """Run a segment from zero: its last state, or with ADJOINT the gradient of its first one.

    ``x`` and ``maps`` are u and B, or the gradient of out and C. The sum of the step sizes tells
    how much of what enters the segment leaves it.
    """
    series, segment, group, _, channel, inside = locate(groups, group_size, SEGMENTS, BLOCK_D)
    batch, origin, _, first, last = extent(
        cu_seqlens, series, segment, length, SEGMENTS, CHUNK, REVERSE
    )
    channels = groups * group_size
    n = tl.arange(0, BLOCK_N)[:, None]
    has_n = n < N
    stored = inside & has_n
    rates = tl.load(A + channel * N + n, stored, 0.0).to(ACC) * LOG2E
    shift = load_optional(bias, channel, inside, ACC)
    state = tl.zeros([BLOCK_N, BLOCK_D], ACC)
    time = tl.zeros([1, BLOCK_D], ACC)
    sign = -1 if REVERSE else 1
    for j in range(last - first):
        t = origin + sign * (last - 1 - j if ADJOINT else first + j)
        seen = is_seen(mask, batch, t, True)
        here = inside & seen
        x_t = load_channels(x, batch, t, channel, here, ACC)
        map_t = load_states(maps, batch, t, group, n, has_n & seen, ACC)
        delta_t = load_channels(delta, batch, t, channel, here, ACC)
        scale_t = 1.0 if scale is None else load_channels(scale, batch, t, channel, here, ACC)
        dt = step_size(delta_t, shift, scale_t, seen, SOFTPLUS, DT_MIN, DT_MAX, ACC)[0]
        decay = tl.exp2(dt * rates)
        if ADJOINT:
            if z is not None:
                z_t = load_channels(z, batch, t, channel, here, ACC)
                x_t *= z_t * tl.sigmoid(z_t)
            state = decay * (state + x_t * map_t)
        else:
            state = decay * state + (dt * x_t) * map_t
        time += dt
    piece = series * SEGMENTS + segment
    tl.store(local + piece * channels * N + n * channels + channel, state, stored)
    tl.store(elapsed + piece * channels + channel, time, inside)


@triton.jit(do_not_specialize=["group_size"])
def join_kernel(
    local, elapsed, A,
    outer,  # (S, N, D): the initial state, or the gradient of the final one; None for zeros
    entering,  # (S, SEGMENTS, N, D)
    groups, group_size,
    SEGMENTS: tl.constexpr,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, ACC: tl.constexpr,
    ADJOINT: tl.constexpr,
):  # fmt: skip
    """Carry a state from segment to segment: what enters each, given what each does from zero."""
    series, _, _, _, channel, inside = locate(groups, group_size, 1, BLOCK_D)
    channels = groups * group_size
    n = tl.arange(0, BLOCK_N)[:, None]
    stored = inside & (n < N)
    at = n * channels + channel
    rates = tl.load(A + channel * N + n, stored, 0.0).to(ACC) * LOG2E
    state = load_optional(outer, series * channels * N + at, stored, ACC)
    for j in range(SEGMENTS):
        piece = series * SEGMENTS + (SEGMENTS - 1 - j if ADJOINT else j)
        tl.store(entering + piece * channels * N + at, state, stored)
        time = tl.load(elapsed + piece * channels + channel, inside, 0.0)
        state = tl.exp2(time * rates) * state + tl.load(
            local + piece * channels * N + at, stored, 0.0
        )
