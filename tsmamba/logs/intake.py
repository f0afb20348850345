"""What may be given as a log: files, lines or a frame; each becomes lines and records."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tsmamba.errors import FrameError, ParameterError
from tsmamba.logs.reader import Reader
from tsmamba.logs.reading.severity import severity_of
from tsmamba.logs.record import Line, LogRecord
from tsmamba.logs.sources import LinesSource, Source, open_sources

__all__ = ["LogSource", "batches", "last_changes"]

LogSource: TypeAlias = Any
"""A path, several paths, an iterable of lines, or a frame."""

_BATCH = 4_096
_MESSAGES = ("line", "message", "body")
_TIMES = ("time", "ds", "timestamp")
_PAUSE = 1.0


def batches(source: LogSource, reader: Reader) -> Iterator[list[tuple[Line, LogRecord]]]:
    """Read a log to its end, some thousand records at a time."""
    if _is_frame(source):
        yield from _of_frame(source, reader)
        return
    paths = _paths(source)
    # Files one after the other: those of a rotation are given in the order of time.
    for opened in [LinesSource(source)] if paths is None else [open_sources([p]) for p in paths]:
        yield from _of_source(opened, reader)
    yield reader.flush()


def last_changes(source: LogSource) -> dict[str, int]:
    """Return when each file was last written to: stamps without a year need it."""
    changes = {}
    for path in _paths(source) or ():
        try:
            changes[path] = Path(path).stat().st_mtime_ns
        except OSError:
            continue
    return changes


def _of_source(opened: Source, reader: Reader) -> Iterator[list[tuple[Line, LogRecord]]]:
    try:
        while not opened.done:
            lines = opened.read(_BATCH)
            if lines:
                yield reader.read(lines)
            else:
                opened.wait(_PAUSE)
    finally:
        opened.close()


def _is_frame(source: LogSource) -> bool:
    # Asked of the type: a lazy frame computes its columns, and says that it is slow.
    return hasattr(type(source), "columns")


def _paths(source: LogSource) -> list[str] | None:
    """Return the files that are meant; None if a frame or the lines themselves are given."""
    if _is_frame(source):
        return None
    if isinstance(source, str) and "\n" in source:
        raise ParameterError(
            "the log is a text of several lines; give a path, or the lines as a list: "
            "text.splitlines()"
        )
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise ParameterError(
            f"a log of type {type(source).__name__}; give a path, several paths, an iterable of "
            f"lines, or a frame with a column 'line', 'message' or 'template'"
        )
    if isinstance(source, (list, tuple)) and source and all(map(_is_file, source)):
        return [os.fspath(item) for item in source]
    return None


def _is_file(item: object) -> bool:
    if isinstance(item, os.PathLike):
        return True
    return isinstance(item, str) and len(item) < 4_096 and "\0" not in item and Path(item).is_file()


def _of_frame(frame: Any, reader: Reader) -> Iterator[list[tuple[Line, LogRecord]]]:
    """Read a frame: raw lines, or records with a message or a template."""
    # Here, because the command that reads lines must not wait for polars.
    from tsmamba.data.frame import to_polars

    rows = to_polars(frame)
    if rows.height == 0:
        raise FrameError("the log has no rows; give at least one")
    text = next((name for name in _MESSAGES if name in rows.columns), None)
    if text is None and "template" not in rows.columns:
        raise FrameError(
            f"a log with the columns {', '.join(map(repr, rows.columns))}; give the text in "
            f"'line' or 'message', or the template in 'template'"
        )
    if text == "line":
        lines = [_line(i, str(value or "")) for i, value in enumerate(rows["line"])]
        yield reader.read(lines)
        yield reader.flush()
        return
    times = _times(rows)
    named = {text, "template", "severity", *_TIMES}
    fields = [name for name in rows.columns if name not in named]
    found = []
    for i, row in enumerate(rows.iter_rows(named=True)):
        record = LogRecord(
            body=str(row[text or "template"] or ""),
            time=times[i],
            severity=severity_of(row.get("severity")),
            fields={name: str(row[name]) for name in fields if row[name] is not None},
            template=None if row.get("template") is None else str(row["template"]),
        )
        found.append((_line(i, record.body), record))
    yield found


def _times(rows: Any) -> list[int | None]:
    """Nanoseconds since 1970 of each row, where there is a column of times."""
    import polars as pl

    name = next((name for name in _TIMES if name in rows.columns), None)
    if name is None:
        return [None] * rows.height
    column = rows[name]
    if column.dtype not in (pl.Datetime, pl.Date):
        raise FrameError(
            f"column {name!r} is {column.dtype}; give times as Datetime or Date, or raw lines in "
            f"'line'"
        )
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    nanoseconds: list[int | None] = column.cast(pl.Datetime("ns")).dt.timestamp("ns").to_list()
    return nanoseconds


def _line(index: int, text: str) -> Line:
    return Line("frame", "frame", index + 1, index, index + 1, text.encode())
