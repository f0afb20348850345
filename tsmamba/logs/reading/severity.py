"""Severities under one set of names, and where they stand in the head of a message."""

import re
from typing import NamedTuple, TypeAlias

__all__ = [
    "Head",
    "Place",
    "Span",
    "read_head",
    "severity_of",
    "severity_of_priority",
    "skip_separators",
]

_NAMES = {
    "TRACE": "trace trc finest finer verbose vrb all silly",
    "DEBUG": "debug dbg fine config debug1 debug2 debug3 debug4 debug5",
    "INFO": "info inf information informational notice note log success",
    "WARN": "warn warning wrn wrng",
    "ERROR": "error err eror severe failure",
    "FATAL": "fatal ftl critical crit crt alert emergency emerg panic dpanic pnc",
}
_LETTERS = {
    "T": "TRACE", "V": "TRACE", "D": "DEBUG", "I": "INFO", "N": "INFO",
    "W": "WARN", "E": "ERROR", "C": "FATAL", "F": "FATAL", "A": "FATAL", "S": "FATAL",
}  # fmt: skip
_OF_WORD = {word: name for name, words in _NAMES.items() for word in words.split()}
# As columns of raw lines; "All", "Log", "Success", "Alert" at the head of a sentence are words.
_COLUMN_WORDS = {
    spelling: name
    for word, name in _OF_WORD.items()
    for spelling in (word, word.upper(), word.capitalize())
}
_SYSLOG = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_OPENTELEMETRY = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")

_UPPER = "|".join(sorted((word.upper() for word in _OF_WORD), key=len, reverse=True))
_BRACKETS = r"\[(?P<thread>[^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*+)\]"
_THREAD = _BRACKETS + r"(?:\s+-{1,3}\s+|:\s+|\s+)"
# Process, severity with what is around it, and what may follow it.
_FIRST = re.compile(
    r"[\s|,:\-\]]*(?:\[?(?P<pid>\d{1,10})\]?\s+)?"
    r"(?P<column>[\[(<|]?\s*[A-Za-z]{3,13}\d?(?:\s*[\])>|:]|\s-|\s\s|\t|\s|$))[:|\s]*(?:-+\s+(?::\s+)?)?"
    rf"(?:(?:(?P<beside>\d{{1,10}})\s+---\s+)?{_THREAD})?"
)
_WORD = re.compile(r"[A-Za-z]+\d?")
_LATER = re.compile(
    rf"[\s|\])\[(<](?=[A-Za-z]{{3}})(?:(?P<column>{_UPPER})(?=[\s|:\])>]|$)"
    rf"|(?<=[\[(<])(?P<boxed>(?i:{_UPPER}))(?=[\])>]))[\s:|\])>]*(?:-+\s+(?::\s+)?)?"
)
# How far after the stamp a severity may stand.
_WINDOW = 40
_ONE_THREAD = re.compile(rf"(?:^|(?<=\s)){_THREAD}")
_PROCESS = re.compile(r"(?:^|(?<=\s))\[?#?(?P<pid>\d+)\]?:?(?:\s|$)")
_PLAIN_WORD = re.compile(r"(?<!\S)[A-Za-z][a-z]*[,.]?(?!\S)")
_LONGEST_PIPE = 40
_PIPES = re.compile(rf"\|(?:[^\s|]{{1,{_LONGEST_PIPE}}}\|){{1,3}}")
_MEMORY_SIZE = 1_024


Span: TypeAlias = tuple[int, int]
Place: TypeAlias = tuple[str, int, int]  # name of a field, where it starts and ends


class Head(NamedTuple):
    """What the head of a message holds, and where.

    Attributes
    ----------
    severity : str or None
        By its name in OpenTelemetry.
    start : int
        Where the body starts.
    seen : int
        Nothing from here on had a part in it.
    places : tuple of (str, int, int)
        Where ``pid`` and ``thread`` lie.
    before : tuple of (int, int)
        Where columns before the start lie that belong to the body: names of components.
    """

    severity: str | None
    start: int
    seen: int
    places: tuple[Place, ...] = ()
    before: tuple[Span, ...] = ()


_SEPARATORS = " \t|,:-]"
_GAPS = (" |", "|", " -", "  ", "\t")
# Columns seen -> (severity, whether it is a column and no word of the message).
_columns: dict[str, tuple[str | None, bool]] = {}


