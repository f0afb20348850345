"""What a line looks like."""

import re

from tsmamba.logs.reading.containers import looks_like_cri, peel_docker
from tsmamba.logs.reading.jsonlines import parse_object
from tsmamba.logs.reading.logfmt import looks_like_logfmt
from tsmamba.logs.reading.misfit import Misfit
from tsmamba.logs.reading.syslog import looks_like_syslog

__all__ = ["sniff"]

_OTLP = re.compile(r'\{\s*"(?:resourceLogs|resource_logs)"|"(?:timeUnixNano|time_unix_nano)"\s*:')


def sniff(text: str) -> str:
    """Name the format that a line looks like.

    Returns
    -------
    format : str
        One of those of `tsmamba.logs.reading.LineParser`.

    Examples
    --------
    >>> sniff('{"level":"info","msg":"up"}'), sniff("level=info msg=up"), sniff("up")
    ('json', 'logfmt', 'raw')
    """
    if text.startswith("{"):
        return _sniff_object(text)
    if looks_like_cri(text):
        return "cri"
    if looks_like_syslog(text):
        return "syslog"
    return "logfmt" if looks_like_logfmt(text) else "raw"


def _sniff_object(text: str) -> str:
    first = text.partition("\n")[0]
    try:
        peel_docker(first)
        if '"stream"' in first and '"time"' in first:
            return "docker"
    except Misfit:
        pass
    try:
        parse_object(text)
    except Misfit:
        return "raw"
    return "otlp" if _OTLP.search(text) is not None else "json"
