"""What sources that read blocks have in common: lines that wait to be given, and losses."""

from tsmamba.logs.record import Line
from tsmamba.logs.sources.source import Loss
from tsmamba.logs.sources.splitter import Splitter

__all__ = ["BLOCK", "Buffered"]

BLOCK = 262_144
"""Bytes read at once."""


class Buffered:
    """Gives lines from a buffer; its owner fills the buffer when, and only when, it is empty.

    So everything that waits belongs to one stream, and what was given is known by its last line.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[Line] = []
        self._next = 0
        self._losses: list[Loss] = []

    @property
    def name(self) -> str:
        """Name for people."""
        return self._name

    @property
    def _empty(self) -> bool:
        return self._next == len(self._lines)

    def losses(self) -> list[Loss]:
        """Return what was lost since the last call.

        Returns
        -------
        list of Loss
        """
        lost, self._losses = self._losses, []
        return lost

    def _give(self, max_lines: int) -> list[Line]:
        lines = self._lines[self._next : self._next + max_lines]
        self._next += len(lines)
        return lines

    def _offer(self, lines: list[Line], splitter: Splitter) -> None:
        """Put lines into the empty buffer and tell which of them were too long."""
        self._lines, self._next = lines, 0
        for line, count in splitter.cuts:
            message = (
                f"line {line.number} of {line.source!r} at byte {line.offset} is longer than "
                f"{len(line.text)} bytes: the other {count} were left out"
            )
            self._losses.append(Loss(line.source, line.stream, line.end - count, count, message))
        splitter.cuts.clear()
