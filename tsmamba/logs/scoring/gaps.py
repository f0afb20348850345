"""Time between lines: a step that takes too long, and a line that no longer comes."""

import heapq
import math
from typing import Any, NamedTuple

__all__ = ["Gaps", "Overdue", "Silence"]

# Intervals before one is judged.
_WARMUP = 20
# More of them for pairs of lines: the first lines of a burst are many of one kind in no time.
_PAIR_WARMUP = 50
# Mean and variance of the logarithm of an interval forget with this rate.
_RATE = 1.0 / 64.0
# Plain mean up to here, so that the first interval does not stay.
_PLAIN = 64
# Clocks of one second and busy machines make intervals differ by this factor (as a logarithm).
_LEAST_SPREAD = 0.2
# One long interval moves the mean by no more than so many deviations would.
_CLIP = 4.0
# A line that is so much late is out of order; beyond, the clock was set back.
_LATE = 1_800 * 10**9
# A line comes regularly if the logarithm of its interval spreads less than this.
_REGULAR = 0.5
_NEVER = 1 << 63


class Interval:
    """Running mean and deviation of the logarithm of a time, in seconds."""

    __slots__ = ("mean", "seen", "variance")

    def __init__(self, mean: float = 0.0, seen: int = 0, variance: float = 0.0) -> None:
        self.mean = mean
        self.seen = seen
        self.variance = variance

    @property
    def spread(self) -> float:
        """Deviation, with a floor."""
        return max(math.sqrt(self.variance), _LEAST_SPREAD)

    def cost(self, seconds: float) -> float:
        """Cost of an interval longer than usual: half the square of its deviations."""
        if self.seen < _WARMUP:
            return 0.0
        z = (math.log1p(seconds) - self.mean) / self.spread
        return 0.5 * z * z if z > 0.0 else 0.0

    def step(self, seconds: float) -> float:
        """Cost of an interval, which is taken in."""
        x = math.log1p(seconds)
        cost = 0.0
        if self.seen >= _WARMUP:
            spread = self.spread
            z = (x - self.mean) / spread
            if z > 0.0:
                cost = 0.5 * z * z
            if z > _CLIP:
                x = self.mean + _CLIP * spread
        self.seen += 1
        rate = _RATE if self.seen > _PLAIN else 1.0 / self.seen
        difference = x - self.mean
        self.mean += rate * difference
        self.variance += rate * (difference * (x - self.mean) - self.variance)
        return cost


