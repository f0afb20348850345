"""Device kernel of the selective scan's backward pass."""

import triton
import triton.language as tl

from tsmamba_kernels.selective_scan.gpu_common import (
    LN2,
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
def sum_channels(x):
    """Sum a tile over its channels, a pair of halves at a time.

    Each pair has to lie in one thread, for which the compiler transposes the tile once through
    shared memory. A plain sum would exchange every state between all threads of a warp.
    """
    N: tl.constexpr = x.shape[0]
    for _ in tl.static_range(8):
        if x.shape[1] > 1:
            left, right = tl.split(x.reshape(N, x.shape[1] // 2, 2))
            x = left + right
    return x


@triton.jit
def state_inputs(
    u, delta, B, mask, scale, batch, t, within, group, channel, inside, n, has_n, shift,
    SOFTPLUS: tl.constexpr, DT_MIN: tl.constexpr, DT_MAX: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Load what the state of one step is made of: whether it is seen, u, B and step sizes."""
    seen = is_seen(mask, batch, t, within)
    here = inside & seen
    u_t = load_channels(u, batch, t, channel, here, ACC)
    delta_t = load_channels(delta, batch, t, channel, here, ACC)
    scale_t = 1.0 if scale is None else load_channels(scale, batch, t, channel, here, ACC)
    B_t = load_states(B, batch, t, group, n, has_n & seen, ACC)
    dt, unscaled, slope = step_size(delta_t, shift, scale_t, seen, SOFTPLUS, DT_MIN, DT_MAX, ACC)
    return seen, u_t, B_t, dt, unscaled, slope


# What is loaded as a whole tile decides how tiles are spread over threads. A compiler that does not
# know of any alignment gives each thread whole columns of a tile, which makes sums over N cheap.
@triton.jit(
    do_not_specialize=["group_size"],
    do_not_specialize_on_alignment=["chunk_states", "run_states"],
)
def backward_kernel(
    grad_out, u, delta, A, B, C, D, z, bias, mask, scale, cu_seqlens,
    entering,  # (S, SEGMENTS, N, D): the gradient of each segment's last state, or None for zeros
    chunk_states,  # (slots, groups, blocks, N, BLOCK_D)
    run_states,  # (programs, CHUNK / UNROLL, BLOCK_N, BLOCK_D): scratch
    grad_u, grad_delta, grad_z, grad_scale,  # (B, L, D)
    grad_B, grad_C,  # (blocks, B, L, G, N)
    grad_A,  # (S, SEGMENTS, D, N)
    grad_D, grad_bias,  # (S, SEGMENTS, D)
    grad_initial,  # (S, D, N)
    batches, length, groups, group_size,
    SOFTPLUS: tl.constexpr, DT_MIN: tl.constexpr, DT_MAX: tl.constexpr, REVERSE: tl.constexpr,
    SEGMENTS: tl.constexpr, CHUNK: tl.constexpr, UNROLL: tl.constexpr,
    N: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Walk the chunks of a segment from last to first, each in runs of UNROLL steps.

    Once through the chunk, to keep the state before each run in scratch; then through the runs from
    last to first, each step starting from there. Rows and places in scratch are taken as a minimum
    that changes nothing for what is used: of a plain function of the loop counters the compiler
    would keep every address in registers.
    """
    series, segment, group, block, channel, inside = locate(groups, group_size, SEGMENTS, BLOCK_D)
    batch, origin, slot, first, last = extent(
        cu_seqlens, series, segment, length, SEGMENTS, CHUNK, REVERSE
    )
    channels = groups * group_size
    n = tl.arange(0, BLOCK_N)[:, None]
    has_n = n < N
    stored = inside & has_n
    piece = series * SEGMENTS + segment
    at = channel * N + n  # in a state (D, N)
    rates = tl.load(A + at, stored, 0.0).to(ACC) * LOG2E
    skip = load_optional(D, channel, inside, ACC)
    shift = load_optional(bias, channel, inside, ACC)
    e = load_optional(entering, piece * channels * N + n * channels + channel, stored, ACC)
    in_tile = n * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    TILE: tl.constexpr = BLOCK_N * BLOCK_D
    scratch = run_states + tl.program_id(0).to(tl.int64) * (CHUNK // UNROLL * TILE)
    blocks = tl.cdiv(group_size, BLOCK_D)
    sum_A = tl.zeros([BLOCK_N, BLOCK_D], ACC)
    sum_D = tl.zeros([1, BLOCK_D], ACC)
    sum_bias = tl.zeros([1, BLOCK_D], ACC)
    sign = -1 if REVERSE else 1
    chunks = tl.cdiv(last - first, CHUNK)
    for c in range(chunks):
        start = first + (chunks - 1 - c) * CHUNK
        runs = tl.cdiv(tl.minimum(CHUNK, last - start), UNROLL)
        saved = ((slot + start // CHUNK) * groups + group) * blocks + block
        h_run = tl.load(chunk_states + saved * (N * BLOCK_D) + in_tile, has_n, 0.0)
        tl.debug_barrier()  # scratch has been read
        for r in range(runs):
            tl.store(scratch + tl.minimum(r, CHUNK // UNROLL) * TILE + in_tile, h_run)
            for k in tl.static_range(UNROLL):
                i = start + r * UNROLL + k
                _, u_t, B_t, dt, _, _ = state_inputs(
                    u, delta, B, mask, scale, batch,
                    origin + sign * tl.minimum(i, last - 1), i < last,
                    group, channel, inside, n, has_n, shift, SOFTPLUS, DT_MIN, DT_MAX, ACC,
                )  # fmt: skip
                h_run = tl.exp2(dt * rates) * h_run + (dt * u_t) * B_t
        tl.debug_barrier()  # scratch has been written
        for r in range(runs):
            i_run = start + (runs - 1 - r) * UNROLL
            for k in tl.static_range(UNROLL - 1, -1, -1):
                # From scratch again for each step of the run: there is no register to keep it in.
                h = tl.load(scratch + tl.minimum(runs - 1 - r, CHUNK // UNROLL) * TILE + in_tile)
                for j in tl.static_range(k):
                    _, u_t, B_t, dt, _, _ = state_inputs(
                        u, delta, B, mask, scale, batch,
                        origin + sign * tl.minimum(i_run + j, last - 1), i_run + j < last,
                        group, channel, inside, n, has_n, shift, SOFTPLUS, DT_MIN, DT_MAX, ACC,
                    )  # fmt: skip
                    h = tl.exp2(dt * rates) * h + (dt * u_t) * B_t
                t = origin + sign * tl.minimum(i_run + k, last - 1)
                within = i_run + k < last
                seen, u_t, B_t, dt, unscaled, slope = state_inputs(
                    u, delta, B, mask, scale, batch, t, within,
                    group, channel, inside, n, has_n, shift, SOFTPLUS, DT_MIN, DT_MAX, ACC,
                )  # fmt: skip
                here = inside & seen
                decay = tl.exp2(dt * rates)
                h_t = decay * h + (dt * u_t) * B_t
                C_t = load_states(C, batch, t, group, n, has_n & seen, ACC)
                q = load_channels(grad_out, batch, t, channel, here, ACC)
                row = batch * length + t
                at_row = row * channels + channel
                if z is not None:
                    z_t = load_channels(z, batch, t, channel, here, ACC)
                    gate = tl.sigmoid(z_t)
                    y = tl.sum(h_t * C_t, 0, keep_dims=True) + skip * u_t
                    grad = q * y * gate * (1.0 + z_t * (1.0 - gate))
                    if mask is not None:
                        grad = tl.where(seen, grad, 0.0)
                    tl.store(grad_z + at_row, grad.to(grad_z.dtype.element_ty), inside & within)
                    q *= z_t * gate
                part = ((block * batches * length + row) * groups + group) * N + n
                tl.store(grad_C + part, sum_channels(q * h_t), has_n & within)
                g = e + q * C_t
                tl.store(grad_B + part, sum_channels(g * (dt * u_t)), has_n & within)
                # Loaded anew, as with so many tiles in registers there is none left to keep it in.
                B_t = load_states(B, batch, t, group, n, has_n & seen, ACC)
                pull = tl.sum(g * B_t, 0, keep_dims=True)
                e = decay * g
                decayed = e * h
                grad = dt * pull + skip * q
                tl.store(grad_u + at_row, grad.to(grad_u.dtype.element_ty), inside & within)
                grad_dt = u_t * pull + tl.sum(decayed * rates, 0, keep_dims=True) * LN2
                grad = (grad_dt * slope).to(grad_delta.dtype.element_ty)
                tl.store(grad_delta + at_row, grad, inside & within)
                if scale is not None:
                    tl.store(grad_scale + at_row, grad_dt * unscaled, inside & within)
                sum_A += dt * decayed
                sum_D += q * u_t
                sum_bias += grad_dt * slope
    tl.store(grad_A + piece * channels * N + at, sum_A, stored)
    tl.store(grad_D + piece * channels + channel, sum_D, inside)
    tl.store(grad_bias + piece * channels + channel, sum_bias, inside)
    if segment == 0:
        tl.store(grad_initial + series * channels * N + at, e, stored)
