"""A Mamba language model, to run weights that were trained elsewhere."""

import math
import os
from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsmamba.errors import ParameterError
from tsmamba.nn.foreign import read_options, read_weights
from tsmamba.nn.fused import FusedStack
from tsmamba.nn.mamba import PIECE, MambaState
from tsmamba.nn.stack import NORM_EPS, MambaStack

# Deviation of the first embeddings, small enough that a tied head begins near equal odds.
_FIRST_SPREAD = 0.02


class MambaLM(nn.Module):
    """Embedding, `MambaStack` and a head that gives the logits of the next token.

    Plain language modelling is not what this library is for. Use it to run a published Mamba with
    the kernels here, to compare with one, or on sequences of codes of your own: kinds of events,
    templates of logs, discretised values. `from_pretrained` reads weights of others.

    Parameters
    ----------
    vocab_size : int
        Number of tokens, V.
    d_model : int
        Width.
    n_layers : int, default 2
        Number of blocks.
    d_state, d_conv, expand, dt_rank, conv_bias, bias
        As in `Mamba`.
    norm_eps : float, default 1e-5
        As in `MambaStack`.
    tie_embeddings : bool, default True
        Whether the head has the weights of the embedding.
    pad_vocab_size_multiple : int, default 1
        Fill the vocabulary up to a multiple of this. Logits have these rows, too; `generate` never
        draws them.

    References
    ----------
    Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.

    Examples
    --------
    >>> import torch
    >>> lm = MambaLM(vocab_size=50, d_model=8).eval()
    >>> ids = torch.randint(50, (2, 12))
    >>> lm(ids).shape
    torch.Size([2, 12, 50])
    >>> lm.generate(ids, max_new_tokens=3).shape
    torch.Size([2, 15])
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_layers: int = 2,
        *,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        dt_rank: int | None = None,
        conv_bias: bool = True,
        bias: bool = False,
        norm_eps: float = NORM_EPS,
        tie_embeddings: bool = True,
        pad_vocab_size_multiple: int = 1,
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        padded = math.ceil(vocab_size / pad_vocab_size_multiple) * pad_vocab_size_multiple
        self.embedding = nn.Embedding(padded, d_model)
        nn.init.normal_(self.embedding.weight, std=_FIRST_SPREAD)
        self.stack = MambaStack(
            d_model,
            n_layers,
            d_state,
            d_conv,
            expand,
            dt_rank=dt_rank,
            conv_bias=conv_bias,
            bias=bias,
            norm_eps=norm_eps,
        )
        self.lm_head = None if tie_embeddings else nn.Linear(d_model, padded, bias=False)

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str]) -> Self:
        """Read the weights of a published Mamba from a local folder.

        It holds ``config.json`` and ``model.safetensors``, or parts of the latter under
        ``model.safetensors.index.json``, in the layout of mamba_ssm (``state-spaces/mamba-130m``)
        or of transformers (``state-spaces/mamba-130m-hf``). Nothing is downloaded and nothing is
        unpickled. Weights are held in float32, whatever they were saved in.

        Parameters
        ----------
        path : str or path
            The folder.

        Returns
        -------
        MambaLM
            In evaluation mode.

        Raises
        ------
        ModelFileError
            If the folder or a file is missing or damaged, weights are pickled, names or shapes do
            not fit, or the model is of another kind, such as Mamba-2.
        """
        with torch.device("meta"):  # no first values are drawn that are overwritten at once
            model = cls(**read_options(path))
        shapes = {name: tuple(x.shape) for name, x in model.state_dict().items()}
        model.load_state_dict(read_weights(path, shapes), assign=True)
        return model.eval()

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of the token after each.

        Parameters
        ----------
        ids : int Tensor of shape (B, L)
            Tokens.

        Returns
        -------
        Tensor of shape (B, L, V)
            Logits, of a vocabulary filled up to ``pad_vocab_size_multiple``.
        """
        return self._logits(self.stack(self.embedding(ids)))

    def init_state(self, batch_size: int) -> list[MambaState]:
        """Return the state before the first token; its size does not grow with them."""
        return self.stack.init_state(batch_size)

    def prefill(
        self, ids: Tensor, state: Sequence[MambaState] | None = None
    ) -> tuple[Tensor, list[MambaState]]:
        """Read a stretch of tokens.

        Parameters
        ----------
        ids : int Tensor of shape (B, L)
            Tokens, at least one.
        state : list of MambaState, optional
            State before them; not modified. That of `init_state` when not given.

        Returns
        -------
        logits : Tensor of shape (B, V)
            Of the token after the last.
        state : list of MambaState
            State after them.
        """
        after = self.init_state(len(ids)) if state is None else list(state)
        for piece in ids.split(PIECE, dim=1):
            encoded, after = self.stack.prefill(self.embedding(piece), state=after)
        return self._logits(encoded[:, -1]), after

    def step(self, ids: Tensor, state: Sequence[MambaState]) -> tuple[Tensor, list[MambaState]]:
        """Read one token of each sequence, with the logits that `forward` has there.

        Parameters
        ----------
        ids : int Tensor of shape (B,)
            Tokens.
        state : list of MambaState
            State before them; not modified.

        Returns
        -------
        logits : Tensor of shape (B, V)
            Of the token after them.
        state : list of MambaState
            State after them.
        """
        encoded, after = self.stack.step(self.embedding(ids), state)
        return self._logits(encoded), after

    @torch.no_grad()
    def generate(
        self,
        ids: Tensor,
        max_new_tokens: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Continue sequences, token by token, in constant time and memory a token.

        Parameters
        ----------
        ids : int Tensor of shape (B, L)
            What to continue: tokens, at least one.
        max_new_tokens : int >= 0
            Number of tokens to add. No token ends a sequence early.
        temperature : float >= 0, default 0
            What logits are divided by before tokens are drawn; 0 takes the likeliest.
        top_k : int >= 1, optional
            Draw among so many of the likeliest.
        generator : torch.Generator, optional
            Where chance comes from; torch's global state by default.

        Returns
        -------
        int64 Tensor of shape (B, L + max_new_tokens)
            What was given and what was added.

        Raises
        ------
        ParameterError
            If an argument is out of range.
        """
        self._check(ids, max_new_tokens, temperature, top_k)
        sequence = [ids.long()]
        logits, state = self.prefill(ids)
        advance = self._advance_from(state)
        for left in reversed(range(max_new_tokens)):
            token = _choose(logits[:, : self.vocab_size], temperature, top_k, generator)
            sequence.append(token)
            if left:
                logits = advance(token.squeeze(1))
        return torch.cat(sequence, dim=1)

    def _advance_from(self, state: list[MambaState]) -> Callable[[Tensor], Tensor]:
        """Return what maps tokens (B,) to the next logits and keeps the state in between."""
        weight = self.embedding.weight
        if weight.is_cpu and weight.dtype == torch.float32:
            fused = FusedStack(self.stack)
            packed = fused.pack(state)
            return lambda ids: self._logits(fused.step(self.embedding(ids), packed))

        def advance(ids: Tensor) -> Tensor:
            nonlocal state
            logits, state = self.step(ids, state)
            return logits

        return advance

    def _logits(self, encoded: Tensor) -> Tensor:
        head = self.embedding if self.lm_head is None else self.lm_head
        return F.linear(encoded, head.weight)

    def _check(
        self, ids: Tensor, max_new_tokens: int, temperature: float, top_k: int | None
    ) -> None:
        if ids.dim() != 2 or not ids.numel() or ids.is_floating_point() or ids.dtype == torch.bool:
            raise ParameterError(
                f"ids is {tuple(ids.shape)} of {ids.dtype}; pass whole numbers of shape (B, L), a "
                "token at least"
            )
        least, most = int(ids.min()), int(ids.max())
        if least < 0 or most >= self.vocab_size:
            raise ParameterError(
                f"ids go from {least} to {most}; pass tokens from 0 to {self.vocab_size - 1}"
            )
        if max_new_tokens < 0:
            raise ParameterError(f"max_new_tokens={max_new_tokens}; pass a number from 0 on")
        if not 0 <= temperature < math.inf:
            raise ParameterError(
                f"temperature={temperature}; pass a number from 0 on, 0 for the likeliest token"
            )
        if top_k is not None and top_k < 1:
            raise ParameterError(f"top_k={top_k}; pass a number from 1 on, or None for all tokens")


def _choose(
    logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator | None
) -> Tensor:
    """Return a token for each row, shape (B, 1)."""
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    among, tokens = logits.topk(min(top_k or logits.shape[-1], logits.shape[-1]))
    odds = torch.softmax(among.float() / temperature, dim=-1)
    return tokens.gather(-1, torch.multinomial(odds, 1, generator=generator))