class Gaps:
    """Time from one template to the next of the same stream.

    Parameters
    ----------
    max_pairs : int
        Pairs of templates that are followed; the one not seen for longest gives way.

    Examples
    --------
    >>> gaps = Gaps()
    >>> for _ in range(50):
    ...     _ = gaps.score(1, 2, seconds=0.5)
    >>> gaps.score(1, 2, seconds=60.0) > 20.0
    True
    """

    def __init__(self, max_pairs: int = 16_384) -> None:
        self.max_pairs = max_pairs
        self._pairs: dict[tuple[int, int], Interval] = {}

    def score(self, before: int, template: int, seconds: float, *, learn: bool = True) -> float:
        """Cost of the time between two lines, which is taken in if `learn` allows it."""
        key = (before, template)
        interval = self._pairs.pop(key, None)
        if interval is None:
            interval = Interval()
            if len(self._pairs) >= self.max_pairs:
                del self._pairs[next(iter(self._pairs))]
        self._pairs[key] = interval
        judged = interval.seen >= _PAIR_WARMUP
        cost = interval.step(seconds) if learn else interval.cost(seconds)
        return cost if judged else 0.0

    def rename(self, old: int, new: int) -> None:
        """Forget the pairs of a template that became another."""
        for key in [key for key in self._pairs if old in key and old != new]:
            del self._pairs[key]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        pairs = self._pairs.items()
        return {
            "max_pairs": self.max_pairs,
            "pairs": [[*key, i.mean, i.seen, i.variance] for key, i in pairs],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Gaps":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["max_pairs"])
        for before, template, mean, seen, variance in state["pairs"]:
            new._pairs[before, template] = Interval(mean, seen, variance)
        return new


class Overdue(NamedTuple):
    """A line that came regularly and has not come."""

    stream: str
    template: int
    cost: float
    seconds: float
    usual: float


class _Beat:
    """When a template of a stream came last, and how often it comes."""

    __slots__ = ("due", "interval", "last", "missed")

    def __init__(self, last: int) -> None:
        self.interval = Interval()
        self.last = last
        # When to look at it again: its entry in the queue, any other one is out of date.
        self.due: int | None = None
        self.missed = False


class Silence:
    """Templates that come regularly, and which of them are overdue.

    Parameters
    ----------
    max_beats : int
        Pairs of stream and template that are followed; the one not seen for longest gives way.

    Examples
    --------
    >>> silence = Silence()
    >>> for second in range(0, 600, 10):
    ...     _ = silence.beat("web", 7, second * 10**9)
    >>> silence.overdue(now=605 * 10**9, threshold=20.0)
    []
    >>> silence.overdue(now=800 * 10**9, threshold=20.0)[0].template
    7
    """

    def __init__(self, max_beats: int = 16_384) -> None:
        self.max_beats = max_beats
        self._beats: dict[tuple[str, int], _Beat] = {}
        self._queue: list[tuple[int, tuple[str, int]]] = []
        # Nothing is overdue before this time.
        self.next_due = _NEVER

    def beat(self, stream: str, template: int, now: int) -> float:
        """Cost of the time since the template came last, which is taken in."""
        key = (stream, template)
        beat = self._beats.pop(key, None)
        if beat is None:
            if len(self._beats) >= self.max_beats:
                del self._beats[next(iter(self._beats))]
            self._beats[key] = _Beat(now)
            return 0.0
        self._beats[key] = beat
        if now < beat.last - _LATE:
            beat.last, beat.due = now, None
            return 0.0
        seconds = max(now - beat.last, 0) * 1e-9
        regular = beat.interval.variance < _REGULAR**2
        cost = beat.interval.step(seconds)
        if beat.missed or not regular:
            cost = 0.0
        beat.last = max(now, beat.last)
        beat.missed = False
        if beat.due is None and regular and beat.interval.seen >= _WARMUP:
            self._look_at(key, beat, beat.last)
        return cost

    def overdue(self, now: int, threshold: float) -> list[Overdue]:
        """Templates that cost more than the threshold by now, each told once."""
        found = []
        while self._queue and self._queue[0][0] <= now:
            due, key = heapq.heappop(self._queue)
            beat = self._beats.get(key)
            if beat is None or beat.due != due:
                continue
            interval = beat.interval
            reach = interval.mean + math.sqrt(2.0 * threshold) * interval.spread
            deadline = beat.last + int(math.expm1(min(reach, 40.0)) * 1e9)
            if deadline > now:
                self._look_at(key, beat, deadline)
                continue
            beat.due = None
            beat.missed = True
            if interval.variance < _REGULAR**2:
                seconds = (now - beat.last) * 1e-9
                usual = math.expm1(interval.mean)
                found.append(Overdue(*key, interval.cost(seconds), seconds, usual))
        self.next_due = self._queue[0][0] if self._queue else _NEVER
        return found

    def shift(self, by: int) -> None:
        """Move all times by so many nanoseconds."""
        for beat in self._beats.values():
            beat.last += by
            if beat.due is not None:
                beat.due += by
        self._queue = [(due + by, key) for due, key in self._queue]
        self.next_due = self._queue[0][0] if self._queue else _NEVER

    def rename(self, old: int, new: int) -> None:
        """Forget a template that became another."""
        for key in [key for key in self._beats if key[1] == old and old != new]:
            del self._beats[key]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "max_beats": self.max_beats,
            "beats": [
                [*key, b.last, b.missed, b.interval.mean, b.interval.seen, b.interval.variance]
                for key, b in self._beats.items()
            ],
            "queue": sorted(self._queue_now()),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Silence":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["max_beats"])
        for stream, template, last, missed, mean, seen, variance in state["beats"]:
            beat = new._beats[stream, template] = _Beat(last)
            beat.missed = missed
            beat.interval = Interval(mean, seen, variance)
        new._queue = [(due, tuple(key)) for due, key in state["queue"]]
        for due, key in new._queue:
            new._beats[key].due = due
        new.next_due = new._queue[0][0] if new._queue else _NEVER
        return new

    def _look_at(self, key: tuple[str, int], beat: _Beat, due: int) -> None:
        beat.due = due
        heapq.heappush(self._queue, (due, key))
        if len(self._queue) > 2 * self.max_beats:
            self._queue = sorted(self._queue_now())
        self.next_due = self._queue[0][0]

    def _queue_now(self) -> list[tuple[int, tuple[str, int]]]:
        """Entries of the queue that are not out of date."""
        beats = self._beats
        return [(due, key) for due, key in self._queue if key in beats and beats[key].due == due]
