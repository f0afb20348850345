"""Whether a line says of itself that something is wrong."""

import re

from tsmamba.logs.record import LogRecord

__all__ = ["is_alarming"]

_SEVERE = ("ERROR", "FATAL")
_WORDS = re.compile(
    r"abort|cannot|can't|corrupt|crash|denied|error|exception|fail|fatal|illegal|invalid"
    r"|out of memory|panic|refused|rejected|segfault|timed? ?out|unable|unexpected|unreachable",
    re.IGNORECASE,
)
# Enough of a message to find its point.
_LOOKED_AT = 1_024


def is_alarming(record: LogRecord) -> bool:
    """Return whether the severity or a word of the message tells of an error.

    Examples
    --------
    >>> is_alarming(LogRecord("disk full", severity="ERROR"))
    True
    >>> is_alarming(LogRecord("connection refused")), is_alarming(LogRecord("ready"))
    (True, False)
    """
    return record.severity in _SEVERE or _WORDS.search(record.body, 0, _LOOKED_AT) is not None
