"""The network: a guess of the next template at every line of a session."""

import torch
from torch import Tensor, nn

from tsmamba.nn import MambaStack

__all__ = ["OUTSIDE", "UNKNOWN", "NextTemplate", "gap_features"]

# What stands before the first line and comes after the last, and any template without a number.
OUTSIDE, UNKNOWN = 0, 1

_WIDTH, _LAYERS = 32, 2
_FIRST_SPREAD = 0.5
# Brings the logarithm of a day of seconds to the size of an embedding.
_GAP_SCALE = 0.25


class NextTemplate(nn.Module):
    """Logits of the next template after each line.

    Parameters
    ----------
    n_numbers : int
        Templates that have a number, and the two that stand for the end and for all others.

    Examples
    --------
    >>> network = NextTemplate(5)
    >>> numbers, gaps = torch.tensor([[0, 2, 3]]), torch.tensor([[-1.0, 0.0, 2.5]])
    >>> network(numbers, gaps).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, n_numbers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_numbers, _WIDTH)
        nn.init.normal_(self.embedding.weight, std=_FIRST_SPREAD)
        self.gap = nn.Linear(2, _WIDTH, bias=False)
        self.stack = MambaStack(_WIDTH, _LAYERS)
        self.head = nn.Linear(_WIDTH, n_numbers)

    def forward(self, numbers: Tensor, gaps: Tensor) -> Tensor:
        """Return logits of shape (B, L, numbers) for lines of shape (B, L)."""
        logits: Tensor = self.head(self.stack(self.embed(numbers, gaps)))
        return logits

    def embed(self, numbers: Tensor, gaps: Tensor) -> Tensor:
        """Return what the stack reads for lines of any shape."""
        lines: Tensor = self.embedding(numbers) + self.gap(gap_features(gaps))
        return lines


def gap_features(gaps: Tensor) -> Tensor:
    """Return the logarithm of each gap in seconds, and whether it is known: a negative one is not.

    Examples
    --------
    >>> gap_features(torch.tensor([0.0, -1.0]))
    tensor([[0., 1.],
            [0., 0.]])
    """
    return torch.stack([torch.log1p(gaps.clamp(min=0.0)) * _GAP_SCALE, (gaps >= 0.0).float()], -1)
