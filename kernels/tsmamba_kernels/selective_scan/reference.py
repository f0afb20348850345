"""The selective scan in plain PyTorch: the definition that every other backend is tested against.

==============  =========  ====================================================
code            paper      meaning
==============  =========  ====================================================
``dt``          Δ          step size of each channel and time, > 0
``A``           A          decay rates, <= 0
``B``, ``C``    B, C       how the input enters and how the state is read
``h``           h          hidden state
==============  =========  ====================================================

Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023, algorithm 2.
As in its official code, and unlike its equation 4, B is discretised by Euler's rule: ``dt * B``.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba_kernels._shapes import POSITIVE_A, check_boundaries
from tsmamba_kernels.errors import ShapeError


def step_size(
    delta: Tensor,  # (B, L, D)
    delta_bias: Tensor | None,  # (D,)
    delta_softplus: bool,
    dt_limit: tuple[float, float],
    delta_scale: Tensor | None,  # (B, L) or (B, L, D)
) -> Tensor:
    """Return the step sizes dt, shape (B, L, D)."""
    if delta_bias is not None:
        delta = delta + delta_bias
    if delta_softplus:
        # Not F.softplus, which is the identity above 20, nor log(1 + exp(x)), which loses small dt.
        delta = torch.logaddexp(delta, torch.zeros_like(delta))
    dt = delta.clamp(*dt_limit)
    if delta_scale is not None:
        dt = dt * (delta_scale if delta_scale.dim() == dt.dim() else delta_scale.unsqueeze(-1))
    return dt


def _without_missing(x: Tensor, mask: Tensor) -> Tensor:
    """Return ``x`` with zeros at missing steps: what stands there may be NaN, its gradient not."""
    return torch.where(mask.reshape(*mask.shape, *(1,) * (x.dim() - 2)), x, 0.0)


def _each_series(
    rows: dict[str, Any],  # the operands that have a time axis, or None
    initial_state: Tensor | None,  # (S, D, N)
    cu_seqlens: Tensor,
    options: dict[str, Any],
) -> tuple[Tensor, Tensor]:
    """Run packed series one by one: what packing means."""
    length = next(x.shape[1] for x in rows.values() if x is not None)
    bounds = check_boundaries("selective_scan", cu_seqlens, length)
    results = []
    for i, (start, end) in enumerate(pairwise(bounds)):
        piece: dict[str, Any] = {
            name: None if x is None else x[:, start:end] for name, x in rows.items()
        }
        state = None if initial_state is None else initial_state[i : i + 1]
        results.append(
            selective_scan_reference(**piece, initial_state=state, cu_seqlens=None, **options)
        )
    out, final_state = zip(*results, strict=True)
    return torch.cat(out, dim=1), torch.cat(final_state)


def selective_scan_reference(
    u: Tensor,  # (B, L, D)
    delta: Tensor,  # (B, L, D)
    A: Tensor,  # (D, N)
    B: Tensor,  # (B, L, G, N)
    C: Tensor,  # (B, L, G, N)
    D: Tensor | None,  # (D,)
    z: Tensor | None,  # (B, L, D)
    *,
    delta_bias: Tensor | None,
    delta_softplus: bool,
    dt_limit: tuple[float, float],
    initial_state: Tensor | None,  # (B, D, N)
    mask: Tensor | None,  # (B, L)
    reverse: bool,
    delta_scale: Tensor | None,  # (B, L) or (B, L, D)
    cu_seqlens: Tensor | None,  # (S + 1,)
) -> tuple[Tensor, Tensor]:
    """Return the output (B, L, D) and the final state (B, D, N), one step after the other."""
    if cu_seqlens is not None:
        return _each_series(
            {"u": u, "delta": delta, "B": B, "C": C, "z": z}
            | {"mask": mask, "delta_scale": delta_scale},
            initial_state,
            cu_seqlens,
            {"A": A, "D": D, "delta_bias": delta_bias, "delta_softplus": delta_softplus}
            | {"dt_limit": dt_limit, "reverse": reverse},
        )
    if not torch.compiler.is_compiling() and (A > 0).any():
        raise ShapeError(POSITIVE_A)
    if mask is not None:
        u, delta, B, C = (_without_missing(x, mask) for x in (u, delta, B, C))
        z = None if z is None else _without_missing(z, mask)
        delta_scale = None if delta_scale is None else _without_missing(delta_scale, mask)
    batch, length, channels = u.shape
    per_group = channels // B.shape[2]
    dt = step_size(delta, delta_bias, delta_softplus, dt_limit, delta_scale)
    h = u.new_zeros(batch, channels, A.shape[1]) if initial_state is None else initial_state
    out = [torch.empty(0)] * length
    for t in reversed(range(length)) if reverse else range(length):
        B_t = B[:, t].repeat_interleave(per_group, dim=1)  # (B, D, N)
        C_t = C[:, t].repeat_interleave(per_group, dim=1)  # (B, D, N)
        decay = torch.exp(dt[:, t, :, None] * A)  # (B, D, N)
        h_next = decay * h + (dt[:, t] * u[:, t])[..., None] * B_t
        y = (h_next * C_t).sum(-1)  # (B, D)
        if D is not None:
            y = y + D * u[:, t]
        if z is not None:
            y = y * F.silu(z[:, t])
        if mask is not None:
            seen = mask[:, t, None]  # (B, 1)
            h_next = torch.where(seen[..., None], h_next, h)
            y = torch.where(seen, y, 0.0)
        h, out[t] = h_next, y
    return (torch.stack(out, dim=1) if length else u.new_zeros(u.shape)), h
