"""Which format a source has, decided once from its first lines."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from tsmamba.logs.reading.misfit import Misfit
from tsmamba.logs.record import LogRecord

__all__ = ["Chooser", "Reader"]

_LINES = 20
# A program that writes a banner first has few lines of its true format among the first ones.
_SHARE = 0.2


class Reader(Protocol):
    """What reads lines of one format."""

    def read(self, text: str) -> list[LogRecord]:
        """Read one line: one record, unless it is an envelope of several; or raise `Misfit`."""
        ...


class Chooser:
    """Reads lines with the reader of their format; what does not fit is read as raw, and counted.

    Until the format is chosen, each line is read as what it looks like. The most frequent format
    of the first 20 lines is chosen, raw only if no other has a fifth of them.

    Parameters
    ----------
    readers : mapping of str to Reader
        Readers by format; ``raw`` is one of them.
    sniff : callable
        What a line looks like: one of the formats.
    count : callable
        Called with a reason for each line that does not fit.
    chosen : str or None
        Format, if it is known.

    Attributes
    ----------
    chosen : str or None
        Format; None until it is decided.
    """

    def __init__(
        self,
        readers: Mapping[str, Reader],
        sniff: Callable[[str], str],
        count: Callable[[str], None],
        chosen: str | None = None,
    ) -> None:
        self.chosen = chosen
        self._readers = readers
        self._sniff = sniff
        self._count = count
        self._votes: Counter[str] = Counter()

    def read(self, text: str) -> list[LogRecord]:
        """Read one line."""
        name = self.chosen or self._vote(text)
        try:
            return self._readers[name].read(text)
        except Misfit:
            self._count(f"not {name}")
            return self._readers["raw"].read(text)

    def _vote(self, text: str) -> str:
        name = self._sniff(text)
        self._votes[name] += 1
        if self._votes.total() >= _LINES:
            framed = {name: n for name, n in self._votes.items() if name != "raw"}
            best = max(framed, key=lambda name: framed[name], default="raw")
            self.chosen = best if framed.get(best, 0) >= _SHARE * _LINES else "raw"
        return name
