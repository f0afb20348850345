"""What is said about a line or a session, and how it is written."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

__all__ = ["SCHEMA_VERSION", "LogResult", "Status"]

SCHEMA_VERSION = 1
"""Version of the fields of a record that is written out."""

Status = Literal["ok", "warmup"]

_quoted = json.encoder.encode_basestring_ascii
_SECOND = 10**9


@dataclass(slots=True)
class LogResult:
    """Score of one line, of one session, or of a regular line that did not come.

    Attributes
    ----------
    event_id : str
        The same whenever the same bytes are scored: writing a result twice does no harm.
    time : int or None
        Nanoseconds since 1970, UTC; of a session, its last line.
    source : str
        File, or ``"-"``.
    stream : str
        Values of the fields that tell streams apart, or the session.
    line_no : int
        Line in the source, from 1; of a session, its first.
    message : str
        The line without time, severity and format; empty for a session.
    severity : str or None
        ``TRACE`` to ``FATAL``.
    template_id : int
        Template of the line; of a session, of what is strangest in it.
    template : str
        Its text.
    score : float or None
        1 is the alert threshold of the moment; None in warm-up.
    cost : float
        What the score is a multiple of the threshold of, in nats: minus the logarithm of how often
        something like it is seen. Thresholds follow the log, so costs compare better over weeks.
    p_value : float or None
        Share of normal lines or sessions that score as high.
    reason : str
        What the score is owed to: ``unseen_template``, ``rare_template``, ``sequence``, ``value``,
        ``level``, ``gap``, ``rate``, ``silence``, ``network``; for a session also ``counts``,
        ``transition`` and ``distance``.
    parts : dict of str to float
        What the score is made of. Of a line, each kind of cost in units of its threshold, the
        highest is the score; of a session, shares that add up to the score.
    episode_id : str or None
        Run of alerts that it belongs to.
    status : {"ok", "warmup"}
        ``warmup`` while there is no threshold yet.
    """

    event_id: str
    time: int | None
    source: str
    stream: str
    line_no: int
    message: str
    severity: str | None
    template_id: int
    template: str
    score: float | None
    cost: float
    p_value: float | None
    reason: str
    parts: dict[str, float] = field(default_factory=dict)
    episode_id: str | None = None
    status: Status = "ok"

    @property
    def is_anomaly(self) -> bool:
        """Whether it alerts."""
        return self.score is not None and self.score > 1.0

    def to_json(self) -> str:
        """Return the record that the command writes.

        Put together by hand: the encoder of the standard library takes four times as long, which
        is a fifth of all that is done for a line.
        """
        score, p_value = self.score, self.p_value
        parts = ",".join([f'"{name}":{value:.4f}' for name, value in self.parts.items()])
        return (
            f'{{"ts":{"null" if self.time is None else _quoted(iso(self.time))}'
            f',"source":{_quoted(self.source)},"stream":{_quoted(self.stream)}'
            f',"line_no":{self.line_no}'
            f',"severity":{"null" if self.severity is None else _quoted(self.severity)}'
            f',"message":{_quoted(self.message)}'
            f',"template_id":{self.template_id},"template":{_quoted(self.template)}'
            f',"score":{"null" if score is None else f"{score:.4f}"},"cost":{self.cost:.3f}'
            f',"p_value":{"null" if p_value is None else f"{p_value:.4g}"}'
            f',"threshold":1.0,"is_anomaly":{"true" if self.is_anomaly else "false"}'
            f',"status":"{self.status}","reason":"{self.reason}","contrib":{{{parts}}}'
            f',"episode_id":{"null" if self.episode_id is None else _quoted(self.episode_id)}'
            f',"event_id":{_quoted(self.event_id)},"schema_version":{SCHEMA_VERSION}}}'
        )


def iso(time: int) -> str:
    """Return a time in nanoseconds as ISO 8601 in UTC, to the microsecond.

    Examples
    --------
    >>> iso(1_700_000_000_123_456_789)
    '2023-11-14T22:13:20.123456Z'
    """
    second, rest = divmod(time, _SECOND)
    return f"{_second(second)}.{rest // 1_000:06d}Z"


@lru_cache(1_024)
def _second(second: int) -> str:
    try:
        stamp = datetime.fromtimestamp(second, UTC)
    except (OverflowError, OSError, ValueError):
        return str(second)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S")
