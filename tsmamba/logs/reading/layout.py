"""Where the parts of a line lie, remembered for lines that begin alike but for their digits."""

import re
from typing import NamedTuple

from tsmamba.logs.reading.clock import Clock, Spans
from tsmamba.logs.reading.severity import Place, Span
from tsmamba.logs.record import LogRecord

__all__ = ["Layout", "Layouts"]

_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_SHORTEST_SHAPE, _LONGEST_SHAPE = 64, 256
_MEMORY_SIZE = 4_096


class Layout(NamedTuple):
    """Where the parts of a line lie.

    Attributes
    ----------
    spans : tuple of int
        Those of the time stamp.
    severity : str or None
        By its name in OpenTelemetry.
    places : tuple of (str, int, int)
        Names of fields, where each begins and ends.
    before : tuple of (int, int)
        Parts of the body that lie before its start.
    start : int
        Where the body starts.
    """

    spans: Spans
    severity: str | None
    places: tuple[Place, ...]
    before: tuple[Span, ...]
    start: int


class Layouts:
    """Layouts by the shape of the head of a line: its first bytes with 0 for every digit.

    No pattern of this package asks which digit stands somewhere, so lines of one shape have their
    parts at the same places. This saves most of the work, since programs write few shapes.

    Parameters
    ----------
    clock : Clock
        What reads time stamps.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._layouts: dict[bytes, Layout] = {}
        self._length = _SHORTEST_SHAPE

    def read(self, text: str) -> LogRecord | None:
        """Read a line of a known shape; None if it is unknown."""
        if not text.isascii():
            return None
        layout = self._layouts.get(text[: self._length].encode().translate(_DIGITS))
        return None if layout is None else self.record(text, layout)

    def record(self, text: str, layout: Layout, match: re.Match[str] | None = None) -> LogRecord:
        """Take a line apart; `match` is its time stamp, if it was just found."""
        spans, severity, places, before, start = layout
        time = self._clock.read_at(text, spans, match)
        body = text[start:]
        if before:
            body = " ".join((*[text[first:last] for first, last in before], body))
        if not places:
            return LogRecord(body, time, severity)
        return LogRecord(body, time, severity, {name: text[a:b] for name, a, b in places})

    def keep(self, text: str, layout: Layout, seen: int) -> None:
        """Remember a layout that was found by looking at the line up to `seen`.

        Sources with longer heads get longer shapes.
        """
        if not text.isascii():
            return
        if seen >= self._length:
            if self._length < _LONGEST_SHAPE:
                self._length *= 2
                self._layouts.clear()
            return
        if len(self._layouts) >= _MEMORY_SIZE:
            self._layouts.clear()
        self._layouts[text[: self._length].encode().translate(_DIGITS)] = layout
