"""Weights and states of a causal stack, as a network has them and as the kernel wants them."""

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba_kernels._shapes import POSITIVE_A, check_axes
from tsmamba_kernels.errors import ShapeError

# Bound of the logits of the gains on B and C, on both sides.
GAIN_LIMIT = 8.0
# The width of a panel of a matrix, to which all widths are rounded up: ``TSM_PANEL``.
PANEL = 32
# Channels whose state lies together, a cache line of each row: ``TSM_LINE``.
LINE = 16

AXES = {
    "norm": "M",
    "in_proj": "2E M",
    "conv1d": "E W",
    "x_proj": "R+2N E",
    "dt_proj": "E R",
    "dt_proj_bias": "E",
    "A": "E N | E",
    "D": "E",
    "out_proj": "M E",
    "in_proj_bias": "2E",
    "conv1d_bias": "E",
    "out_proj_bias": "M",
    "gain_proj": "2N E",
    "gain_proj_bias": "2N",
}


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """Weights of one block of a stack, under the names of `tsmamba.nn.Mamba`'s parameters.

    M is the width of the stack, E the inner width, N the number of states, W the width of the
    filter and R the rank of the step sizes.

    Parameters
    ----------
    norm : Tensor of shape (M,)
        Of the root-mean-square norm before the block.
    in_proj : Tensor of shape (2E, M)
    conv1d : Tensor of shape (E, W)
    x_proj : Tensor of shape (R + 2N, E)
    dt_proj : Tensor of shape (E, R)
    dt_proj_bias : Tensor of shape (E,)
    A : Tensor of shape (E, N) or (E,), <= 0
        Decay rates, as `selective_scan` takes them.
    D : Tensor of shape (E,)
    out_proj : Tensor of shape (M, E)
    in_proj_bias, conv1d_bias, out_proj_bias : Tensor, optional
        Of shape (2E,), (E,) and (M,).
    gain_proj : Tensor of shape (2N, E), optional
        Logits of gains on B and C, with ``gain_proj_bias`` of shape (2N,).
    """

    norm: Tensor
    in_proj: Tensor
    conv1d: Tensor
    x_proj: Tensor
    dt_proj: Tensor
    dt_proj_bias: Tensor
    A: Tensor
    D: Tensor
    out_proj: Tensor
    in_proj_bias: Tensor | None = None
    conv1d_bias: Tensor | None = None
    out_proj_bias: Tensor | None = None
    gain_proj: Tensor | None = None
    gain_proj_bias: Tensor | None = None

    def sizes(self) -> dict[str, int]:
        """Return the size of each axis letter, or refuse weights that do not fit together."""
        sizes = check_axes(
            "stack_step", **{name: (getattr(self, name), axes) for name, axes in AXES.items()}
        )
        inner, rank = sizes["E"], sizes["R"]
        states = sizes.setdefault("N", (sizes["R+2N"] - rank) // 2)
        composed = {"in_proj": 2 * inner, "x_proj": rank + 2 * states, "gain_proj": 2 * states}
        for name, size in composed.items():
            letters = AXES[name].split()[0]
            if sizes.get(letters, size) != size:
                raise ShapeError(
                    f"stack_step: {name} has {sizes[letters]} rows, but E = {inner}, R = {rank}, "
                    f"N = {states} want {letters} = {size}"
                )
        empty = [letter for letter, size in sizes.items() if size < 1]
        if empty:
            raise ShapeError(f"stack_step: no axis may be empty, but {empty[0]} = 0")
        return sizes

    def frozen(self) -> "LayerWeights":
        """Return a copy in float32 on the CPU, apart from the network."""
        copies: dict[str, Any] = {}
        for field in fields(self):
            x = getattr(self, field.name)
            copies[field.name] = None if x is None else x.detach().to("cpu", torch.float32).clone()
        if (copies["A"] > 0).any():
            raise ShapeError(POSITIVE_A)
        return LayerWeights(**copies)

    def laid_out(self) -> dict[str, Tensor | None]:
        """Return the fields of ``tsm_layer``: padded, matrices in panels."""
        inner, states = self.D.shape[0], self.sizes()["N"]
        A = self.A if self.A.dim() == 2 else self.A[:, None] * torch.arange(1, states + 1)
        halves = self.in_proj.split(inner)
        biases = None if self.in_proj_bias is None else self.in_proj_bias.split(inner)
        return {
            "norm": padded(self.norm),
            "in_proj": torch.cat([_panels(half) for half in halves]),
            "in_bias": None if biases is None else torch.cat([padded(x) for x in biases]),
            "conv_t": padded(self.conv1d.t()),
            "conv_bias": None if self.conv1d_bias is None else padded(self.conv1d_bias),
            "x_proj": _panels(self.x_proj),
            "dt_proj": _panels(self.dt_proj),
            "dt_bias": padded(self.dt_proj_bias),
            "gain_proj": None if self.gain_proj is None else _panels(self.gain_proj),
            "gain_bias": None if self.gain_proj_bias is None else padded(self.gain_proj_bias),
            "a_t": padded(A.t() * math.log2(math.e)),
            "d_skip": padded(self.D),
            "out_proj": _panels(self.out_proj),
            "out_bias": None if self.out_proj_bias is None else padded(self.out_proj_bias),
        }


def pack_state(conv: Tensor, ssm: Tensor) -> Tensor:
    """Join (..., W - 1, E) and (..., E, N) to (..., groups of channels, W - 1 + N, LINE).

    Zeros fill the last groups up to a panel.
    """
    rows = padded(torch.cat([conv, ssm.transpose(-1, -2)], dim=-2))
    groups: Tensor = rows.unflatten(-1, (-1, LINE)).transpose(-3, -2).contiguous()
    return groups


def unpack_state(state: Tensor, reach: int, inner: int) -> tuple[Tensor, Tensor]:
    """Undo `pack_state`, where W - 1 is ``reach`` and E is ``inner``; the result is a copy."""
    rows = torch.cat(state.unbind(-3), dim=-1)[..., :inner]
    return rows[..., :reach, :], rows[..., reach:, :].transpose(-1, -2)


def round_up(size: int) -> int:
    """Return ``size`` rounded up to whole panels."""
    return -(-size // PANEL) * PANEL


def padded(x: Tensor) -> Tensor:
    """Return ``x`` with its last axis filled with zeros to whole panels."""
    return F.pad(x, (0, round_up(x.shape[-1]) - x.shape[-1])).contiguous()


def _panels(weight: Tensor) -> Tensor:
    """Return a matrix (out, in) as (panels, in, PANEL)."""
    panels: Tensor = padded(weight.t()).unflatten(1, (-1, PANEL)).transpose(0, 1).contiguous()
    return panels
