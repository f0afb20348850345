"""From lines to records: several lines joined, each read in the format of its source."""

from collections.abc import Mapping
from typing import Any

from tsmamba.logs.reading import Joiner, LineParser
from tsmamba.logs.record import Line, LogRecord
from tsmamba.logs.settings import LogSettings

__all__ = ["Reader"]

# From so many first lines of a source its format is decided, and where its stamps stand.
_FIRST = 64


class Reader:
    """Joins and reads the lines of any number of sources.

    Lines that wait for more are part of the state, so that a restart joins them as it would have.

    Parameters
    ----------
    settings : LogSettings
        Formats, and how lines are joined.
    references : mapping of str to int, optional
        Time near which the stamps of a source lie if they have no year, by the name of the source.

    Examples
    --------
    >>> reader = Reader(LogSettings(multiline=None))
    >>> line = Line("app.log", "app.log", 1, 0, 30, b"2026-03-01 10:00:00 INFO ready")
    >>> [(record.severity, record.body) for _, record in reader.read([line])]
    [('INFO', 'ready')]
    """

    def __init__(self, settings: LogSettings, references: Mapping[str, int] | None = None) -> None:
        self._settings = settings
        self._references = references or {}
        self._joiner: Joiner | None = settings.joiner()
        self._waiting: dict[str, list[Line]] = {}
        # Of each source the stream of its last line.
        self._current: dict[str, str] = {}
        self._parsers: dict[str, LineParser] = {}
        # Of each source what its parser learned from: the first texts, the last one, its time.
        self._first: dict[str, list[bytes]] = {}
        self._last: dict[str, bytes] = {}
        self._times: dict[str, int | None] = {}

    @property
    def formats(self) -> set[str]:
        """Formats that were found."""
        return {parser.chosen for parser in self._parsers.values() if parser.chosen is not None}

    @property
    def lines(self) -> int:
        """Records so far, joined lines counted once."""
        return sum(parser.lines for parser in self._parsers.values())

    @property
    def lines_unparsed(self) -> int:
        """Records with something amiss."""
        return sum(parser.lines_unparsed for parser in self._parsers.values())

    @property
    def unparsed(self) -> dict[str, int]:
        """Lines that did not fit, by what was amiss."""
        counts: dict[str, int] = {}
        for parser in self._parsers.values():
            for reason, count in parser.unparsed.items():
                counts[reason] = counts.get(reason, 0) + count
        return counts

    def read(self, lines: list[Line]) -> list[tuple[Line, LogRecord]]:
        """Return the records that are whole by these lines."""
        if self._joiner is None:
            whole = lines
        else:
            whole = [done for line in lines for done in self._join(self._joiner, line)]
        return [(line, record) for line in whole for record in self._parse(line)]

    def flush(self) -> list[tuple[Line, LogRecord]]:
        """Return the records that waited for more lines: nothing has come for a while."""
        if self._joiner is None:
            return []
        whole = []
        while (line := self._joiner.flush()) is not None:
            whole.append(line)
        self._waiting.clear()
        self._current.clear()
        return [(line, record) for line in whole for record in self._parse(line)]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "references": dict(self._references),
            "sources": {
                source: {
                    "lines": parser.lines,
                    "lines_unparsed": parser.lines_unparsed,
                    "unparsed": dict(parser.unparsed),
                    "first": [text.decode("latin-1") for text in self._first[source]],
                    "last": self._last[source].decode("latin-1"),
                    "time": self._times[source],
                }
                for source, parser in self._parsers.items()
            },
            "waiting": [
                [*line[:5], line.text.decode("latin-1")]
                for lines in self._waiting.values()
                for line in lines
            ],
        }

    @classmethod
    def from_dict(cls, settings: LogSettings, state: dict[str, Any]) -> "Reader":
        """Build it again from :meth:`to_dict`."""
        new = cls(settings, state["references"])
        for source, known in state["sources"].items():
            new._first[source] = [text.encode("latin-1") for text in known["first"]]
            new._last[source] = known["last"].encode("latin-1")
            new._times[source] = known["time"]
            parser = new._parsers[source] = settings.parser(known["time"])
            for text in new._first[source]:
                parser.parse_all(text)
            if known["lines"] > parser.lines and new._last[source]:
                parser.parse_all(new._last[source])
            parser.lines, parser.lines_unparsed = known["lines"], known["lines_unparsed"]
            parser.unparsed.clear()
            parser.unparsed.update(known["unparsed"])
        if new._joiner is not None:
            for source, stream, number, offset, end, text in state["waiting"]:
                line = Line(source, stream, number, offset, end, text.encode("latin-1"))
                new._join(new._joiner, line)
        return new

    def _join(self, joiner: Joiner, line: Line) -> list[Line]:
        """Return the records that this line shows to be whole."""
        whole = []
        before = self._current.get(line.source)
        if before is not None and before != line.stream:
            # The file before is complete: its last line must not wait behind those of this one.
            whole.append(joiner.flush(before))
            self._waiting.pop(before, None)
        self._current[line.source] = line.stream
        done = joiner.push(line)
        if done is None and line.stream in self._waiting:
            self._waiting[line.stream].append(line)
        else:
            self._waiting[line.stream] = [line]
            whole.append(done)
        return [each for each in whole if each is not None]

    def _parse(self, line: Line) -> list[LogRecord]:
        parser = self._parsers.get(line.source)
        if parser is None:
            reference = self._references.get(line.source)
            parser = self._parsers[line.source] = self._settings.parser(reference)
            self._first[line.source], self._last[line.source] = [], b""
            self._times[line.source] = reference
        if parser.lines < _FIRST:
            self._first[line.source].append(line.text)
        records = parser.parse_all(line.text)
        if records and records[-1].time is not None:
            self._last[line.source], self._times[line.source] = line.text, records[-1].time
        return records
