"""Runs of alerts: what a person is told once."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tsmamba.logs.result import LogResult, iso

__all__ = ["Episodes", "LogEpisode"]

# Open at most; the one whose last alert is oldest is over then. Where lines have no times, or each
# session is a stream, nothing else would end them.
_MOST = 1_000


@dataclass(slots=True)
class LogEpisode:
    """Alerts of one stream and one reason, close to each other in log time.

    Attributes
    ----------
    episode_id : str
        Event id of its first alert.
    state : {"open", "close"}
        Told twice: when it begins, and when no alert has followed for long enough.
    start, end : int or None
        Times of the first and the last alert, nanoseconds since 1970.
    alerts : int
        How many.
    peak : float
        Highest score.
    """

    episode_id: str
    state: Literal["open", "close"]
    source: str
    stream: str
    reason: str
    start: int | None
    end: int | None
    alerts: int
    peak: float
    message: str
    template: str

    def to_json(self) -> str:
        """Return the record that the command writes."""
        record = {
            **asdict(self),
            "start": None if self.start is None else iso(self.start),
            "end": None if self.end is None else iso(self.end),
            "peak": round(self.peak, 4),
        }
        return json.dumps(record, separators=(",", ":"))


class Episodes:
    """Merges alerts of one stream and reason whose distance is below a cool-down.

    Parameters
    ----------
    cool_down : float
        Seconds of log time without an alert after which the episode is over.
    """

    def __init__(self, cool_down: float = 300.0) -> None:
        self.cool_down = cool_down
        # In the order of their last alerts.
        self._open: dict[tuple[str, str], LogEpisode] = {}

    @property
    def quiet(self) -> bool:
        """Whether no episode is open: a result below the threshold then changes nothing."""
        return not self._open

    def step(self, result: LogResult) -> tuple[str | None, list[LogEpisode]]:
        """Take in a result; return its episode, and the episodes that opened or closed."""
        told = self._over(result.time)
        if result.score is None or result.score <= 1.0:
            return None, told
        key = (result.stream, result.reason)
        episode = self._open.pop(key, None)
        if episode is None:
            episode = LogEpisode(
                episode_id=result.event_id,
                state="open",
                source=result.source,
                stream=result.stream,
                reason=result.reason,
                start=result.time,
                end=result.time,
                alerts=0,
                peak=0.0,
                message=result.message,
                template=result.template,
            )
        self._open[key] = episode
        episode.alerts += 1
        episode.end = result.time if result.time is not None else episode.end
        episode.peak = max(episode.peak, result.score)
        if episode.alerts == 1:
            told.append(LogEpisode(**asdict(episode)))
        if len(self._open) > _MOST:
            told.append(_closed(self._open.pop(next(iter(self._open)))))
        return episode.episode_id, told

    def close(self) -> list[LogEpisode]:
        """Return every episode that is open, as over."""
        over = list(self._open.values())
        self._open = {}
        return [_closed(episode) for episode in over]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "cool_down": self.cool_down,
            "open": [asdict(episode) for episode in self._open.values()],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Episodes":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["cool_down"])
        for fields in state["open"]:
            new._open[fields["stream"], fields["reason"]] = LogEpisode(**fields)
        return new

    def _over(self, now: int | None) -> list[LogEpisode]:
        if not self._open or now is None:
            return []
        reach = int(self.cool_down * 1e9)
        over = []
        for episode in self._open.values():
            if episode.end is None:
                continue
            # One that ends in the future had a wrong stamp.
            if abs(now - episode.end) <= reach:
                break
            over.append(episode)
        for episode in over:
            del self._open[episode.stream, episode.reason]
        return [_closed(episode) for episode in over]


def _closed(episode: LogEpisode) -> LogEpisode:
    return LogEpisode(**{**asdict(episode), "state": "close"})
