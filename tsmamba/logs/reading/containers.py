"""Frames that container runtimes put around each line of a program: CRI and Docker."""

import re
from collections.abc import Callable
from typing import NamedTuple

from tsmamba.logs.reading.chooser import Chooser
from tsmamba.logs.reading.clock import Clock
from tsmamba.logs.reading.jsonlines import parse_object
from tsmamba.logs.reading.misfit import Misfit
from tsmamba.logs.record import LogRecord

__all__ = ["FrameReader", "Framed", "looks_like_cri", "peel_cri", "peel_docker"]

_CRI = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) (?P<stream>stdout|stderr) "
    r"(?P<tags>[FP](?::\S*)?)(?: |$)"
)


class Framed(NamedTuple):
    """What a frame holds.

    Attributes
    ----------
    payload : str
        What the program wrote, without the end of its line.
    time : str
        Stamp of the runtime.
    stream : str
        ``stdout`` or ``stderr``.
    partial : bool
        Whether the line goes on in the next frame.
    """

    payload: str
    time: str
    stream: str
    partial: bool


def looks_like_cri(text: str) -> bool:
    """Tell whether a line has the frame of CRI.

    Examples
    --------
    >>> looks_like_cri("2026-01-02T03:04:05.678901234Z stderr F started")
    True
    """
    return _CRI.match(text) is not None


def peel_cri(text: str) -> Framed:
    """Take off the frame of CRI.

    Raises
    ------
    Misfit
        If there is none.

    Examples
    --------
    >>> peel_cri("2026-01-02T03:04:05.678901234Z stderr F started").payload
    'started'
    """
    match = _CRI.match(text)
    if match is None:
        raise Misfit("not CRI")
    partial = match["tags"].startswith("P")
    return Framed(text[match.end() :], match["time"], match["stream"], partial)


def peel_docker(text: str) -> Framed:
    r"""Take off the frame of Docker's json-file driver.

    Raises
    ------
    Misfit
        If there is none.

    Examples
    --------
    >>> peel_docker('{"log":"up\\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}').payload
    'up'
    """
    values = parse_object(text)
    payload, stream, time = values.get("log"), values.get("stream", ""), values.get("time", "")
    if not (isinstance(payload, str) and isinstance(stream, str) and isinstance(time, str)):
        raise Misfit("not of Docker's json-file driver")
    return Framed(payload.removesuffix("\n"), time, stream, not payload.endswith("\n"))


class FrameReader:
    """Reads lines in frames of a runtime: several frames of one record lie on lines of their own.

    The record has the time of the runtime, which every frame has, in one clock for all programs;
    the stream becomes field ``stream``.

    Parameters
    ----------
    peel : callable
        What takes off a frame.
    payloads : Chooser
        What reads the text inside.
    """

    def __init__(self, peel: Callable[[str], Framed], payloads: Chooser) -> None:
        self._peel = peel
        self._clock = Clock()
        self.payloads = payloads

    def read(self, text: str) -> list[LogRecord]:
        """Read one record, or the several of an envelope."""
        if "\n" in text:
            frames = [self._peel(line) for line in text.split("\n")]
            pieces = [frame.payload + ("" if frame.partial else "\n") for frame in frames]
            payload, stamp, stream, _ = frames[0]._replace(payload="".join(pieces))
        else:
            payload, stamp, stream, _ = self._peel(text)
        time = self._clock.of(stamp)
        return [
            LogRecord(
                body, own if time is None else time, severity, {**fields, "stream": stream}, t
            )
            for body, own, severity, fields, t in self.payloads.read(payload.strip())
        ]
