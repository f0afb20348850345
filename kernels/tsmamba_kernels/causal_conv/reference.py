"""The causal convolution in plain PyTorch: what every other backend is tested against."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba_kernels._shapes import check_boundaries


def causal_conv1d_reference(
    x: Tensor,  # (B, L, D)
    weight: Tensor,  # (D, W)
    bias: Tensor | None,  # (D,)
    *,
    silu: bool,
    initial_state: Tensor,  # (B, W - 1, D), oldest first
    mask: Tensor | None,  # (B, L)
    reverse: bool,
    cu_seqlens: Tensor | None,  # (S + 1,), with initial_state (S, W - 1, D)
) -> Tensor:
    """Return the filtered sequence, shape (B, L, D)."""
    if cu_seqlens is not None:
        pieces = [
            causal_conv1d_reference(
                x[:, start:end],
                weight,
                bias,
                silu=silu,
                initial_state=initial_state[i : i + 1],
                mask=None if mask is None else mask[:, start:end],
                reverse=reverse,
                cu_seqlens=None,
            )
            for i, (start, end) in enumerate(
                pairwise(check_boundaries("causal_conv1d", cu_seqlens, x.shape[1]))
            )
        ]
        return torch.cat(pieces, dim=1)
    if mask is not None:
        x = torch.where(mask[..., None], x, 0.0)
    if reverse:
        x = x.flip(1)
    length = x.shape[1]
    padded = torch.cat([initial_state, x], dim=1)  # (B, W - 1 + L, D)
    # Not F.conv1d, which refuses to filter no steps or no channels.
    taps = [weight[:, j] * padded[:, j : j + length] for j in range(weight.shape[1])]
    out = torch.stack(taps).sum(0)
    out = out if bias is None else out + bias
    out = F.silu(out) if silu else out
    if reverse:
        out = out.flip(1)
    return out if mask is None else torch.where(mask[..., None], out, 0.0)
