"""Self-attention for the stacks that mix it with Mamba."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsmamba.errors import ParameterError

HEAD_WIDTH = 32

# Features added to each head under a mask, and the value of a missing key there. GPU kernels want
# widths in multiples of eight. The sum, -32,000, is nothing to a softmax and fits half precision.
MASK_FEATURES = 8
MASK_VALUE = -4000.0


class SelfAttention(nn.Module):
    """Multi-head softmax attention of a sequence to itself.

    Every step may look up any other, at a cost quadratic in L. It has no positional encoding: in a
    stack with Mamba blocks, these tell it the order, as in Jamba.

    Parameters
    ----------
    d_model : int
        Width of input and output.
    n_heads : int, optional
        Number of heads, a divisor of ``d_model``. When not given, heads are 32 wide, or there is
        one where 32 does not divide ``d_model``.
    causal : bool, default True
        Whether a step sees only itself and what came before.

    Raises
    ------
    ParameterError
        If ``n_heads`` does not divide ``d_model``.

    References
    ----------
    Lieber et al., "Jamba: A Hybrid Transformer-Mamba Language Model", 2024.

    Examples
    --------
    >>> import torch
    >>> SelfAttention(64)(torch.randn(2, 100, 64)).shape
    torch.Size([2, 100, 64])
    """

    def __init__(self, d_model: int, n_heads: int | None = None, *, causal: bool = True) -> None:
        super().__init__()
        if n_heads is None:
            n_heads = 1 if d_model % HEAD_WIDTH else d_model // HEAD_WIDTH
        if n_heads < 1 or d_model % n_heads:
            raise ParameterError(
                f"n_heads={n_heads} does not divide d_model={d_model}; pass a divisor of it"
            )
        self.n_heads = n_heads
        self.causal = causal
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, cu_seqlens: Tensor | None = None
    ) -> Tensor:
        """Mix a whole sequence.

        Parameters
        ----------
        x : Tensor of shape (B, L, D)
            Input.
        mask : bool Tensor of shape (B, L), optional
            False marks a missing step: none looks at it and its output is zero.
        cu_seqlens : int Tensor of shape (S + 1,), optional
            Boundaries, from 0 to L, of packed series, as in `Mamba.forward`; attention is within
            each.

        Returns
        -------
        Tensor of shape (B, L, D)
            Output.
        """
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), x, 0.0)  # else NaN reaches qkv_proj's gradient
        heads = self.qkv_proj(x).unflatten(-1, (3, self.n_heads, -1))
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # (B, heads, L, width) each
        width = q.shape[-1]
        attend = partial(F.scaled_dot_product_attention, is_causal=self.causal, scale=width**-0.5)
        if mask is not None:
            q, k, v = _hide_missing(q, k, v, mask)
        if cu_seqlens is None:
            mixed = attend(q, k, v)
        else:
            lengths = cu_seqlens.diff().tolist()
            series = zip(*(y.split(lengths, dim=2) for y in (q, k, v)), strict=True)
            mixed = torch.cat([attend(*one) for one in series], dim=2)
        out: Tensor = self.out_proj(mixed[..., :width].transpose(1, 2).flatten(2))
        return out if mask is None else torch.where(mask.unsqueeze(-1), out, 0.0)

    def extra_repr(self) -> str:
        """Return what the submodules do not show."""
        return f"n_heads={self.n_heads}, causal={self.causal}"


def _hide_missing(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Widen the heads so that the scores of missing keys come out far below all others.

    `scaled_dot_product_attention` takes no mask beside ``is_causal``, and one tensor for both is
    (L, L). A step that sees none but missing keys is missing itself, so what it gets is no matter.
    """
    penalty = torch.where(mask, 0.0, MASK_VALUE).to(k.dtype)[:, None, :, None]
    penalty = penalty.expand(*k.shape[:-1], MASK_FEATURES)
    unscaled = q.shape[-1] ** 0.5  # scores are divided by it
    return (
        F.pad(q, (0, MASK_FEATURES), value=unscaled),
        torch.cat([k, penalty], dim=-1),
        F.pad(v, (0, MASK_FEATURES)),  # the fused kernels want one width
    )


class AttentionBlock(nn.Module):
    """Pre-norm residual block around `SelfAttention`: ``x + dropout(mixer(norm(x)))``.

    Use it between Mamba blocks, where looking up a distant step exactly is worth a quadratic cost.

    Parameters
    ----------
    d_model, n_heads, causal
        As in `SelfAttention`.
    dropout : float in [0, 1), default 0.0
        Rate of dropout on the mixer's output.

    Examples
    --------
    >>> import torch
    >>> AttentionBlock(8, causal=False)(torch.randn(2, 50, 8)).shape
    torch.Size([2, 50, 8])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int | None = None,
        *,
        causal: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(d_model, eps=1e-5)
        self.mixer = SelfAttention(d_model, n_heads, causal=causal)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        delta_scale: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Mix a sequence of shape (B, L, D); the arguments are those of `MambaBlock.forward`.

        ``delta_scale`` changes nothing here: attention knows no time.
        """
        mixed = self.mixer(self.norm(x), mask=mask, cu_seqlens=cu_seqlens)
        out: Tensor = x + self.dropout(mixed)
        return out
