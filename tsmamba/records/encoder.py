"""The trunk of networks that read stays: tokens embedded, and a Mamba stack over them."""

import torch
from torch import Tensor, nn

from tsmamba.nn import MambaStack
from tsmamba.records.tokens import Batch

__all__ = ["StayEncoder"]

# The scan weighs what comes in by the time that passes; beyond this a gap tells no more.
_LONGEST_GAP = 8.0


class StayEncoder(nn.Module):
    """A Mamba that reads what was measured, when, and what is known at the start.

    Each token is values carried forward, which of them are new, and how long ago each was measured
    (Che et al. 2018, Recurrent neural networks for multivariate time series with missing values,
    use the same three). Time that passes between tokens drives the scan.

    Parameters
    ----------
    n_codes, n_statics : int
        Codes read, and features of what is static.
    d_model, n_layers, d_state : int
        Width, depth and states of the Mamba stack.
    causal : bool
        Whether each token sees what came before it only.
    input_dropout : float
        Rate, of the inputs.

    Examples
    --------
    >>> batch = Batch(
    ...     torch.zeros(1, 5, 3), torch.zeros(1, 5, 3, dtype=torch.uint8), torch.ones(1, 5),
    ...     torch.ones(1, 5, dtype=torch.bool), torch.zeros(1, 2),
    ... )
    >>> encoder = StayEncoder(3, 2, 8, 1, 16, causal=True, input_dropout=0.0)
    >>> encoder.encoded(batch, encoder.known(batch)).shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        n_codes: int,
        n_statics: int,
        d_model: int,
        n_layers: int,
        d_state: int,
        *,
        causal: bool,
        input_dropout: float,
    ) -> None:
        super().__init__()
        self.input_dropout = nn.Dropout(input_dropout)
        self.embed = nn.Linear(3 * n_codes, d_model)
        self.embed_statics = nn.Linear(n_statics, d_model) if n_statics else None
        self.stack = MambaStack(d_model, n_layers, d_state, bidirectional=not causal)

    def known(self, batch: Batch) -> Tensor | None:
        """Embed what is known at the start, (B, D), if there is anything."""
        return None if self.embed_statics is None else self.embed_statics(batch.statics)

    def encoded(self, batch: Batch, statics: Tensor | None) -> Tensor:
        """Return the outputs of the stack, (B, L, D), beside what is `known`."""
        tokens = self.tokens(batch.values, batch.since, statics)
        out: Tensor = self.stack(tokens, mask=batch.mask, delta_scale=self.passed(batch.elapsed))
        return out

    def tokens(self, values: Tensor, since: Tensor, statics: Tensor | None) -> Tensor:
        """Embed tokens, (B, L, V) each, beside what is static, (B, D)."""
        ago = torch.log1p(2.0 * since) / 2.0
        inputs = torch.cat([values, (since == 0).to(values.dtype), ago], -1)
        tokens: Tensor = self.embed(self.input_dropout(inputs))
        return tokens if statics is None else tokens + statics[:, None]

    def passed(self, elapsed: Tensor) -> Tensor:
        """Return the time that the scan lets pass, bounded."""
        return elapsed.clamp(max=_LONGEST_GAP)
