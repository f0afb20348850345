"""The Mamba block: one algebra, run over a whole sequence or one step at a time."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsmamba_kernels import (
    causal_conv1d,
    causal_conv1d_update,
    selective_scan,
    selective_state_update,
)


class MambaState(NamedTuple):
    """What a `Mamba` block remembers between steps; its size does not depend on the past."""

    conv: Tensor  # (B, W - 1, E): the inputs that the convolution still sees
    ssm: Tensor  # (B, E, N): the hidden state of the scan


class Mamba(nn.Module):
    """Selective state-space block.

    A gated linear projection, a short causal convolution and a selective scan. Parameters have the
    names, shapes and initial values of mamba_ssm's block, whose state dicts load strictly. Use it
    as the sequence mixer of a residual network, as `tsmamba.nn.MambaStack` does.

    Parameters
    ----------
    d_model : int
        Width of input and output.
    d_state : int, default 16
        States per channel, N.
    d_conv : int, default 4
        Width of the causal convolution, W.
    expand : int, default 2
        The inner width is ``E = expand * d_model``.
    dt_rank : int, optional
        Rank of the step-size projection; ``ceil(d_model / 16)`` when not given.
    dt_min, dt_max : float, default 0.001 and 0.1
        Range of initial step sizes, drawn log-uniformly.
    dt_init_floor : float, default 1e-4
        Least initial step size.
    conv_bias : bool, default True
        Whether the convolution has a bias.
    bias : bool, default False
        Whether the projections in and out have one.
    reverse : bool, default False
        Read the sequence from its end; such a block has no `step`.

    References
    ----------
    Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.

    Examples
    --------
    >>> import torch
    >>> block = Mamba(d_model=8)
    >>> block(torch.randn(2, 100, 8)).shape
    torch.Size([2, 100, 8])
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        *,
        dt_rank: int | None = None,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_init_floor: float = 1e-4,
        conv_bias: bool = True,
        bias: bool = False,
        reverse: bool = False,
    ) -> None:
        super().__init__()
        inner = expand * d_model
        self.d_state = d_state
        self.dt_rank = math.ceil(d_model / 16) if dt_rank is None else dt_rank
        self.reverse = reverse
        self.in_proj = nn.Linear(d_model, 2 * inner, bias=bias)
        # Holds the parameters under their usual names; the filtering itself is a kernel's.
        self.conv1d = nn.Conv1d(inner, inner, d_conv, groups=inner, bias=conv_bias)
        self.x_proj = nn.Linear(inner, self.dt_rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, d_state + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, d_model, bias=bias)
        self._init_step_sizes(dt_min, dt_max, dt_init_floor)

    def _init_step_sizes(self, dt_min: float, dt_max: float, floor: float) -> None:
        bound = self.dt_rank**-0.5
        nn.init.uniform_(self.dt_proj.weight, -bound, bound)
        with torch.no_grad():
            dt = torch.empty_like(self.dt_proj.bias).uniform_(math.log(dt_min), math.log(dt_max))
            dt = dt.exp().clamp(min=floor)
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # inverse of softplus

    def init_state(self, batch_size: int) -> MambaState:
        """Return the state before the first step.

        Parameters
        ----------
        batch_size : int
            Number of sequences.

        Returns
        -------
        MambaState
            Zeros, in the type and on the device of the parameters.
        """
        inner, _, width = self.conv1d.weight.shape
        return MambaState(
            self.A_log.new_zeros(batch_size, width - 1, inner),
            self.A_log.new_zeros(batch_size, inner, self.d_state),
        )

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, delta_scale: Tensor | None = None
    ) -> Tensor:
        """Mix a whole sequence.

        Parameters
        ----------
        x : Tensor of shape (B, L, D)
            Input.
        mask : bool Tensor of shape (B, L), optional
            False marks a missing step; it changes no state and its output is zero.
        delta_scale : Tensor of shape (B, L), optional
            Real time elapsed before each step, in units of the usual gap.

        Returns
        -------
        Tensor of shape (B, L, D)
            Output.
        """
        x, z = self.in_proj(x).chunk(2, dim=-1)  # (B, L, E) each
        x = causal_conv1d(
            x,
            self.conv1d.weight.squeeze(1),
            self.conv1d.bias,
            "silu",
            mask=mask,
            reverse=self.reverse,
        )
        dt, B, C = self._selection(x)
        y = selective_scan(
            x,
            dt,
            -torch.exp(self.A_log.float()),
            B,
            C,
            self.D,
            z,
            delta_bias=self.dt_proj.bias,
            delta_softplus=True,
            mask=mask,
            reverse=self.reverse,
            delta_scale=delta_scale,
        )
        out: Tensor = self.out_proj(y)
        return out if mask is None else out * mask.unsqueeze(-1)

    def step(
        self, x: Tensor, state: MambaState, *, delta_scale: Tensor | None = None
    ) -> tuple[Tensor, MambaState]:
        """Mix one more time step, with the numbers that `forward` has there.

        Parameters
        ----------
        x : Tensor of shape (B, D)
            Input of the step.
        state : MambaState
            State before it; not modified.
        delta_scale : Tensor of shape (B,), optional
            Real time elapsed since the last step.

        Returns
        -------
        out : Tensor of shape (B, D)
            Output of the step.
        state : MambaState
            State after it.

        Raises
        ------
        RuntimeError
            If the block reads backwards.
        """
        if self.reverse:
            raise RuntimeError("a reverse Mamba block needs the whole sequence; call forward")
        x, z = self.in_proj(x).chunk(2, dim=-1)  # (B, E) each
        x, conv = causal_conv1d_update(
            x, state.conv, self.conv1d.weight.squeeze(1), self.conv1d.bias, "silu"
        )
        dt, B, C = self._selection(x)
        y, ssm = selective_state_update(
            state.ssm,
            x,
            dt,
            -torch.exp(self.A_log.float()),
            B,
            C,
            self.D,
            z,
            dt_bias=self.dt_proj.bias,
            dt_softplus=True,
            delta_scale=delta_scale,
        )
        return self.out_proj(y), MambaState(conv, ssm)

    def _selection(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the input selects: raw step sizes (..., E), B and C (..., N)."""
        dt, B, C = self.x_proj(x).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        return F.linear(dt, self.dt_proj.weight), B, C
