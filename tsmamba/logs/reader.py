"""From lines to records: several lines joined, each read in the format of its source."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tsmamba.logs.reading import Joiner, LineParser
from tsmamba.logs.record import Line, LogRecord
from tsmamba.logs.settings import LogSettings

__all__ = ["Reader"]


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
        self._last: dict[str, int | None] = {}
        self._joiner: Joiner | None = settings.joiner()
        self._waiting: dict[str, list[Line]] = {}
        self._parsers: dict[str, LineParser] = {}

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
            whole = [done for line in lines if (done := self._join(line)) is not None]
        return [(line, record) for line in whole for record in self._parse(line)]

    def flush(self) -> list[tuple[Line, LogRecord]]:
        """Return the records that waited for more lines: nothing has come for a while."""
        if self._joiner is None:
            return []
        whole = []
        while (line := self._joiner.flush()) is not None:
            whole.append(line)
        self._waiting.clear()
        return [(line, record) for line in whole for record in self._parse(line)]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "sources": {
                source: [
                    parser.chosen,
                    parser.lines,
                    parser.lines_unparsed,
                    dict(parser.unparsed),
                    self._last.get(source),
                ]
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
        new = cls(settings)
        for source, (chosen, lines, amiss, reasons, last) in state["sources"].items():
            parser = replace(settings, format=chosen or settings.format).parser(last)
            parser.lines, parser.lines_unparsed = lines, amiss
            parser.unparsed.update(reasons)
            new._parsers[source], new._last[source] = parser, last
        for source, stream, number, offset, end, text in state["waiting"]:
            new._join(Line(source, stream, number, offset, end, text.encode("latin-1")))
        return new

    def _join(self, line: Line) -> Line | None:
        if self._joiner is None:
            return line
        done = self._joiner.push(line)
        if done is None and line.stream in self._waiting:
            self._waiting[line.stream].append(line)
        else:
            self._waiting[line.stream] = [line]
        return done

    def _parse(self, line: Line) -> list[LogRecord]:
        parser = self._parsers.get(line.source)
        if parser is None:
            reference = self._references.get(line.source)
            parser = self._parsers[line.source] = self._settings.parser(reference)
        records = parser.parse_all(line.text)
        if records:
            self._last[line.source] = records[-1].time
        return records
