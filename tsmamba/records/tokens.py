"""Stays as sequences of tokens: values carried forward, what was observed, and how long ago."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tsmamba.records.events import Events
from tsmamba.records.vocabulary import Vocabulary

__all__ = ["NEVER", "Batch", "Tokens", "bin_of", "latest_values", "tokenise"]

# Bins since a code was measured, for those that never were.
NEVER = 255
# Share of a bin that quotients of times may be off by: an event at the end of a bin is still in it.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Batch:
    """Some stays, each padded to the longest.

    Parameters
    ----------
    values : Tensor of shape (B, L, V)
        Values carried forward, standardised; zero before the first.
    since : Tensor of shape (B, L, V)
        Bins since each was measured, 0 in the bin itself, `NEVER` before the first.
    elapsed : Tensor of shape (B, L)
        Bins since the token before.
    mask : bool Tensor of shape (B, L)
        Which tokens are there.
    statics : Tensor of shape (B, S)
        What is known at the start.
    """

    values: Tensor
    since: Tensor
    elapsed: Tensor
    mask: Tensor
    statics: Tensor


@dataclass(frozen=True)
class Tokens:
    """Stays one after the other; a token is a bin of time in which something was measured.

    Parameters
    ----------
    values : Tensor of shape (total, V), float32
        As in `Batch`.
    since : Tensor of shape (total, V), uint8
        As in `Batch`.
    elapsed : Tensor of shape (total,), float32
        As in `Batch`.
    offsets : Tensor of shape (n + 1,), int64
        Stay ``i`` is ``values[offsets[i]:offsets[i + 1]]``, which may be empty.
    statics : Tensor of shape (n, S), float32
        As in `Batch`.
    """

    values: Tensor
    since: Tensor
    elapsed: Tensor
    offsets: Tensor
    statics: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the stays of all parts, at least one."""
        counts = torch.cat([part.offsets.diff() for part in parts])
        return cls(
            values=torch.cat([part.values for part in parts]),
            since=torch.cat([part.since for part in parts]),
            elapsed=torch.cat([part.elapsed for part in parts]),
            offsets=torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            statics=torch.cat([part.statics for part in parts]),
        )

    def batch(self, stays: Tensor) -> Batch:
        """Gather stays, padded at their ends.

        Parameters
        ----------
        stays : int Tensor of shape (B,)
            Numbers of stays that are not empty.

        Returns
        -------
        Batch
            In their order.
        """
        place, mask = self.places(stays)
        return Batch(
            self.values[place] * mask[..., None],
            self.since[place],
            self.elapsed[place],
            mask,
            self.statics[stays],
        )

    def places(self, stays: Tensor) -> tuple[Tensor, Tensor]:
        """Return where the tokens of `batch` lie, and which are there; (B, L) each."""
        begin, end = self.offsets[stays], self.offsets[stays + 1]
        step = torch.arange(int((end - begin).max()))
        mask = step < (end - begin)[:, None]
        return torch.where(mask, begin[:, None] + step, begin[:, None]), mask

    def owners(self) -> Tensor:
        """Return the stay of each token, shape (total,)."""
        return torch.repeat_interleave(torch.arange(len(self)), self.offsets.diff())

    def bins(self) -> Tensor:
        """Return the bin of each token, int64 of shape (total,), counted from its stay's first."""
        passed = self.elapsed.long().cumsum(0)
        starts = self.offsets[:-1][self.owners()]
        return passed - passed[starts]


def bin_of(time: np.ndarray, width: float) -> np.ndarray:
    """Return the bins of times, int64; a bin reaches up to and with its end."""
    return np.maximum(np.ceil(time / width - _ROUNDING).astype(np.int64) - 1, 0)


def tokenise(events: Events, vocabulary: Vocabulary, width: float) -> Tokens:
    """Turn events into tokens.

    Parameters
    ----------
    events : Events
        Cleaned.
    vocabulary : Vocabulary
        The codes to read.
    width : float > 0
        Length of a bin.

    Returns
    -------
    Tokens
        Of every stay of `events`.
    """
    laid = _laid_out(events, vocabulary, width)
    counts = np.bincount(laid.cell, minlength=laid.size).reshape(laid.shape)
    sums = np.bincount(laid.cell, laid.value, minlength=laid.size).reshape(laid.shape)
    means = sums / np.maximum(counts, 1)
    last, known = laid.last_seen(counts > 0)
    carried = np.where(known, np.take_along_axis(means, last, 0), 0.0)
    when = laid.when
    since = np.where(known, np.minimum(when[:, None] - when[last], NEVER - 1), NEVER)
    elapsed = np.diff(when, prepend=0)
    elapsed[laid.offsets[:-1][np.diff(laid.offsets) > 0]] = 1
    return Tokens(
        torch.from_numpy(carried.astype(np.float32)),
        torch.from_numpy(since.astype(np.uint8)),
        torch.from_numpy(elapsed.astype(np.float32)),
        torch.from_numpy(laid.offsets),
        torch.from_numpy(vocabulary.static_features(events)),
    )


def latest_values(events: Events, vocabulary: Vocabulary, width: float) -> Tensor:
    """Return the last single value of each code at each token, where `tokenise` gives means.

    Parameters
    ----------
    events, vocabulary, width
        As in `tokenise`.

    Returns
    -------
    Tensor of shape (total, V), float32
        Standardised and carried forward; zero before the first.
    """
    laid = _laid_out(events, vocabulary, width)
    table, seen = np.zeros(laid.size), np.zeros(laid.size, bool)
    # Rows are sorted by time, and of several for one cell the last is kept.
    table[laid.cell], seen[laid.cell] = laid.value, True
    last, known = laid.last_seen(seen.reshape(laid.shape))
    carried = np.where(known, np.take_along_axis(table.reshape(laid.shape), last, 0), 0.0)
    return torch.from_numpy(carried.astype(np.float32))


class _Laid(NamedTuple):
    """Measurements, and the cell of the table of tokens by codes that each falls into."""

    value: np.ndarray  # standardised
    cell: np.ndarray
    when: np.ndarray  # the bin of each token
    offsets: np.ndarray
    shape: tuple[int, int]

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def last_seen(self, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the last token of the stay, up to each, that was seen, and whether there is one.

        All have the shape of the table.
        """
        start = np.repeat(self.offsets[:-1], np.diff(self.offsets))[:, None]
        last = np.maximum.accumulate(np.where(seen, np.arange(len(seen))[:, None], -1), axis=0)
        known = last >= start
        return np.where(known, last, 0), known


def _laid_out(events: Events, vocabulary: Vocabulary, width: float) -> _Laid:
    codes = pl.DataFrame(
        {"code": list(vocabulary.codes), "number": range(len(vocabulary.codes))},
        schema={"code": pl.String, "number": pl.Int64},
    )
    rows = events.rows.join(codes, on="code", maintain_order="left")
    stay = rows["stay"].to_numpy().astype(np.int64)
    number = rows["number"].to_numpy()
    place = bin_of(rows["time"].to_numpy(), width)
    value = rows["value"].to_numpy().copy()
    for index, scale in enumerate(vocabulary.codes.values()):
        here = number == index
        value[here] = scale(value[here])

    # Rows are sorted by stay and time, so a token starts where either changes.
    new = np.ones(len(stay), bool)
    new[1:] = (stay[1:] != stay[:-1]) | (place[1:] != place[:-1])
    shape = int(new.sum()), len(codes)
    cell = (np.cumsum(new) - 1) * shape[1] + number
    offsets = np.searchsorted(stay[new], np.arange(len(events.ids) + 1))
    return _Laid(value, cell, place[new], offsets, shape)
