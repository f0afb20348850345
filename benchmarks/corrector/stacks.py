"""Networks that take the place of the corrector's Mamba stack: same tokens, same residual form."""

import torch
from torch import Tensor, nn

from tsmamba.nn.stack import NORM_EPS


class LstmStack(nn.Module):
    """Pre-norm residual blocks of an LSTM and a projection, with a final norm.

    A masked token enters as zeros; unlike a Mamba, an LSTM cannot be told to skip it.

    Parameters
    ----------
    width, n_layers : int
        Of tokens and states, and number of blocks.
    dropout : float
        On what a block adds.

    Examples
    --------
    >>> LstmStack(8, n_layers=2, dropout=0.0)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=NORM_EPS) for _ in range(n_layers))
        self.lstms = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(n_layers))
        self.projections = nn.ModuleList(nn.Linear(width, width) for _ in range(n_layers))
        self.dropout = nn.Dropout(dropout)
        self.norm_f = nn.RMSNorm(width, eps=NORM_EPS)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, delta_scale: Tensor | None = None
    ) -> Tensor:
        """Encode tokens (n, T, D); a mask (n, T) is False where there is nothing to see.

        ``delta_scale`` changes nothing here: the network knows no time.
        """
        for norm, lstm, project in zip(self.norms, self.lstms, self.projections, strict=True):
            states, _ = lstm(_seen(norm(x), mask))
            x = x + self.dropout(project(states))
        out: Tensor = self.norm_f(x)
        return out


class MlpMixer(nn.Module):
    """Blocks that mix tokens, then channels, each by a perceptron; with a final norm.

    Tokens have fixed places from the first on. Fewer than the greatest number are filled up with
    zeros, and so are masked ones.

    Parameters
    ----------
    width, n_layers, most_tokens : int
        Of tokens, number of blocks, and greatest number of tokens.
    dropout : float
        On what a perceptron adds.

    References
    ----------
    Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", 2021.

    Examples
    --------
    >>> mixer = MlpMixer(8, n_layers=2, most_tokens=6, dropout=0.0)
    >>> mixer(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int, n_layers: int, most_tokens: int, dropout: float) -> None:
        super().__init__()
        self.most_tokens = most_tokens
        # These hidden sizes give a block of the bundled shape the parameters of a Mamba block.
        tokens, channels = 2 * width, 3 * width
        self.token_mixers = nn.ModuleList(_perceptron(most_tokens, tokens) for _ in range(n_layers))
        self.channel_mixers = nn.ModuleList(_perceptron(width, channels) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=NORM_EPS) for _ in range(2 * n_layers))
        self.dropout = nn.Dropout(dropout)
        self.norm_f = nn.RMSNorm(width, eps=NORM_EPS)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, delta_scale: Tensor | None = None
    ) -> Tensor:
        """Encode tokens (n, T, D); a mask (n, T) is False where there is nothing to see.

        ``delta_scale`` changes nothing here: the network knows no time.
        """
        n_tokens = x.shape[1]
        absent = self.most_tokens - n_tokens
        mixers = zip(self.token_mixers, self.channel_mixers, strict=True)
        for depth, (mix_tokens, mix_channels) in enumerate(mixers):
            normed = _seen(self.norms[2 * depth](x), mask)
            full = nn.functional.pad(normed.mT, (0, absent))  # (n, D, most_tokens)
            x = x + self.dropout(mix_tokens(full)[..., :n_tokens].mT)
            x = x + self.dropout(mix_channels(self.norms[2 * depth + 1](x)))
        out: Tensor = self.norm_f(x)
        return out


class NoInput(nn.Module):
    """Stands in for the embedding of the base forecast and gives zeros.

    Parameters
    ----------
    width : int
        Of tokens.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, patches: Tensor) -> Tensor:
        """Return zeros of shape (n, T, D)."""
        return patches.new_zeros(*patches.shape[:-1], self.width)


def _perceptron(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


def _seen(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else torch.where(mask.unsqueeze(-1), x, 0.0)
