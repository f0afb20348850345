"""What is said about a line or a session, and how it is written."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

__all__ = ["SCHEMA_VERSION", "LogResult", "Status"]

SCHEMA_VERSION = 1
"""Version of the fields of a record that is written out."""

Status = Literal["ok", "warmup"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 4


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
        1 is the alert threshold; None in warm-up.
    p_value : float or None
        Share of normal lines or sessions that score as high.
    reason : str
        What the score is owed to: ``unseen_template``, ``rare_template``, ``sequence``, ``value``,
        ``level``, ``gap``, ``rate``, ``silence``; for a session also ``counts``, ``transition`` and
        ``distance``.
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
    p_value: float | None
    reason: str
    parts: dict[str, float] = field(default_factory=dict)
    episode_id: str | None = None
    status: Status = "ok"

    @property
    def is_anomaly(self) -> bool:
        """Whether it alerts."""
        return self.score is not None and self.score > 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the record that the command writes; JSON can hold it."""
        return {
            "ts": None if self.time is None else iso(self.time),
            "source": self.source,
            "stream": self.stream,
            "line_no": self.line_no,
            "severity": self.severity,
            "message": self.message,
            "template_id": self.template_id,
            "template": self.template,
            "score": _short(self.score),
            "p_value": _short(self.p_value),
            "threshold": 1.0,
            "is_anomaly": self.is_anomaly,
            "status": self.status,
            "reason": self.reason,
            "contrib": {name: _short(value) for name, value in self.parts.items()},
            "episode_id": self.episode_id,
            "event_id": self.event_id,
            "schema_version": SCHEMA_VERSION,
        }


def iso(time: int) -> str:
    """Return a time in nanoseconds as ISO 8601 in UTC, to the microsecond.

    Examples
    --------
    >>> iso(1_700_000_000_123_456_789)
    '2023-11-14T22:13:20.123456Z'
    """
    try:
        stamp = _EPOCH + timedelta(microseconds=time // 1_000)
    except OverflowError:
        return f"{time // 10**9}"
    return stamp.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