def severity_of(value: object, key: str = "") -> str | None:
    """Give a severity its name in OpenTelemetry.

    Parameters
    ----------
    value : object
        A word, a letter or a number.
    key : str
        Name of the field. ``severity_number`` counts from 1 to 24 as OpenTelemetry does and
        ``levelno`` as Python does; other numbers are syslog's below 8 and pino's from 10.

    Returns
    -------
    severity : str or None
        None if the value is none of these.

    Examples
    --------
    >>> severity_of("warning"), severity_of(3), severity_of(50), severity_of("I")
    ('WARN', 'ERROR', 'ERROR', 'INFO')
    """
    if isinstance(value, str):
        name = (
            _COLUMN_WORDS.get(value) or _OF_WORD.get(value.strip().lower()) or _LETTERS.get(value)
        )
        if name is not None or not value.isdecimal() or len(value) > 2:
            return name
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if key.replace("_", "").lower() == "severitynumber":
        return _OPENTELEMETRY[(int(value) - 1) // 4] if 1 <= value <= 24 else None
    if 0 <= value <= 7:
        return _SYSLOG[int(value)]
    if 10 <= value < 70:
        step = int(value) // 10
        # Python has no trace: its scale is one lower.
        return _OPENTELEMETRY[min(step if key == "levelno" else step - 1, 5)]
    return None


def severity_of_priority(priority: int) -> str:
    """Name the severity in a priority of syslog, which is facility times 8 plus severity."""
    return _SYSLOG[priority & 7]


def read_head(text: str, start: int = 0, after_stamp: bool = True) -> Head:
    """Find severity, process and thread in the head of a message.

    Parameters
    ----------
    text : str
        The line.
    start : int
        Where the message begins: after the time stamp.
    after_stamp : bool
        Whether there was a stamp: a plain line has no columns.

    Returns
    -------
    head : Head
        A severity in the middle of a sentence is told and stays in the body.

    Examples
    --------
    >>> line = "148 INFO dfs.DataNode: Served block"
    >>> head = read_head(line)
    >>> head.severity, line[head.start :]
    ('INFO', 'dfs.DataNode: Served block')
    """
    first = _FIRST.match(text, start)
    if first is not None:
        column, end = first["column"], first.end()
        severity, is_column = _columns.get(column) or _remember(column)
        if severity is not None:
            if not is_column:
                return Head(severity, skip_separators(text, start), end)
            seen = len(text) if text.startswith("[", end) else end + 16
            process = "beside" if first["beside"] else "pid"
            places = (*_place(first, process, "pid"), *_place(first, "thread"))
            return Head(severity, end, seen, places)
    seen = start + _WINDOW
    if not after_stamp:
        return Head(None, start, seen)
    later = _LATER.search(text, start, seen)
    if later is not None and "\n" not in text[start : later.start()]:
        return _after_columns(text, start, later)
    if text.startswith("|", start):
        return _after_pipes(text, start)
    return Head(None, skip_separators(text, start), seen)


def skip_separators(text: str, start: int) -> int:
    """Say where the text goes on after spaces, bars, commas, colons, dashes and brackets."""
    return len(text) - len(text[start:].lstrip(_SEPARATORS))


def _place(match: re.Match[str] | None, group: str, name: str = "") -> tuple[Place, ...]:
    value = match[group] if match is not None else None
    if match is None or value is None or not value.strip():
        return ()
    start = match.end(group) - len(value.lstrip())
    return ((name or group, start, start + len(value.strip())),)


def _remember(column: str) -> tuple[str | None, bool]:
    """Tell "ERROR could not" and "[error] could not" from "Error: could not", which is a sentence.

    What is in capitals or boxed is a column; other spellings need a gap or a bar after them.
    """
    word = _WORD.findall(column)[0]
    before, _, after = column.partition(word)
    is_column = word.isupper() or before.strip() in set("[(<") or after.startswith(_GAPS)
    if len(_columns) >= _MEMORY_SIZE:
        _columns.clear()
    verdict = _columns[column] = _COLUMN_WORDS.get(word), is_column
    return verdict


def _after_columns(text: str, start: int, later: re.Match[str]) -> Head:
    """Read a severity that has other columns before it, unless these are words of a sentence."""
    severity = _OF_WORD[(later["column"] or later["boxed"]).lower()]
    end = later.start() + 1
    thread = _ONE_THREAD.search(text, start, end)
    processes = list(_PROCESS.finditer(text, start, thread.start() if thread is not None else end))
    before: list[Span] = []
    for hole in (*processes, thread):
        if hole is not None:
            before += _columns_between(text, start, hole.start())
            start = hole.end()
    before += _columns_between(text, start, end)
    plain = (word.end() for span in before for word in _PLAIN_WORD.finditer(text, *span))
    if any(text[after:end].lstrip()[:1] not in ("-", "|") for after in plain):
        return Head(severity, skip_separators(text, start), start + _WINDOW)
    process = processes[0] if processes else None
    places = (*_place(process, "pid"), *_place(thread, "thread"))
    return Head(severity, later.end(), later.end() + 1, places, tuple(before))


def _after_pipes(text: str, start: int) -> Head:
    pipes = _PIPES.match(text, start)
    end = pipes.end() if pipes is not None else start + 1
    words = re.compile(r"[^|]+").finditer(text, start, end)
    before = tuple(word.span() for word in words if not word[0].isdecimal())
    return Head(None, skip_separators(text, end), end + _LONGEST_PIPE, before=before)


def _columns_between(text: str, start: int, end: int) -> list[Span]:
    """Give the place of the columns there, as a list of one, or an empty one if there are none."""
    part = text[start:end].rstrip(_SEPARATORS + "[(<")
    first = start + len(part) - len(part.lstrip(_SEPARATORS))
    return [(first, start + len(part))] if part.strip(_SEPARATORS) else []
