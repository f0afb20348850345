"""What the device kernels of the selective scan share: where a program works, and step sizes.

A program runs one piece of one series for a block of channels that share B and C. Its tile is
[ROWS, N, BLOCK_D]: lanes of a warp lie along the last axis first, then along N, so a thread keeps
several channels and states, and most of a sum over either needs no exchange between threads.
Absent operands are None, which the compiler sees: their code is not generated.
"""

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# 355/512, of which every product with a whole number below 2^15 is exact, and what it leaves out.
LN2_HIGH = tl.constexpr(0.693359375)
LN2_LOW = tl.constexpr(-2.121944400546905827679e-4)


class View(NamedTuple):
    """A (B, L, ...) operand with its strides in elements; ``inner`` is that of the third axis."""

    data: Tensor
    batch: int
    time: int
    inner: int


@triton.jit
def locate(groups, group_size, SEGMENTS: tl.constexpr, BLOCK_D: tl.constexpr):
    """Return this program's series, segment, group, block in the group, channels, and their mask.

    The blocks of one piece are neighbours, so that they find its B and C in the cache.
    """
    blocks = tl.cdiv(group_size, BLOCK_D)
    program = tl.program_id(0).to(tl.int64)
    tile = program % (groups * blocks)
    piece = program // (groups * blocks)
    group = tile // blocks
    block = tile % blocks
    in_group = block * BLOCK_D + tl.arange(0, BLOCK_D)[None, :].to(tl.int64)
    channel = group * group_size + in_group
    return piece // SEGMENTS, piece % SEGMENTS, group, block, channel, in_group < group_size


@triton.jit
def extent(
    cu_seqlens,
    series,
    segment,
    length,
    SEGMENTS: tl.constexpr,
    CHUNK: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Return where a segment lies: batch row, first row in time, chunk slot, first and last step.

    Step i of a series stands in row ``origin + i``, or ``origin - i`` in reverse. Segments start at
    multiples of CHUNK, so a chunk is the same whatever their number. Boundaries are clamped: wrong
    ones cost the result, but no memory outside the operands is touched.
    """
    if cu_seqlens is None:
        batch, start, stop = series, series * 0, series * 0 + length
        slot = series * tl.cdiv(length, CHUNK)
    else:
        batch = series * 0
        start = tl.load(cu_seqlens + series).to(tl.int64)
        stop = tl.load(cu_seqlens + series + 1).to(tl.int64)
        start = tl.minimum(tl.maximum(start, 0), length)
        stop = tl.minimum(tl.maximum(stop, start), length)
        # Slots of a series begin where those of the series before it end, or one later.
        slot = start // CHUNK + series
    steps = (stop - start).to(tl.int32)
    share = tl.cdiv(tl.cdiv(steps, CHUNK), SEGMENTS) * CHUNK
    first = tl.minimum(segment.to(tl.int32) * share, steps)
    last = tl.minimum(first + share, steps)
    origin = stop - 1 if REVERSE else start
    return batch, origin, slot, first, last


@triton.jit
def is_seen(mask, batch, t, within):
    """Tell whether row t is within the segment and not missing."""
    if mask is None:
        return within
    else:
        return tl.load(mask.data + batch * mask.batch + t * mask.time, within, 0) != 0


@triton.jit
def load_channels(x, batch, t, channel, seen, ACC: tl.constexpr):
    """Load row t of a (B, L, D) operand; what is missing counts as zero."""
    at = x.data + batch * x.batch + t * x.time + channel * x.inner
    return tl.load(at, seen, 0.0).to(ACC)


@triton.jit
def load_states(x, batch, t, group, n, seen, ACC: tl.constexpr):
    """Load row t of a (B, L, G, N) operand; what is missing counts as zero."""
    at = x.data + batch * x.batch + t * x.time + group * x.inner + n
    return tl.load(at, seen, 0.0).to(ACC)


@triton.jit
def load_optional(x, at, inside, ACC: tl.constexpr):
    """Load what belongs to channels or states; zeros where the operand is absent."""
    if x is None:
        return tl.zeros(inside.shape, ACC)
    else:
        return tl.load(x + at, inside, 0.0).to(ACC)


@triton.jit
def exp_of_negative(x):
    """Return exp(x) for x <= 0 as 2^n exp(r), so that the error does not grow with x."""
    x = tl.where(x < -1000.0, -1000.0, x)  # where it is zero, and for -inf
    n = tl.floor(x * LOG2E)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    return tl.exp2(n) * tl.exp2(r * LOG2E)


@triton.jit
def log1p_of_fraction(x, ACC: tl.constexpr):
    """Return log(1 + x) for 0 <= x <= 1 as 2 artanh(x / (2 + x)), whose series converges fast."""
    s = x / (2.0 + x)
    square = s * s
    TERMS: tl.constexpr = 17 if ACC == tl.float64 else 8
    total = tl.zeros(x.shape, ACC)
    for k in tl.static_range(TERMS - 1, -1, -1):
        total = total * square + 1.0 / (2 * k + 1)
    return 2.0 * s * total


@triton.jit
def step_size(
    delta,
    bias,
    scale,
    seen,
    SOFTPLUS: tl.constexpr,
    DT_MIN: tl.constexpr,
    DT_MAX: tl.constexpr,
    ACC: tl.constexpr,
):
    """Return the step size, the same before scaling, and its derivative in delta.

    All three are zero where a step is missing: the state stays, and no gradient passes.
    """
    x = delta + bias
    if SOFTPLUS:
        e = exp_of_negative(-tl.abs(x))
        dt = tl.where(x < 0.0, 0.0, x) + log1p_of_fraction(e, ACC)
        slope = tl.where(x < 0.0, e, 1.0) / (1.0 + e)
    else:
        dt = x
        slope = tl.full(x.shape, 1.0, ACC)
    # Comparisons, not minimum and maximum: NaN has to show.
    slope = tl.where((dt < DT_MIN) | (dt > DT_MAX), 0.0, slope)
    dt = tl.where(dt < DT_MIN, DT_MIN, dt)
    dt = tl.where(dt > DT_MAX, DT_MAX, dt)
    dt = tl.where(seen, dt, 0.0)
    slope = tl.where(seen, slope, 0.0)
    return dt * scale, dt, slope * scale
