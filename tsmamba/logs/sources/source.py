"""What a source of lines is, and how it tells what it lost."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from tsmamba.logs.record import Line

__all__ = ["Loss", "Positions", "Source"]

Positions = Mapping[str, dict[str, Any]]
"""Where each source stands, by its key; JSON can hold it."""


class Loss(NamedTuple):
    """Bytes that were in a source and will never be given.

    Attributes
    ----------
    source : str
        Name for people, as in a line.
    stream : str
        Identity of the bytes, as in a line; empty if nothing of them was ever given.
    offset : int
        Byte at which the lost part starts.
    n_bytes : int
        Bytes known to be lost. More may be: nobody saw what was written and removed meanwhile.
    message : str
        What happened.
    """

    source: str
    stream: str
    offset: int
    n_bytes: int
    message: str


class Source(Protocol):
    """Gives lines in order, knows where it stands, and goes on from there another day."""

    @property
    def name(self) -> str:
        """Name for people: a path, or ``"-"``."""

    @property
    def done(self) -> bool:
        """Whether nothing will ever come."""

    def read(self, max_lines: int) -> list[Line]:
        """Return at once with the lines that are there, at most so many."""

    def wait(self, timeout: float) -> bool:
        """Sleep until there is something to read, at most so many seconds; say whether there is."""

    def positions(self) -> Positions:
        """Return where to go on after the lines given so far."""

    def seek(self, positions: Positions) -> None:
        """Go on from there; a source that is not among them starts as it would have."""

    def losses(self) -> list[Loss]:
        """Return what was lost since the last call."""

    def close(self) -> None:
        """Let go of what is open."""
