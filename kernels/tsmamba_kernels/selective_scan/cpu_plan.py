"""How the CPU kernel cuts a scan into pieces of work."""

from itertools import pairwise

import torch
from torch import Tensor

from tsmamba_kernels._shapes import check_boundaries

# Steps between two saved states, and of a tile, whose vectors should stay in first-level cache.
CHUNK = 64


def parts_per_group(groups: int, channels: int) -> int:
    """Return in how many parts the channels of a group can be cut: none below 8, a vector."""
    return max(1, channels // groups // 8)


def splits(batch: int, groups: int, channels: int, threads: int) -> int:
    """Return in how many parts to cut the channels of a group so that all threads have work."""
    tasks = batch * groups
    if tasks % threads == 0 or tasks >= 4 * threads:
        return 1
    return min(threads, parts_per_group(groups, channels))


def segments(batch: int, groups: int, channels: int, length: int, threads: int) -> int:
    """Return in how many segments to cut the time of every batch row.

    They are for threads that outnumber the parts of all rows. The states before the segments take a
    pass of their own, so there must be three threads a part to gain anything.
    """
    parts = batch * groups * parts_per_group(groups, channels)
    if parts == 0 or threads < 3 * parts:
        return 1
    return max(1, min(-(-2 * threads // parts), length // (4 * CHUNK)))


def saved_states(batch: int, length: int, cu_seqlens: Tensor | None) -> int:
    """Return how many states to save; of packed series the most that their lengths may need."""
    if cu_seqlens is None:
        return batch * -(-length // CHUNK)
    return length // CHUNK + cu_seqlens.shape[0] - 1


def packed(op: str, cu_seqlens: Tensor, length: int, reverse: bool) -> Tensor:
    """Describe packed series as rows of ``tsm_series``."""
    bounds = check_boundaries(op, cu_seqlens, length)
    return torch.tensor(
        [
            (0, length - end if reverse else start, end - start, start // CHUNK + i)
            for i, (start, end) in enumerate(pairwise(bounds))
        ]
    )


def cut(batch: int, length: int, count: int) -> Tensor:
    """Describe batch rows in segments of whole chunks: rows of ``tsm_series``, (B, segments, 4)."""
    chunks = -(-length // CHUNK)
    size = -(-chunks // count)
    return torch.tensor(
        [
            [
                (b, i * CHUNK, min(size * CHUNK, length - i * CHUNK), b * chunks + i)
                for i in range(0, chunks, size)
            ]
            for b in range(batch)
        ]
    )


def chain(first: Tensor | None, own: Tensor, total_dt: Tensor, a_t: Tensor) -> Tensor:
    """Return the states before each segment and after the last, (B, segments + 1, N, D).

    Parameters
    ----------
    first : Tensor of shape (B, N, D), optional
        The state before the first segment.
    own : Tensor of shape (B, segments, N, D)
        What each segment makes of no state.
    total_dt : Tensor of shape (B, segments, D)
        How far each decays a state.
    a_t : Tensor of shape (N, D)
        Rates of decay.
    """
    decay = torch.exp(total_dt.unsqueeze(2) * a_t)
    state = torch.zeros_like(own[:, 0]) if first is None else first
    states = [state]
    for i in range(own.shape[1]):
        state = decay[:, i] * state + own[:, i]
        states.append(state)
    return torch.stack(states, dim=1)
