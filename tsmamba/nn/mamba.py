"""The Mamba block: one algebra, run over a whole sequence, a piece of it or one step."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsmamba.errors import ParameterError
from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels.stack_step import GAIN_LIMIT

AInit = Literal["s4d-real", "log-uniform"]
Selection = Literal["linear", "gain"]
State = TypeVar("State")

# The first logit of a gain, which is then 0.88: near one, and where the logistic curve still has
# slope.
GAIN_START = 2.0
# Steps of a long sequence that are taken together when no gradient is wanted.
PIECE = 4096


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
    A_init : {"s4d-real", "log-uniform"}, default "s4d-real"
        Decay rates at the start. "s4d-real": 1, 2, ..., N in each channel. "log-uniform": 1 / tau
        with tau drawn log-uniformly from 0.1 to 10; a state forgets over tau / dt steps.
    selection : {"linear", "gain"}, default "linear"
        How B and C follow the input. "gain" multiplies each entry by a logistic function of the
        input, with logits clamped to [-8, 8]; all gains start at 0.88.
    tied_A : bool, default False
        Give the N states of a channel multiples of one decay rate, ``A_n = -n exp(A_log)`` with
        ``A_log`` of shape (E,). It costs one exponential a step and channel instead of N. With
        "s4d-real" it is the same function at the start; "log-uniform" draws the first state's rate.

    Raises
    ------
    ParameterError
        If ``A_init`` or ``selection`` is none of its names.

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
        A_init: AInit = "s4d-real",
        selection: Selection = "linear",
        tied_A: bool = False,
    ) -> None:
        super().__init__()
        _check_choice("A_init", A_init, get_args(AInit))
        _check_choice("selection", selection, get_args(Selection))
        inner = expand * d_model
        self.d_state = d_state
        self.dt_rank = math.ceil(d_model / 16) if dt_rank is None else dt_rank
        self.reverse = reverse
        self.in_proj = nn.Linear(d_model, 2 * inner, bias=bias)
        # Holds the parameters under their usual names; the filtering itself is a kernel's.
        self.conv1d = nn.Conv1d(inner, inner, d_conv, groups=inner, bias=conv_bias)
        self.x_proj = nn.Linear(inner, self.dt_rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, inner)
        self.A_log = nn.Parameter(_initial_A_log(A_init, inner, d_state, tied_A))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, d_model, bias=bias)
        self._init_step_sizes(dt_min, dt_max, dt_init_floor)
        self.gain_proj = _gain_projection(inner, d_state) if selection == "gain" else None

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
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        delta_scale: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Mix a whole sequence.

        Parameters
        ----------
        x : Tensor of shape (B, L, D)
            Input.
        mask : bool Tensor of shape (B, L), optional
            False marks a missing step; it changes no state and its output is zero. What stands
            there may be NaN.
        delta_scale : Tensor of shape (B, L), optional
            Real time elapsed before each step, in units of the usual gap.
        cu_seqlens : int Tensor of shape (S + 1,), optional
            Boundaries, from 0 to L, of S series packed one after the other into one batch row
            (B = 1). None of them sees another.

        Returns
        -------
        Tensor of shape (B, L, D)
            Output.
        """
        if cu_seqlens is None and in_pieces(x):
            return self._mix_in_pieces(x, mask, delta_scale)
        return self._mix(x, mask, delta_scale, cu_seqlens=cu_seqlens)[0]

    def prefill(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        delta_scale: Tensor | None = None,
        state: MambaState | None = None,
    ) -> tuple[Tensor, MambaState]:
        """Mix a piece of a sequence, with the numbers that `forward` of the whole has there.

        Use it to give a stream its history before the first `step`, or to read a sequence that is
        too long for memory piece by piece.

        Parameters
        ----------
        x, mask, delta_scale
            As in `forward`.
        state : MambaState, optional
            State before the piece; not modified. That of `init_state` when not given.

        Returns
        -------
        out : Tensor of shape (B, L, D)
            Output.
        state : MambaState
            State after the piece.

        Raises
        ------
        RuntimeError
            If the block reads backwards.
        """
        if self.reverse:
            raise RuntimeError("a reverse Mamba block needs the whole sequence; call forward")
        return self._mix(x, mask, delta_scale, state=state)

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
        return take_step(self.prefill, x, state, delta_scale)

    def _mix(
        self,
        x: Tensor,
        mask: Tensor | None,
        delta_scale: Tensor | None,
        *,
        state: MambaState | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> tuple[Tensor, MambaState]:
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), x, 0.0)  # else NaN reaches in_proj's gradient
        x, z = self.in_proj(x).chunk(2, dim=-1)  # (B, L, E) each
        x, conv = causal_conv1d(
            x,
            self.conv1d.weight.squeeze(1),
            self.conv1d.bias,
            "silu",
            initial_state=None if state is None else state.conv,
            return_final_state=True,
            mask=mask,
            reverse=self.reverse,
            cu_seqlens=cu_seqlens,
        )
        dt, B, C = self._selection(x)
        y, ssm = selective_scan(
            x,
            dt,
            self.decay_rates(),
            B,
            C,
            self.D,
            z,
            delta_bias=self.dt_proj.bias,
            delta_softplus=True,
            initial_state=None if state is None else state.ssm,
            return_final_state=True,
            mask=mask,
            reverse=self.reverse,
            delta_scale=delta_scale,
            cu_seqlens=cu_seqlens,
        )
        out: Tensor = self.out_proj(y)
        return out if mask is None else out * mask.unsqueeze(-1), MambaState(conv, ssm)

    def _mix_in_pieces(self, x: Tensor, mask: Tensor | None, delta_scale: Tensor | None) -> Tensor:
        """Do the same piece by piece, so that what lies between the layers stays in cache."""
        slices = piece_slices(x.shape[1])
        pieces, state = [], None
        for at in reversed(slices) if self.reverse else slices:
            seen, gaps = (None if v is None else v[:, at] for v in (mask, delta_scale))
            piece, state = self._mix(x[:, at], seen, gaps, state=state)
            pieces.append(piece)
        return torch.cat(pieces[::-1] if self.reverse else pieces, dim=1)

    def _selection(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the input selects: raw step sizes (..., E), B and C (..., N)."""
        dt, B, C = self.x_proj(x).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        if self.gain_proj is not None:
            logits = self.gain_proj(x).clamp(-GAIN_LIMIT, GAIN_LIMIT)
            gain_B, gain_C = torch.sigmoid(logits).chunk(2, dim=-1)
            B, C = B * gain_B, C * gain_C
        return F.linear(dt, self.dt_proj.weight), B, C

    def decay_rates(self) -> Tensor:
        """Return A, of shape (E, N) or (E,), in float32 or better."""
        dtype = torch.promote_types(self.A_log.dtype, torch.float32)
        return -torch.exp(self.A_log.to(dtype))

    def extra_repr(self) -> str:
        """Return what the submodules do not show."""
        tied = self.A_log.dim() == 1
        return f"d_state={self.d_state}, tied_A={tied}, reverse={self.reverse}"


def in_pieces(x: Tensor) -> bool:
    """Whether to take a sequence (B, L, ...) in pieces: it is long, and no gradient is wanted."""
    whole = torch.is_grad_enabled() or torch.compiler.is_compiling()
    return x.shape[1] > PIECE and not whole


def piece_slices(length: int) -> list[slice]:
    """Return the pieces of a long sequence."""
    return [slice(start, start + PIECE) for start in range(0, length, PIECE)]


def take_step(
    prefill: Callable[..., tuple[Tensor, State]],
    x: Tensor,  # (B, D)
    state: Any,
    delta_scale: Tensor | None,  # (B,)
) -> tuple[Tensor, State]:
    """Return output and state after one step, which is a piece of length one."""
    gap = None if delta_scale is None else delta_scale.unsqueeze(1)
    y, after = prefill(x.unsqueeze(1), state=state, delta_scale=gap)
    return y.squeeze(1), after


def _check_choice(name: str, given: str, accepted: tuple[str, ...]) -> None:
    if given not in accepted:
        raise ParameterError(f"{name}={given!r}; pass one of {', '.join(map(repr, accepted))}")


def _initial_A_log(A_init: AInit, inner: int, d_state: int, tied: bool) -> Tensor:
    shape = (inner,) if tied else (inner, d_state)
    if A_init == "log-uniform":
        return torch.empty(shape).uniform_(-math.log(10.0), math.log(10.0))
    return torch.zeros(shape) if tied else torch.arange(1.0, d_state + 1).log().repeat(inner, 1)


def _gain_projection(inner: int, d_state: int) -> nn.Linear:
    projection = nn.Linear(inner, 2 * d_state)
    nn.init.zeros_(projection.weight)
    nn.init.constant_(projection.bias, GAIN_START)
    return projection
