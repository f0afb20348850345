"""Residual stacks of Mamba blocks, with attention blocks between them where asked for."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tsmamba.errors import ParameterError
from tsmamba.nn.attention import AttentionBlock
from tsmamba.nn.mamba import (
    AInit,
    Mamba,
    MambaState,
    Selection,
    in_pieces,
    piece_slices,
    take_step,
)

NORM_EPS = 1e-5


class MambaBlock(nn.Module):
    """Pre-norm residual block: ``x + dropout(mixer(norm(x)))``.

    Use it to build a stack of your own; `MambaStack` is the usual one.

    Parameters
    ----------
    d_model, d_state, d_conv, expand : int
        As in `Mamba`.
    bidirectional : bool, default False
        Add a second mixer that reads the sequence from its end. It sees the future, so there is
        neither `prefill` nor `step`.
    dropout : float in [0, 1), default 0.0
        Rate of dropout on the mixers' output.
    A_init, selection, tied_A, dt_rank, conv_bias, bias
        As in `Mamba`.
    norm_eps : float, default 1e-5
        Added to the mean square in the norm.

    Examples
    --------
    >>> import torch
    >>> MambaBlock(8, bidirectional=True)(torch.randn(2, 50, 8)).shape
    torch.Size([2, 50, 8])
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        A_init: AInit = "s4d-real",
        selection: Selection = "linear",
        tied_A: bool = False,
        dt_rank: int | None = None,
        conv_bias: bool = True,
        bias: bool = False,
        norm_eps: float = NORM_EPS,
    ) -> None:
        super().__init__()
        mamba = partial(
            Mamba, d_model, d_state, d_conv, expand,
            A_init=A_init, selection=selection, tied_A=tied_A,
            dt_rank=dt_rank, conv_bias=conv_bias, bias=bias,
        )  # fmt: skip
        self.norm = nn.RMSNorm(d_model, eps=norm_eps)
        self.mixer = mamba()
        self.mixer_back = mamba(reverse=True) if bidirectional else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        delta_scale: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Mix a sequence of shape (B, L, D); the arguments are those of `Mamba.forward`."""
        normed = self.norm(x)
        steps = {"mask": mask, "delta_scale": delta_scale, "cu_seqlens": cu_seqlens}
        mixed = self.mixer(normed, **steps)
        if self.mixer_back is not None:
            mixed = mixed + self.mixer_back(normed, **steps)
        out: Tensor = x + self.dropout(mixed)
        return out

    def prefill(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        delta_scale: Tensor | None = None,
        state: MambaState | None = None,
    ) -> tuple[Tensor, MambaState]:
        """Mix a piece of a sequence; see `Mamba.prefill`."""
        if self.mixer_back is not None:
            raise RuntimeError("a bidirectional block needs the whole sequence; call forward")
        mixed, state = self.mixer.prefill(
            self.norm(x), mask=mask, delta_scale=delta_scale, state=state
        )
        return x + self.dropout(mixed), state

    def step(
        self, x: Tensor, state: MambaState, *, delta_scale: Tensor | None = None
    ) -> tuple[Tensor, MambaState]:
        """Mix one time step of shape (B, D); see `Mamba.step`."""
        return take_step(self.prefill, x, state, delta_scale)


class MambaStack(nn.Module):
    """A stack of Mamba blocks with a final norm.

    The encoder of every model of this library: causal, it can be fed step by step; bidirectional,
    each output has seen the whole sequence.

    Parameters
    ----------
    d_model : int
        Width of input and output.
    n_layers : int, default 2
        Number of blocks.
    d_state, d_conv, expand, bidirectional, dropout
        As in `MambaBlock`.
    attention_at : tuple of int, default ()
        Depths, counted from 0, at which an `AttentionBlock` stands in place of a Mamba block. It is
        causal unless the stack is bidirectional.
    n_heads : int, optional
        Of the attention blocks, as in `SelfAttention`.
    A_init, selection, tied_A, dt_rank, conv_bias, bias
        As in `Mamba`, for all Mamba blocks.
    norm_eps : float, default 1e-5
        Added to the mean square in the norms of Mamba blocks and the final one.
    checkpoint : bool, default False
        In training, keep only the input of each block and compute the rest anew in the backward
        pass: less memory, more time, the same gradients.

    Raises
    ------
    ParameterError
        If an option is none of its names, or ``attention_at`` names a depth that is not there.

    References
    ----------
    Lieber et al., "Jamba: A Hybrid Transformer-Mamba Language Model", 2024, for ``attention_at``.

    Examples
    --------
    >>> import torch
    >>> stack = MambaStack(8, n_layers=2)
    >>> x = torch.randn(1, 3, 8)
    >>> state = stack.init_state(1)
    >>> for t in range(3):
    ...     y, state = stack.step(x[:, t], state)
    >>> torch.allclose(y, stack(x)[:, -1], atol=1e-5)
    True
    """

    def __init__(
        self,
        d_model: int,
        n_layers: int = 2,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        attention_at: tuple[int, ...] = (),
        n_heads: int | None = None,
        A_init: AInit = "s4d-real",
        selection: Selection = "linear",
        tied_A: bool = False,
        dt_rank: int | None = None,
        conv_bias: bool = True,
        bias: bool = False,
        norm_eps: float = NORM_EPS,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        _check_depths(attention_at, n_layers)
        mamba = partial(
            MambaBlock, d_model, d_state, d_conv, expand, bidirectional=bidirectional,
            dropout=dropout, A_init=A_init, selection=selection, tied_A=tied_A,
            dt_rank=dt_rank, conv_bias=conv_bias, bias=bias, norm_eps=norm_eps,
        )  # fmt: skip
        attention = partial(
            AttentionBlock, d_model, n_heads, causal=not bidirectional, dropout=dropout
        )
        self.checkpoint = checkpoint
        self.layers = nn.ModuleList(
            attention() if depth in attention_at else mamba() for depth in range(n_layers)
        )
        self.norm_eps = norm_eps
        self.norm_f = nn.RMSNorm(d_model, eps=norm_eps)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        delta_scale: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Encode a sequence of shape (B, L, D); the arguments are those of `Mamba.forward`."""
        if cu_seqlens is None and in_pieces(x) and self._is_causal():
            return self._encode_in_pieces(x, mask, delta_scale)
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), x, 0.0)  # else NaN reaches the norms' gradients
        for layer in self.layers:
            x = self._run(layer, x, mask=mask, delta_scale=delta_scale, cu_seqlens=cu_seqlens)
        out: Tensor = self.norm_f(x)
        return out

    def _encode_in_pieces(
        self, x: Tensor, mask: Tensor | None, delta_scale: Tensor | None
    ) -> Tensor:
        """Take a long sequence through all blocks piece by piece, which spares memory and time."""
        pieces, state = [], None
        for at in piece_slices(x.shape[1]):
            seen, gaps = (None if v is None else v[:, at] for v in (mask, delta_scale))
            piece, state = self.prefill(x[:, at], mask=seen, delta_scale=gaps, state=state)
            pieces.append(piece)
        return torch.cat(pieces, dim=1)

    def _run(self, call: Callable[..., Any], x: Tensor, **arguments: Any) -> Any:
        """Call a block, in training perhaps so that it forgets all but its input."""
        if self.checkpoint and self.training:
            return checkpoint(call, x, use_reentrant=False, **arguments)
        return call(x, **arguments)

    def init_state(self, batch_size: int) -> list[MambaState]:
        """Return the state of every block before the first step.

        Raises
        ------
        RuntimeError
            As `step`.
        """
        return [layer.mixer.init_state(batch_size) for layer in self.causal_blocks()]

    def prefill(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        delta_scale: Tensor | None = None,
        state: Sequence[MambaState] | None = None,
    ) -> tuple[Tensor, list[MambaState]]:
        """Encode a piece of a sequence, with the numbers that `forward` of the whole has there.

        The arguments are those of `Mamba.prefill`, with a state for every block.

        Returns
        -------
        y : Tensor of shape (B, L, D)
            Output.
        state : list of MambaState
            States after the piece: those that the next piece, or `step`, begins with.

        Raises
        ------
        RuntimeError
            If the stack is bidirectional or has attention blocks.

        Examples
        --------
        >>> import torch
        >>> stack, x = MambaStack(8), torch.randn(1, 100, 8)
        >>> _, state = stack.prefill(x[:, :99])
        >>> y, state = stack.step(x[:, 99], state)
        >>> torch.allclose(y, stack(x)[:, -1], atol=1e-5)
        True
        """
        before = self.init_state(x.shape[0]) if state is None else state
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), x, 0.0)  # else NaN reaches the norms' gradients
        after: list[MambaState] = []
        for layer, old in zip(self.causal_blocks(), before, strict=True):
            x, new = self._run(layer.prefill, x, mask=mask, delta_scale=delta_scale, state=old)
            after.append(new)
        return self.norm_f(x), after

    def step(
        self, x: Tensor, state: Sequence[MambaState], *, delta_scale: Tensor | None = None
    ) -> tuple[Tensor, list[MambaState]]:
        """Encode one time step of shape (B, D), with the numbers that `forward` has there.

        Raises
        ------
        RuntimeError
            If the stack is bidirectional or has attention blocks.
        """
        return take_step(self.prefill, x, state, delta_scale)

    def causal_blocks(self) -> list[MambaBlock]:
        """Return the blocks, each of which must have a step."""
        if not self._is_causal():
            raise RuntimeError(
                "bidirectional blocks and attention blocks need the whole sequence; call forward, "
                "or build a causal stack without attention_at"
            )
        return [layer for layer in self.layers if isinstance(layer, MambaBlock)]

    def _is_causal(self) -> bool:
        return all(
            isinstance(layer, MambaBlock) and layer.mixer_back is None for layer in self.layers
        )


def _check_depths(attention_at: Sequence[int], n_layers: int) -> None:
    wrong = [depth for depth in attention_at if depth not in range(n_layers)]
    if wrong:
        raise ParameterError(
            f"attention_at={attention_at!r} names {wrong}, but the depths of {n_layers} blocks are "
            f"{list(range(n_layers))}; pass some of these"
        )
