"""Lines of syslog: RFC 5424, RFC 3164, and what daemons write to files."""

import re

from tsmamba.logs.reading.clock import Clock, spans_of
from tsmamba.logs.reading.layout import Layout, Layouts
from tsmamba.logs.reading.misfit import Misfit
from tsmamba.logs.reading.severity import read_head, severity_of, severity_of_priority
from tsmamba.logs.record import LogRecord

__all__ = ["SyslogReader", "looks_like_syslog"]

_PRIORITY = r"(?:<(?P<priority>\d{1,3})>)"
_NEW = re.compile(
    _PRIORITY
    + r"\d{1,2} (?P<time>\S+) (?P<host>\S+) (?P<process>\S+) (?P<pid>\S+) (?P<msgid>\S+) (?=[-\[])"
)
_PARAMETER = r'[^\s=\]"]+="(?:[^"\\]|\\.)*+"'
_ELEMENT = re.compile(rf'\[(?P<id>[^\s=\]"]+)(?P<parameters>(?: {_PARAMETER})*) ?\]', re.DOTALL)
_PARAMETERS = re.compile(r'([^\s=\]"]+)="((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(r'\\([\\"\]])')
_STAMP = (
    r"(?:[A-Z][a-z]{2} [ \d]?\d (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d+)?"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))"
)
_OLD = re.compile(rf"{_PRIORITY}?\s?(?:(?P<time>{_STAMP})\s+(?P<host>[^\s:]+)\s+)?")
_TAG = re.compile(r"(?P<process>[^\s:\[]{1,128})(?:\[(?P<pid>[^\]\s]{0,32})\])?:(?=\s|$)\s*")
_BOM = "\ufeff"


def looks_like_syslog(text: str) -> bool:
    """Tell whether a line has the head of syslog: a priority, or time, host and tag.

    Examples
    --------
    >>> looks_like_syslog("Jun 14 15:16:01 combo sshd[19939]: session opened")
    True
    """
    if _NEW.match(text) is not None:
        return True
    head = _OLD.match(text)
    if head is None or head["time"] is None:
        return head is not None and head["priority"] is not None
    tag = _TAG.match(text, head.end())
    words = (head["host"], tag["process"] if tag is not None else "error")
    return tag is not None and all(severity_of(word) is None for word in words)


class SyslogReader:
    """Reads syslog.

    Host, process and its number become fields ``host``, ``process``, ``pid``; parameters of
    structured data become fields with the name of their element before a dot.

    Parameters
    ----------
    clock : Clock
        What reads time stamps.

    Examples
    --------
    >>> (record,) = SyslogReader(Clock()).read("<11>1 2026-01-02T03:04:05Z web app 7 - - disk full")
    >>> record.severity, record.fields, record.body
    ('ERROR', {'host': 'web', 'process': 'app', 'pid': '7'}, 'disk full')
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._layouts = Layouts(clock)

    def read(self, text: str) -> list[LogRecord]:
        """Read one line."""
        record = self._layouts.read(text)
        if record is None:
            head = _NEW.match(text)
            record = self._old(text) if head is None else self._new(text, head)
        return [record]

    def _old(self, text: str) -> LogRecord:
        head = _OLD.match(text)
        if head is None or (head["time"] is None and head["priority"] is None):
            raise Misfit("not syslog")
        places = [("host", *head.span("host"))] if head["host"] is not None else []
        tag, start = _TAG.match(text, head.end()), head.end()
        if tag is not None:
            places += [(name, *tag.span(name)) for name in ("process", "pid") if tag[name]]
            start = tag.end()
        if head["priority"] is not None:  # its digits tell the severity: no matter of layout
            fields = {name: text[first:last] for name, first, last in places}
            severity = severity_of_priority(int(head["priority"]))
            time = self._clock.of(head["time"] or "")
            return LogRecord(text[start:], time, severity, fields)
        message = read_head(text, start, after_stamp=False)
        stamp = self._clock.find(text)
        if stamp is None:
            raise Misfit("no time stamp of the stated format")
        layout = Layout(spans_of(stamp), message.severity, tuple(places), (), start)
        self._layouts.keep(text, layout, max(message.seen, start))
        return self._layouts.record(text, layout, stamp)

    def _new(self, text: str, head: re.Match[str]) -> LogRecord:
        fields = {
            name: head[name] for name in ("host", "process", "pid", "msgid") if head[name] != "-"
        }
        end = head.end()
        while (element := _ELEMENT.match(text, end)) is not None:
            for name, value in _PARAMETERS.findall(element["parameters"]):
                fields[f"{element['id']}.{name}"] = _ESCAPE.sub(r"\1", value)
            end = element.end()
        if end == head.end() and text.startswith("-", end):
            end += 1
        body = text[end:].lstrip().removeprefix(_BOM)
        severity = severity_of_priority(int(head["priority"]))
        return LogRecord(body, self._clock.of(head["time"]), severity, fields)
