"""Sessions that are under way, and when they are over."""

from dataclasses import asdict, dataclass, field
from typing import Any

from tsmamba.logs.record import Line

__all__ = ["UNKNOWN_GAP", "OpenSession", "Tracker"]

UNKNOWN_GAP = -1.0
"""Seconds since the line before, where a time is not known."""

# A line so far behind the others shows that the clock was ahead, by mistake.
_DAY = 86_400 * 10**9


@dataclass(slots=True)
class OpenSession:
    """Lines of one session so far: their templates, and where the first one stands.

    `gaps` are the seconds before each line, where the tracker keeps them, and `last` is when the
    last line came.
    """

    name: str
    source: str
    origin: str
    line_no: int
    time: int | None = None
    templates: list[int] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    last: int | None = None

    def note_gap(self, time: int | None) -> None:
        """Keep how long after the line before this one came."""
        gap = UNKNOWN_GAP
        if time is not None and self.last is not None:
            # To the millisecond: the state stays small, and no finer gap tells anything.
            gap = round(max(time - self.last, 0) * 1e-9, 3)
        self.gaps.append(gap)
        self.last = time


class Tracker:
    """Collects the templates of each session until it is over.

    A session is over when no line of it came for `timeout` seconds of log time, when it has
    `max_events` lines, or when more than `max_sessions` are under way and it is the one whose last
    line is oldest. With `keep_gaps` the seconds between lines are kept as well.

    Examples
    --------
    >>> tracker = Tracker(timeout=60.0)
    >>> line = Line("app.log", "app.log", 1, 0, 10, b"...")
    >>> tracker.add("a", 0, line, 0), tracker.add("b", 1, line, 30 * 10**9)
    ([], [])
    >>> [session.name for session in tracker.add("b", 2, line, 90 * 10**9)]
    ['a']
    """

    def __init__(
        self,
        timeout: float | None,
        max_events: int = 10_000,
        max_sessions: int = 100_000,
        *,
        keep_gaps: bool = False,
    ) -> None:
        self.timeout = timeout
        self.keep_gaps = keep_gaps
        self.max_events = max_events
        self.max_sessions = max_sessions
        # In the order of their last lines.
        self._open: dict[str, OpenSession] = {}
        self._now: int | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, name: str, template: int, line: Line, time: int | None) -> list[OpenSession]:
        """Add a line to its session, and return the sessions that are over."""
        if time is not None:
            self._set_clock(time)
        over = self._expired()
        session = self._open.pop(name, None)
        if session is None:
            origin = f"{line.stream}:{line.offset}"
            session = OpenSession(name, line.source, origin, line.number)
        session.templates.append(template)
        if self.keep_gaps:
            session.note_gap(time)
        session.time = self._now
        if len(session.templates) >= self.max_events:
            over.append(session)
        else:
            self._open[name] = session
        if len(self._open) > self.max_sessions:
            over.append(self._open.pop(next(iter(self._open))))
        return over

    def close(self) -> list[OpenSession]:
        """Return all sessions that are under way, as over, in the order of their last lines."""
        over = list(self._open.values())
        self._open = {}
        return over

    def rename(self, old: int, new: int) -> None:
        """Take template `old` for template `new`."""
        for session in self._open.values():
            if old in session.templates:
                session.templates = [new if t == old else t for t in session.templates]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "timeout": self.timeout,
            "max_events": self.max_events,
            "max_sessions": self.max_sessions,
            "keep_gaps": self.keep_gaps,
            "open": [asdict(session) for session in self._open.values()],
            "now": self._now,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Tracker":
        """Build it again from :meth:`to_dict`."""
        bounds = state["timeout"], state["max_events"], state["max_sessions"]
        new = cls(*bounds, keep_gaps=state["keep_gaps"])
        for session in state["open"]:
            own = {name: list(session[name]) for name in ("templates", "gaps")}
            new._open[session["name"]] = OpenSession(**{**session, **own})
        new._now = state["now"]
        return new

    def _set_clock(self, time: int) -> None:
        if self._now is None or time < self._now - _DAY:
            # Of sessions that began before there was a time, or with a wrong one.
            for session in self._open.values():
                session.time = time
            self._now = time
        self._now = max(self._now, time)

    def _expired(self) -> list[OpenSession]:
        if self.timeout is None or self._now is None:
            return []
        limit = self._now - int(self.timeout * 1e9)
        over = []
        for session in self._open.values():
            if session.time is None or session.time >= limit:
                break
            over.append(session)
        for session in over:
            del self._open[session.name]
        return over
