"""Weights and states of a causal stack, as a network has them and as the kernel wants them."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba_kernels._shapes import POSITIVE_A
from tsmamba_kernels.errors import ShapeError

# Bound of the logits of the gains on B and C, on both sides.
GAIN_LIMIT = 8.0
# The width of a panel of a matrix, to which all widths are rounded up: ``TSM_PANEL``.
PANEL = 32
# Channels whose state lies together, a cache line of each row: ``TSM_LINE``.
LINE = 16


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

    @property
    def states(self) -> int:
        """The number of states, N."""
        return (self.x_proj.shape[0] - self.dt_proj.shape[1]) // 2

    def detached(self) -> "LayerWeights":
        """Return a copy in float32 on the CPU, apart from the network."""
        copies = {}
        for field in fields(self):
            x = getattr(self, field.name)
            copies[field.name] = None if x is None else x.detach().to("cpu", torch.float32).clone()
        if (copies["A"] > 0).any():
            raise ShapeError(POSITIVE_A)
        return LayerWeights(**copies)

    def laid_out(self) -> dict[str, Tensor | None]:
        """Return the fields of ``tsm_layer``: padded, matrices in panels."""
        inner = self.D.shape[0]
        A = self.A if self.A.dim() == 2 else self.A[:, None] * torch.arange(1, self.states + 1)
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
            "a_t": padded(A.t() * 1.4426950408889634),
            "d_skip": padded(self.D),
            "out_proj": _panels(self.out_proj),
            "out_bias": None if self.out_proj_bias is None else padded(self.out_proj_bias),
        }


def state_rows(state: Tensor) -> Tensor:
    """Return a state (..., groups, rows, LINE) as rows (..., rows, channels), a copy."""
    return state.transpose(-3, -2).flatten(-2)


def from_state_rows(rows: Tensor) -> Tensor:
    """Do the opposite, with zeros for the channels that fill up the last group."""
    return padded(rows).unflatten(-1, (-1, LINE)).transpose(-3, -2).contiguous()


def round_up(size: int) -> int:
    """Return ``size`` rounded up to whole panels."""
    return -(-size // PANEL) * PANEL


def padded(x: Tensor) -> Tensor:
    """Return ``x`` with its last axis filled with zeros to whole panels."""
    return F.pad(x, (0, round_up(x.shape[-1]) - x.shape[-1])).contiguous()


def _panels(weight: Tensor) -> Tensor:
    """Return a matrix (out, in) as (panels, in, PANEL)."""
    rows = padded(weight.t())
    return rows.unflatten(1, (-1, PANEL)).transpose(0, 1).contiguous()
