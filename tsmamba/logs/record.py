"""A line of a log, as it was read and as it was understood."""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Line", "LogRecord"]


class Line(NamedTuple):
    """One line as it lies in its source; several once a stack trace is joined.

    Attributes
    ----------
    source : str
        Name for people: a path, or ``"-"`` for standard input.
    stream : str
        Identity of the bytes: the same file has the same one after it was renamed, and another
        after it was cut and written anew. With `offset` it names the line for ever.
    number : int
        Number of its first line in the source, from 1.
    offset : int
        Byte at which it starts.
    end : int
        Byte after its last line end: where the next line starts.
    text : bytes
        What it says, without the last line end.
    """

    source: str
    stream: str
    number: int
    offset: int
    end: int
    text: bytes


class LogRecord(NamedTuple):
    """What a line says.

    Attributes
    ----------
    body : str
        The message, without the time, the severity and the frame of its format.
    time : int or None
        Nanoseconds since 1970, UTC; None if the line has no time.
    severity : str or None
        As OpenTelemetry names it: ``TRACE``, ``DEBUG``, ``INFO``, ``WARN``, ``ERROR``, ``FATAL``.
    fields : mapping of str to str
        Everything else, by name: service, host, process.
    template : str or None
        Template that the record already carries (``log.record.template``).
    """

    body: str
    time: int | None = None
    severity: str | None = None
    fields: Mapping[str, str] = {}
    template: str | None = None
