"""From the bytes of a line to a record."""

import re
from collections import Counter
from typing import Literal, get_args

from tsmamba.errors import ParameterError
from tsmamba.logs.reading.chooser import Chooser, Reader
from tsmamba.logs.reading.clock import Clock
from tsmamba.logs.reading.containers import FrameReader, peel_cri, peel_docker
from tsmamba.logs.reading.jsonlines import JsonReader
from tsmamba.logs.reading.logfmt import LogfmtReader
from tsmamba.logs.reading.objects import Keys, ObjectReader
from tsmamba.logs.reading.otlp import OtlpReader
from tsmamba.logs.reading.raw import RawReader
from tsmamba.logs.reading.sniff import sniff
from tsmamba.logs.reading.syslog import SyslogReader
from tsmamba.logs.record import LogRecord

__all__ = ["Format", "LineParser"]

Format = Literal["auto", "raw", "json", "logfmt", "syslog", "cri", "docker", "otlp"]

_WITH_KEYS = ("auto", "json", "logfmt", "cri", "docker", "otlp")
_SHORTEST_LIMIT = 256
_COLOURS = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


class LineParser:
    """Turns lines of one source into records. It never raises on what a line holds.

    Parameters
    ----------
    format : str
        ``"raw"``, ``"json"``, ``"logfmt"``, ``"syslog"``, ``"cri"``, ``"docker"``, ``"otlp"``;
        ``"auto"`` decides from the first 20 lines that are not empty, and never again. What does
        not fit the format is read as raw, and counted.
    time_format : str or None
        Format of strptime for time stamps; None knows the usual ones.
    time_zone : str
        IANA name of the zone of stamps that name none.
    body_key : str or None
        Key of the message in JSON and logfmt, dots for inner objects; None knows the usual ones.
    time_key : str or None
        The same for the time.
    severity_key : str or None
        The same for the severity.
    reference : int or None
        Nanoseconds since 1970 near which the first stamp lies if it has no year, or no date; each
        further one lies near the stamp before it. None is now; for an old file give its last
        change.
    max_bytes : int
        Bytes of a line that are read, at least 256; the rest is cut off.

    Attributes
    ----------
    chosen : str or None
        Format; None until ``"auto"`` has decided.
    lines : int
        Lines so far.
    lines_unparsed : int
        Lines with something amiss.
    unparsed : Counter of str
        Lines by what is amiss: ``"empty"``, ``"too long"``, ``"not UTF-8"``, ``"no time"``,
        ``"not json"`` and its like for the other formats, ``"several records"`` of which `parse`
        gave the first. A line can count under several.

    Raises
    ------
    ParameterError
        If an argument is outside what is accepted.

    Examples
    --------
    >>> parser = LineParser()
    >>> record = parser.parse(b'{"ts": "2026-01-02T03:04:05Z", "level": "warning", "msg": "slow"}')
    >>> record.body, record.severity, record.time
    ('slow', 'WARN', 1767323045000000000)
    """

    def __init__(
        self,
        format: Format = "auto",
        time_format: str | None = None,
        time_zone: str = "UTC",
        *,
        body_key: str | None = None,
        time_key: str | None = None,
        severity_key: str | None = None,
        reference: int | None = None,
        max_bytes: int = 262_144,
    ) -> None:
        keys = Keys(body_key, time_key, severity_key)
        _check(format, keys, reference, max_bytes)
        self.max_bytes = max_bytes
        self.lines = self.lines_unparsed = 0
        self.unparsed: Counter[str] = Counter()
        self._counted = 0
        clock = Clock(time_format, time_zone, reference)
        plain = self._readers(clock, keys)
        framed = self._readers(Clock(time_format, time_zone, reference), keys)
        payloads = Chooser(framed, _sniff_payload, self._count)
        frames = {
            "cri": FrameReader(peel_cri, payloads),
            "docker": FrameReader(peel_docker, payloads),
        }
        chosen = None if format == "auto" else format
        self._chooser = Chooser({**plain, **frames}, sniff, self._count, chosen)

    @property
    def chosen(self) -> str | None:
        """Format; None until it is decided."""
        return self._chooser.chosen

    def parse(self, text: bytes) -> LogRecord:
        """Read a line that holds one record.

        Parameters
        ----------
        text : bytes
            One line without its end, or several that belong together.

        Returns
        -------
        record : LogRecord
            Of an envelope of several the first; see `parse_all`.
        """
        records = self.parse_all(text)
        if len(records) != 1:
            self._count("several records" if records else "no record")
        return records[0] if records else LogRecord("")

    def parse_all(self, text: bytes) -> list[LogRecord]:
        """Read a line.

        Parameters
        ----------
        text : bytes
            One line without its end, or several that belong together.

        Returns
        -------
        records : list of LogRecord
            One, except of an envelope of OpenTelemetry, which may hold any number.
        """
        self.lines += 1
        line = self._decode(text)
        if not line:
            self._count("empty")
            return [LogRecord("")]
        records = self._chooser.read(line)
        for record in records:
            if record.time is None:
                self._count("no time")
                break
        return records

    def _decode(self, text: bytes) -> str:
        if b"\0" in text:  # what a file has where it was cut while its writer went on
            text = text.replace(b"\0", b"")
        if len(text) > self.max_bytes:
            self._count("too long")
            text = text[: self.max_bytes].decode(errors="ignore").encode()
        if b"\x1b" in text:
            text = _COLOURS.sub(b"", text)
        try:
            return text.decode().strip().removeprefix("\ufeff")
        except UnicodeDecodeError:
            self._count("not UTF-8")
            return text.decode(errors="replace").strip()

    def _count(self, reason: str) -> None:
        self.unparsed[reason] += 1
        if self._counted != self.lines:
            self._counted = self.lines
            self.lines_unparsed += 1

    @staticmethod
    def _readers(clock: Clock, keys: Keys) -> dict[str, Reader]:
        objects = ObjectReader(clock, keys)
        return {
            "raw": RawReader(clock),
            "json": JsonReader(objects),
            "logfmt": LogfmtReader(objects),
            "syslog": SyslogReader(clock),
            "otlp": OtlpReader(clock, objects),
        }


def _sniff_payload(text: str) -> str:
    found = sniff(text)
    return "raw" if found in ("cri", "docker") else found


def _check(format: str, keys: Keys, reference: int | None, max_bytes: int) -> None:
    if format not in get_args(Format):
        accepted = ", ".join(repr(name) for name in get_args(Format))
        message = f"format={format!r} is unknown; accepted are {accepted}"
        raise ParameterError(message)
    for name, key in zip(Keys._fields, keys, strict=True):
        if key is None:
            continue
        if not _is_text(key):
            message = f"{name}_key={key!r}; give the name of a key, or None for the usual ones"
            raise ParameterError(message)
        if format not in _WITH_KEYS:
            message = f"{name}_key={key!r} with format={format!r}, which has no keys; leave it out"
            raise ParameterError(message)
    if reference is not None and not (_is_whole(reference) and 0 <= reference < 2**63):
        message = f"reference={reference!r}; give nanoseconds since 1970, or None for now"
        raise ParameterError(message)
    if not (_is_whole(max_bytes) and max_bytes >= _SHORTEST_LIMIT):
        message = f"max_bytes={max_bytes!r}; give a whole number from {_SHORTEST_LIMIT} up"
        raise ParameterError(message)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
