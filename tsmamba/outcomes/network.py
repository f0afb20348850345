"""The network that reads a stay: tokens through a Mamba stack, pooled into one answer."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tsmamba.records.encoder import StayEncoder
from tsmamba.records.tokens import Batch

__all__ = ["Answers", "RecordConfig", "RecordNetwork"]


@dataclass(frozen=True)
class RecordConfig:
    """Shape of a `RecordNetwork`.

    Parameters
    ----------
    n_codes, n_statics, n_outputs : int
        Codes read, features of what is static, and numbers to emit.
    causal : bool
        Whether an answer is wanted after every token, from what came before.
    d_model, n_layers, d_state : int
        Width, depth and states of the Mamba stack.
    dropout, input_dropout : float
        Rates, of the pooled answer and of the inputs.
    """

    n_codes: int
    n_statics: int
    n_outputs: int
    causal: bool = False
    d_model: int = 64
    n_layers: int = 1
    d_state: int = 16
    dropout: float = 0.5
    input_dropout: float = 0.3


class Answers(NamedTuple):
    """What a `RecordNetwork` says of some stays."""

    outputs: Tensor  # (B, K), or (B, L, K) if it is causal: after every token
    following: Tensor  # (B, L, V), values of the next token


class RecordNetwork(StayEncoder):
    """A Mamba that reads a stay and answers.

    What all tokens say is pooled by mean, maximum and last; a second head tells the values of the
    next token, which teaches the network more than the few labels do.

    Parameters
    ----------
    config : RecordConfig
        Its shape.

    Examples
    --------
    >>> batch = Batch(
    ...     torch.zeros(1, 5, 3), torch.zeros(1, 5, 3, dtype=torch.uint8), torch.ones(1, 5),
    ...     torch.ones(1, 5, dtype=torch.bool), torch.zeros(1, 2),
    ... )
    >>> RecordNetwork(RecordConfig(n_codes=3, n_statics=2, n_outputs=1))(batch).outputs.shape
    torch.Size([1, 1])
    """

    def __init__(self, config: RecordConfig) -> None:
        super().__init__(
            config.n_codes,
            config.n_statics,
            config.d_model,
            config.n_layers,
            config.d_state,
            causal=config.causal,
            input_dropout=config.input_dropout,
        )
        self.config = config
        width = config.d_model
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear((4 if config.n_statics else 3) * width, config.n_outputs)
        self.head_following = nn.Linear(width, config.n_codes)

    def forward(self, batch: Batch) -> Answers:
        """Return the answers on some stays."""
        statics = self.known(batch)
        encoded = self.encoded(batch, statics)
        pooled = (self._pooled_so_far if self.config.causal else self._pooled)(encoded, batch.mask)
        return Answers(self.answer(pooled, statics), self.head_following(encoded))

    def answer(self, pooled: Tensor, statics: Tensor | None) -> Tensor:
        """Return the outputs of what was pooled, (B, ..., 3 D)."""
        if statics is not None:
            known = nn.functional.gelu(statics)
            if pooled.ndim == 3:
                known = known[:, None].expand(-1, pooled.shape[1], -1)
            pooled = torch.cat([pooled, known], -1)
        outputs: Tensor = self.head(self.dropout(pooled))
        return outputs

    def _pooled(self, encoded: Tensor, mask: Tensor) -> Tensor:
        """Pool all tokens of a stay, (B, 3 D)."""
        there = mask[..., None]
        count = mask.sum(1, keepdim=True)
        mean = (encoded * there).sum(1) / count
        most = encoded.masked_fill(~there, -torch.inf).amax(1)
        last = encoded[torch.arange(len(encoded)), count[:, 0] - 1]
        return torch.cat([mean, most, last], -1)

    def _pooled_so_far(self, encoded: Tensor, mask: Tensor) -> Tensor:
        """Pool the tokens up to each, (B, L, 3 D); padding comes last."""
        count = torch.arange(1, encoded.shape[1] + 1, dtype=encoded.dtype)[:, None]
        return torch.cat([encoded.cumsum(1) / count, encoded.cummax(1).values, encoded], -1)
