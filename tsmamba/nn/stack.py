"""Residual stacks of Mamba blocks."""

from collections.abc import Sequence

from torch import Tensor, nn

from tsmamba.nn.mamba import Mamba, MambaState


class MambaBlock(nn.Module):
    """Pre-norm residual block: ``x + dropout(mixer(norm(x)))``.

    Use it to build a stack of your own; `MambaStack` is the usual one.

    Parameters
    ----------
    d_model, d_state, d_conv, expand : int
        As in `Mamba`.
    bidirectional : bool, default False
        Add a second mixer that reads the sequence from its end. It sees the future, so it has no
        `step`.
    dropout : float in [0, 1), default 0.0
        Rate of dropout on the mixers' output.

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
    ) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(d_model, eps=1e-5)
        self.mixer = Mamba(d_model, d_state, d_conv, expand)
        self.mixer_back = (
            Mamba(d_model, d_state, d_conv, expand, reverse=True) if bidirectional else None
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, delta_scale: Tensor | None = None
    ) -> Tensor:
        """Mix a sequence of shape (B, L, D); ``mask`` and ``delta_scale`` as in `Mamba.forward`."""
        normed = self.norm(x)
        mixed = self.mixer(normed, mask=mask, delta_scale=delta_scale)
        if self.mixer_back is not None:
            mixed = mixed + self.mixer_back(normed, mask=mask, delta_scale=delta_scale)
        out: Tensor = x + self.dropout(mixed)
        return out

    def step(
        self, x: Tensor, state: MambaState, *, delta_scale: Tensor | None = None
    ) -> tuple[Tensor, MambaState]:
        """Mix one time step of shape (B, D); see `Mamba.step`."""
        if self.mixer_back is not None:
            raise RuntimeError("a bidirectional block needs the whole sequence; call forward")
        mixed, state = self.mixer.step(self.norm(x), state, delta_scale=delta_scale)
        return x + self.dropout(mixed), state


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
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            MambaBlock(
                d_model, d_state, d_conv, expand, bidirectional=bidirectional, dropout=dropout
            )
            for _ in range(n_layers)
        )
        self.norm_f = nn.RMSNorm(d_model, eps=1e-5)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, delta_scale: Tensor | None = None
    ) -> Tensor:
        """Encode a sequence of shape (B, L, D); the arguments are those of `Mamba.forward`."""
        for layer in self.layers:
            x = layer(x, mask=mask, delta_scale=delta_scale)
        out: Tensor = self.norm_f(x)
        return out

    def init_state(self, batch_size: int) -> list[MambaState]:
        """Return the state of every block before the first step."""
        return [layer.mixer.init_state(batch_size) for layer in self._blocks()]

    def step(
        self, x: Tensor, state: Sequence[MambaState], *, delta_scale: Tensor | None = None
    ) -> tuple[Tensor, list[MambaState]]:
        """Encode one time step of shape (B, D), with the numbers that `forward` has there."""
        after = []
        for layer, before in zip(self._blocks(), state, strict=True):
            x, new = layer.step(x, before, delta_scale=delta_scale)
            after.append(new)
        return self.norm_f(x), after

    def _blocks(self) -> list[MambaBlock]:
        return [layer for layer in self.layers if isinstance(layer, MambaBlock)]
