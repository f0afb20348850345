"""Lines of no stated format: a time stamp, a severity, columns of a header, a message."""

import re

from tsmamba.logs.reading.clock import Clock, spans_of
from tsmamba.logs.reading.layout import Layout, Layouts
from tsmamba.logs.reading.severity import (
    Head,
    Span,
    read_head,
    severity_of,
    skip_separators,
)
from tsmamba.logs.record import LogRecord

__all__ = ["RawReader"]

_SIDE_GROUPS = ("pid", "host", "label")
_NUMBERS_AND_MARKS = re.compile(r"(?:(?:\d+|[^\w\s]+)\s+)*")


class RawReader:
    """Reads raw lines.

    The body is the line without its time stamp, its severity and the numbers of process and
    thread beside it; names of components stay, since they tell one message from another.

    Parameters
    ----------
    clock : Clock
        What finds and reads time stamps.

    Examples
    --------
    >>> (record,) = RawReader(Clock()).read("2026-01-02 03:04:05,678 WARN [main] Disk: 91% full")
    >>> record.severity, record.body
    ('WARN', 'Disk: 91% full')
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._layouts = Layouts(clock)

    def read(self, text: str) -> list[LogRecord]:
        """Read one line, or several that belong together."""
        return [self._layouts.read(text) or self._read(text)]

    def _read(self, text: str) -> LogRecord:
        match = self._clock.find(text)
        if match is None:
            head = read_head(text, after_stamp=False)
            fields = {name: text[first:last] for name, first, last in head.places}
            return LogRecord(text[head.start :], None, head.severity, fields)
        groups = match.re.groupindex
        letter = match["L"] if "L" in groups else None
        if letter is None:
            head = read_head(text, match.end())
        else:
            start = skip_separators(text, match.end())
            head = Head(severity_of(letter), start, start)
        places = head.places + tuple(
            (name, *match.span(name)) for name in _SIDE_GROUPS if name in groups and match[name]
        )
        before = (*_prefix(text, match.start()), *head.before)
        layout = Layout(spans_of(match), head.severity, places, before, head.start)
        if match.start() == 0 or self._clock.settled:
            self._layouts.keep(text, layout, head.seen)
        return self._layouts.record(text, layout, match)


def _prefix(text: str, end: int) -> tuple[Span, ...]:
    """Give what stands before a stamp, less an opening bracket and a leading number or mark."""
    end = len(text[:end].rstrip(" \t[(<\"'|"))
    marks = _NUMBERS_AND_MARKS.match(text, 0, end)
    start = marks.end() if marks is not None else 0
    return ((start, end),) if start < end else ()
