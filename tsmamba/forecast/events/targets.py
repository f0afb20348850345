"""What is to be forecast: the values of each code in the bins of time after each token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tsmamba.records.tokens import Tokens

__all__ = ["Targets"]


@dataclass(frozen=True)
class Targets:
    """Values that follow tokens.

    A step is a bin of time, not a token: where nothing was measured in a bin, there is none.

    Parameters
    ----------
    tokens : Tokens
        Of the stays.
    place : int Tensor of shape (total, H)
        The token of the bin so many steps after each, -1 where there is none.
    """

    tokens: Tokens
    place: Tensor

    @classmethod
    def of(cls, tokens: Tokens, horizon: int) -> "Targets":
        """Find what follows each token up to a horizon.

        Parameters
        ----------
        tokens : Tokens
            Of stays.
        horizon : int >= 1
            Bins ahead.

        Returns
        -------
        Targets
            Of each token.
        """
        bins = tokens.bins()
        longest = int(bins.max()) + horizon + 1
        key = tokens.owners() * longest + bins
        wanted = key[:, None] + torch.arange(1, horizon + 1)
        found = torch.searchsorted(key, wanted).clamp(max=len(key) - 1)
        return cls(tokens, torch.where(key[found] == wanted, found, -1))

    def at(self, token: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values after some tokens and which are there, (..., H, V) each."""
        place = self.place[token]
        here = place.clamp(min=0)
        seen = (self.tokens.since[here] == 0) & (place >= 0)[..., None]
        return self.tokens.values[here], seen
