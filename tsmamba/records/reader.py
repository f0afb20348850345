"""From a frame of events to what models read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl

from tsmamba.errors import FrameError
from tsmamba.records.cleaning import Rules
from tsmamba.records.events import Events, Repairs, brief
from tsmamba.records.moments import Moments, prefixes
from tsmamba.records.summaries import summarise
from tsmamba.records.tokens import Tokens, tokenise
from tsmamba.records.vocabulary import Vocabulary

__all__ = ["Reader", "Stays"]

_SHOWN = 5


@dataclass(frozen=True)
class Stays:
    """Stays in both forms that models read.

    Parameters
    ----------
    tokens : Tokens
        For networks.
    summaries : ndarray of shape (n, F) or None
        For trees, where there are any.
    """

    tokens: Tokens
    summaries: np.ndarray | None

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Return the stays of all parts."""
        parts = list(parts)
        tables = [part.summaries for part in parts if part.summaries is not None]
        return cls(
            Tokens.joined([part.tokens for part in parts]),
            np.concatenate(tables) if tables else None,
        )


@dataclass(frozen=True)
class Reader:
    """How frames of events become what models read; settled by the fit.

    Parameters
    ----------
    rules : Rules
        What cleans events.
    vocabulary : Vocabulary
        The codes.
    width : float
        Length of a bin of time.
    """

    rules: Rules
    vocabulary: Vocabulary
    width: float

    @classmethod
    def learn(
        cls, events: Events, n_bins: int, max_codes: int, repairs: Repairs
    ) -> tuple["Reader", Events]:
        """Learn from training stays, as they were read.

        Parameters
        ----------
        events : Events
            Not yet cleaned.
        n_bins : int
            Bins of a usual stay.
        max_codes : int
            Codes to keep.
        repairs : Repairs
            What was wrong is counted there.

        Returns
        -------
        Reader
            For these and for other stays.
        Events
            These, cleaned.

        Raises
        ------
        FrameError
            If nothing is measured more than once.
        """
        rules = Rules.learn(events)
        cleaned = rules.clean(events, repairs)
        vocabulary = Vocabulary.learn(cleaned, max_codes)
        if not vocabulary.codes:
            told = "".join(f"; {line}" for line in repairs.lines())
            raise FrameError(
                "no code is measured after the start of a stay; check the columns of times and "
                f"codes, or use a classifier of tables for what is known at the start{told}"
            )
        reader = cls(rules, vocabulary, rules.span / n_bins)
        return reader, reader._known(cleaned, repairs)

    def clean(self, events: Events, repairs: Repairs) -> Events:
        """Clean events; those of codes that are not known are counted and left out."""
        return self._known(self.rules.clean(events, repairs), repairs)

    def measured(self, events: Events, moments: Moments | None = None) -> np.ndarray:
        """Tell of which stays of cleaned events, or by which moments, something was measured."""
        moments = Moments.ends(events) if moments is None else moments
        first = np.full(len(events.ids), np.nan)
        rows = events.rows.filter(pl.col("code").is_in(list(self.vocabulary.codes)))
        rows = rows.group_by("stay").agg(pl.col("time").min())
        first[rows["stay"].to_numpy()] = rows["time"].to_numpy()
        there: np.ndarray = first[moments.stay] <= moments.time
        return there

    def stays(self, events: Events, *, summaries: bool) -> Stays:
        """Turn cleaned events into what models read, with summaries for trees or without."""
        table = None
        if summaries:
            table = summarise(events, self.vocabulary, self.rules.span).to_numpy()
        return Stays(tokenise(events, self.vocabulary, self.width), table)

    def stays_at(self, events: Events, moments: Moments, *, summaries: bool) -> Iterator[Stays]:
        """Yield what was known of cleaned stays at moments, some at a time, in their order."""
        for part in prefixes(events, moments):
            yield self.stays(part, summaries=summaries)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "rules": self.rules.to_dict(),
            "vocabulary": self.vocabulary.to_dict(),
            "width": self.width,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Reader":
        """Undo `to_dict`."""
        rules = Rules.from_dict(state["rules"])
        return cls(rules, Vocabulary.from_dict(state["vocabulary"]), state["width"])

    def _known(self, cleaned: Events, repairs: Repairs) -> Events:
        codes = [*self.vocabulary.codes, *self.vocabulary.statics]
        known = pl.col("code").is_in(codes)
        strange = cleaned.rows.filter(~known)
        names = strange["code"].unique(maintain_order=True).head(_SHOWN)
        shown = ", ".join(map(brief, names))
        repairs.note("a code that the model does not know", len(strange), shown)
        return Events(cleaned.ids, cleaned.rows.filter(known), from_zero=True)
