"""Lines that belong together: stack traces, and lines that a container runtime has split."""

import re
from typing import NamedTuple

from tsmamba.errors import ParameterError
from tsmamba.logs.record import Line

__all__ = ["Joiner"]

_CONTINUES = re.compile(
    rb"\s|\\t|$|Caused by: |Suppressed: |\.\.\. \d+ (?:more|common)|Traceback \(most recent call "
    rb"last\):|During handling of the above exception|The above exception was the direct cause"
    rb"|(?:[a-z_$][\w$]*\.)+[\w$]+(?:Exception|Error|Throwable)(?:: |$)|goroutine \d+ \["
    rb"|--- End of |[)\]}]+[;,]?\s*$"
)
_TRACEBACK = b"Traceback (most recent call last):"
_GOROUTINE = b"goroutine "
_CALL = re.compile(rb"created by |exit status \d|[\w./*()\xc2\xb7{}\[\]-]+\(.*\)\s*$")
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S* (stdout|stderr) ([FP])(?::\S*)?(?: |$)")
_DOCKER = b'{"log":"'
_DOCKER_END = re.compile(rb'(?<!\\)(?:\\\\)*\\n","(?:stream|attrs|time)"')
_DOCKER_STREAM = re.compile(rb'"stream":"(std(?:out|err))"')


class _Frame(NamedTuple):
    """A line without the frame of a container runtime."""

    payload: bytes
    stream: bytes = b""
    partial: bool = False


class _Pending:
    """Lines of one record so far."""

    def __init__(self, line: Line, frame: _Frame) -> None:
        self.first = self.last = line
        self.texts = [line.text]
        self.size = len(line.text)
        self.frame = frame
        self.indented = frame.payload[:1].isspace()
        self.in_traceback = self.in_goroutine = False

    def add(self, line: Line, frame: _Frame) -> None:
        self.last = line
        self.texts.append(line.text)
        self.size += 1 + len(line.text)
        self.frame = frame

    def rest(self, line: Line, frame: _Frame) -> "_Pending":
        """Begin anew with a line that belongs here but is beyond a limit."""
        rest = _Pending(line, frame)
        rest.indented = self.indented
        rest.in_traceback, rest.in_goroutine = self.in_traceback, self.in_goroutine
        return rest

    def line(self) -> Line:
        if len(self.texts) == 1:
            return self.first
        text = b"\n".join(self.texts).rstrip(b"\n")
        return self.first._replace(end=self.last.end, text=text)


class Joiner:
    r"""Joins the lines of one record, each source for itself.

    Parameters
    ----------
    pattern : str or None
        ``"auto"``: a line that is indented or empty, or that is part of a stack trace of Python,
        the JVM, .NET, Go or JavaScript, belongs to the one before it. A regular expression: a
        line that does not match it at its beginning belongs to the one before it. None joins
        nothing but the parts into which container runtimes split long lines, which are joined
        in any case.
    max_lines : int
        Lines of a record at most, from 2 up; what goes beyond begins another one.
    max_bytes : int
        Bytes of a record at most, from 256 up.

    Attributes
    ----------
    lines_over_limit : int
        Lines that began another record for the sake of a limit.

    Raises
    ------
    ParameterError
        If an argument is outside what is accepted.

    Notes
    -----
    In files of container runtimes the pattern looks at what the program wrote, inside the frame,
    and a change between stdout and stderr ends a record.

    Examples
    --------
    >>> from tsmamba.logs.record import Line
    >>> joiner = Joiner()
    >>> for number, text in enumerate([b"failed", b"  at f()", b"done"], start=1):
    ...     whole = joiner.push(Line("app", "1", number, 0, 0, text))
    ...     if whole is not None:
    ...         whole.text
    b'failed\n  at f()'
    >>> joiner.flush().text
    b'done'
    """

    def __init__(
        self, pattern: str | None = "auto", *, max_lines: int = 500, max_bytes: int = 131_072
    ) -> None:
        for name, value, least in (("max_lines", max_lines, 2), ("max_bytes", max_bytes, 256)):
            if type(value) is not int or value < least:
                message = f"{name}={value!r}; give a whole number from {least} up"
                raise ParameterError(message)
        self.pattern = pattern
        self.max_lines = max_lines
        self.max_bytes = max_bytes
        self.lines_over_limit = 0
        self._start = _compiled(pattern)
        self._pending: dict[str, _Pending] = {}

    def push(self, line: Line) -> Line | None:
        """Take a line, and give the record before it once it is whole.

        Parameters
        ----------
        line : Line
            Next line of its stream.

        Returns
        -------
        whole : Line or None
            Lines of the same stream that belong together, joined by newlines, with the number and
            offset of the first and the end of the last. None as long as there may be more.
        """
        frame = _peel(line.text)
        pending = self._pending.get(line.stream)
        if pending is not None and self._continues(pending, frame):
            full = len(pending.texts) >= self.max_lines
            if not full and pending.size + len(line.text) < self.max_bytes:
                pending.add(line, frame)
                return None
            self.lines_over_limit += 1
            self._pending[line.stream] = pending.rest(line, frame)
        else:
            self._pending[line.stream] = _Pending(line, frame)
        return pending.line() if pending is not None else None

    def flush(self, stream: str | None = None) -> Line | None:
        """Give what waits for more lines: call it when a stream is idle or has ended.

        Parameters
        ----------
        stream : str or None
            Identity of the stream; None takes the one that began to wait first.

        Returns
        -------
        whole : Line or None
            None if nothing waits. Without a stream, call it until then.
        """
        if stream is None:
            stream = next(iter(self._pending), "")
        pending = self._pending.pop(stream, None)
        return pending.line() if pending is not None else None

    def _continues(self, pending: _Pending, frame: _Frame) -> bool:
        if frame.stream != pending.frame.stream:
            return False
        if pending.frame.partial:
            return True
        payload = frame.payload
        if self.pattern != "auto":
            return self._start is not None and self._start.match(payload) is None
        if _CONTINUES.match(payload) is None:
            # The line of the exception itself ends a traceback and is not indented.
            closes, pending.in_traceback = pending.in_traceback, False
            return closes or (pending.in_goroutine and _CALL.match(payload) is not None)
        if payload.startswith(_TRACEBACK):
            pending.in_traceback = True
        elif payload.startswith(_GOROUTINE):
            pending.in_goroutine = True
        # Where every line is indented, that says nothing.
        return not (pending.indented and payload[:1] in (b" ", b"\t"))


def _peel(text: bytes) -> _Frame:
    if text.startswith(_DOCKER):
        stream = _DOCKER_STREAM.search(text)
        payload = text[len(_DOCKER) : -1]
        name = stream[1] if stream is not None else b""
        if payload.startswith((b"\\n", b"\\r\\n")):
            payload = b""
        return _Frame(payload, name, _DOCKER_END.search(text) is None)
    if text[4:5] == b"-":
        cri = _CRI.match(text)
        if cri is not None:
            return _Frame(text[cri.end() :], cri[1], cri[2] == b"P")
    return _Frame(text)


def _compiled(pattern: str | None) -> re.Pattern[bytes] | None:
    if pattern is None or pattern == "auto":
        return None
    try:
        return re.compile(pattern.encode())
    except (AttributeError, re.error) as error:
        message = (
            f"pattern={pattern!r} is no regular expression ({error}); "
            'give one that the first line of a record matches, "auto" or None'
        )
        raise ParameterError(message) from error
