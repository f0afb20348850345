"""Stays as forecasters read them, and what follows each token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tsmamba.records.events import Events
from tsmamba.records.reader import Reader
from tsmamba.records.tokens import Batch, Tokens, latest_values, tokenise

__all__ = ["Record", "Targets"]


@dataclass(frozen=True)
class Record:
    """Some stays.

    Parameters
    ----------
    tokens : Tokens
        Means of bins, carried forward.
    latest : Tensor of shape (total, V)
        Last single values, carried forward.
    """

    tokens: Tokens
    latest: Tensor

    @classmethod
    def of(cls, events: Events, reader: Reader) -> "Record":
        """Lay cleaned events out; every stay has a measurement."""
        given = events, reader.vocabulary, reader.width
        return cls(tokenise(*given), latest_values(*given))

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, stays: Tensor) -> tuple[Batch, Tensor]:
        """Gather stays, padded at their ends, and their last single values, (B, L, V)."""
        place, mask = self.tokens.places(stays)
        return self.tokens.batch(stays), self.latest[place] * mask[..., None]


@dataclass(frozen=True)
class Targets:
    """The values of each code in the bins of time after each token.

    A step is a bin of time, not a token: where nothing was measured in a bin, there is none.

    Parameters
    ----------
    record : Record
        Of the stays.
    place : int Tensor of shape (total, H)
        The token of the bin so many steps after each, -1 where there is none.
    """

    record: Record
    place: Tensor

    @classmethod
    def of(cls, record: Record, horizon: int) -> "Targets":
        """Find what follows each token, so many bins far."""
        bins = record.tokens.bins()
        longest = int(bins.max()) + horizon + 1
        key = record.tokens.owners() * longest + bins
        wanted = key[:, None] + torch.arange(1, horizon + 1)
        found = torch.searchsorted(key, wanted).clamp(max=len(key) - 1)
        return cls(record, torch.where(key[found] == wanted, found, -1))

    def at(self, token: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means of bins after some tokens and which are there, (..., H, V) each."""
        place = self.place[token]
        here = place.clamp(min=0)
        seen = (self.record.tokens.since[here] == 0) & (place >= 0)[..., None]
        return self.record.tokens.values[here], seen
