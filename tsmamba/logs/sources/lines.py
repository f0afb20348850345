"""Lines that a program already has."""

from collections.abc import Iterable
from itertools import islice

from tsmamba.errors import ParameterError
from tsmamba.logs.record import Line
from tsmamba.logs.sources.source import Loss, Positions

__all__ = ["LinesSource"]


class LinesSource:
    """Lines from an iterable; each item is one, with or without its line end.

    Parameters
    ----------
    lines : iterable of str or bytes
        Text is taken as UTF-8.
    name : str, default "lines"
        Name for people, and identity: offsets are those in a file of these lines.

    Raises
    ------
    ParameterError
        If it is one text, or an item is neither text nor bytes.

    Examples
    --------
    >>> source = LinesSource(["started", "stopped"])
    >>> [(line.number, line.offset, line.text) for line in source.read(10)]
    [(1, 0, b'started'), (2, 8, b'stopped')]
    """

    def __init__(self, lines: Iterable[str | bytes], name: str = "lines") -> None:
        if isinstance(lines, str | bytes):
            raise ParameterError(
                "lines is one text; give a list of lines: text.splitlines() makes one"
            )
        self._lines = iter(lines)
        self._name = name
        self._done = False
        self._number = 0
        self._offset = 0

    @property
    def name(self) -> str:
        """Name for people."""
        return self._name

    @property
    def done(self) -> bool:
        """Whether the iterable has ended."""
        return self._done

    def read(self, max_lines: int) -> list[Line]:
        """Return the next lines.

        Parameters
        ----------
        max_lines : int
            At most so many.

        Returns
        -------
        list of Line
        """
        lines = [self._line(item) for item in islice(self._lines, max_lines)]
        self._done = self._done or len(lines) < max_lines
        return lines

    def wait(self, timeout: float) -> bool:
        """Return at once: an iterable never keeps waiting.

        Parameters
        ----------
        timeout : float
            Not used.

        Returns
        -------
        bool
            Whether there may be something to read.
        """
        return not self._done

    def positions(self) -> Positions:
        """Return the lines and bytes given so far.

        Returns
        -------
        mapping
        """
        return {self._name: {"number": self._number, "offset": self._offset}}

    def seek(self, positions: Positions) -> None:
        """Skip the lines given before; the iterable must start with them again.

        Parameters
        ----------
        positions : mapping
            As `positions` returned them.
        """
        if self._name in positions:
            while self._number < positions[self._name]["number"] and not self._done:
                self.read(1)

    def losses(self) -> list[Loss]:
        """Return nothing: an iterable loses no line.

        Returns
        -------
        list of Loss
        """
        return []

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _line(self, item: str | bytes) -> Line:
        if not isinstance(item, str | bytes):
            raise ParameterError(
                f"line {self._number + 1} of {self._name!r} is a {type(item).__name__}; "
                "give text or bytes"
            )
        raw = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
        raw = raw.removesuffix(b"\n")
        start = self._offset
        self._number += 1
        self._offset = start + len(raw) + 1
        text = raw.removesuffix(b"\r")
        return Line(self._name, self._name, self._number, start, self._offset, text)
