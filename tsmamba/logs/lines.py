"""Lines: what a single line costs where it stands, and which of its costs alert."""

from collections import deque
from operator import truediv
from typing import Any, NamedTuple

from tsmamba.logs.scoring.frequencies import Frequencies
from tsmamba.logs.scoring.gaps import Gaps, Overdue, Silence
from tsmamba.logs.scoring.ngram import START, NGram
from tsmamba.logs.scoring.rates import Rates
from tsmamba.logs.scoring.threshold import GuardedThresholds
from tsmamba.logs.scoring.values import ValueTails

__all__ = ["KINDS", "Event", "LineModel", "LineScore"]

# Each kind of cost alerts by itself: what is rare in one says nothing about another.
KINDS = ("sequence", "value", "level", "gap", "rate", "silence")

# What remains of the cost of an order after each line of the stream, and what a line adds at most:
# two requests that meet make a few strange steps, a program that goes another way makes many.
_FADE = 31.0 / 32.0
_MOST_STRANGE = 6.0
# Lines after which an order is learned: what goes another way is not usual at its second time.
_LAG = 256
_RATE = KINDS.index("rate")
_ORDER = 3
# The last quarter of the training log sets the thresholds.
_CALIBRATION = 0.25
# Smaller parts of a threshold are left out.
_LEAST = 0.005
# Score of a kind of line that was never seen and tells of an error. Where a training log had some
# new kinds of lines to its end, no threshold would let one alert; those that tell of an error are
# few, and each is new once.
_NEW_ERROR = 1.5
# Lines overdue that are told at once.
_TOLD = 8
# A line so far behind the others shows that the clock was ahead, by mistake.
_DAY = 86_400 * 10**9


class Event(NamedTuple):
    """A line as the model sees it: its template, where and when it came, and its numbers.

    The order of lines is that of one stream of one source; what comes regularly does so in a
    stream, whatever source it is read from. `time` is in nanoseconds since 1970, `numbers` are
    those in the wild places of the template, and `new_error` says that the template is new and the
    line tells of an error.
    """

    template: int
    stream: str = ""
    source: str = ""
    time: int | None = None
    severity: str | None = None
    numbers: tuple[float, ...] = ()
    new_error: bool = False


class LineScore(NamedTuple):
    """Score of a line: the dearest of its costs in units of its threshold, 1 alerts.

    `cost` is that dearest one in nats, and `costs` are all of them, in the order of ``KINDS``;
    `new_error` is the least score of a new kind of line that tells of an error, 0 for others.
    """

    score: float
    cost: float
    reason: str
    costs: tuple[float, ...]
    thresholds: tuple[float, ...]
    new_error: float = 0.0

    @property
    def is_anomaly(self) -> bool:
        """Whether the line alerts."""
        return self.score > 1.0

    @property
    def parts(self) -> dict[str, float]:
        """Every cost in units of its threshold, the highest is the score."""
        pairs = zip(KINDS, self.costs, self.thresholds, strict=True)
        parts = {kind: cost / limit for kind, cost, limit in pairs if cost > _LEAST * limit}
        return {**parts, "new_error": self.new_error} if self.new_error else parts


class LineModel:
    """Cost of each line, learned as the lines come.

    Six kinds of cost have a threshold each: the sequence (how rare are the template and the
    severity, and how unexpected is the template here), a value, the level of a value, the time
    since the line before, the lines a minute, and a regular line that does not come.

    Parameters
    ----------
    rate : float
        Share of normal lines that may alert.
    max_streams : int
        Streams whose last lines are known; the one not seen for longest gives way.

    Examples
    --------
    >>> model = LineModel(rate=1e-3)
    >>> model.fit([Event(template=i % 3) for i in range(3_000)])
    >>> model.step(Event(template=0)).is_anomaly, model.step(Event(template=7)).reason
    (False, 'unseen_template')
    """

    def __init__(self, rate: float, max_streams: int = 10_000) -> None:
        self.max_streams = max_streams
        self.templates = Frequencies()
        self.severities = Frequencies()
        self.sequence = NGram(_ORDER)
        self.values = ValueTails()
        self.gaps = Gaps()
        self.rates = Rates()
        self.silence = Silence()
        self.thresholds = GuardedThresholds(rate / len(KINDS), len(KINDS))
        # Of each stream the last templates, the time of the last line, how strange its order is.
        self._streams: dict[tuple[str, str], tuple[tuple[int, ...], int | None, float]] = {}
        self._steps: deque[tuple[tuple[int, ...], int]] = deque()
        self._now = 0
        self._resting = False

    def fit(self, events: list[Event]) -> None:
        """Learn from lines in the order of time; the last quarter of them sets the thresholds."""
        split = len(events) - int(len(events) * _CALIBRATION)
        for event in events[:split]:
            self._costs(event)
        self.thresholds.seed([self._costs(event)[0] for event in events[split:]])
        self.rest()

    def rest(self) -> None:
        """End the log: the next line begins another, at whatever time, and nothing is late."""
        self._streams.clear()
        while self._steps:
            self.sequence.step(*self._steps.popleft())
        self._resting = True

    def step(self, event: Event) -> LineScore:
        """Score a line and learn from it."""
        unseen = self.is_new(event.template)
        costs, rarity = self._costs(event)
        thresholds = self.thresholds.values
        self.thresholds.step(costs)
        relative = [*map(truediv, costs, thresholds)]
        score = max(relative)
        dearest = relative.index(score)
        reason = KINDS[dearest]
        if dearest == 0 and unseen:
            reason = "unseen_template"
        elif dearest == 0 and 2.0 * rarity > costs[0]:
            reason = "rare_template"
        if event.new_error and score < _NEW_ERROR:
            cost = costs[dearest]
            return LineScore(_NEW_ERROR, cost, "unseen_template", costs, thresholds, _NEW_ERROR)
        return LineScore(score, costs[dearest], reason, costs, thresholds)

    def is_new(self, template: int) -> bool:
        """Whether a template was never seen, or not for very long."""
        return template not in self.templates.counts

    def overdue(self, now: int) -> list[tuple[Overdue, LineScore]]:
        """Regular lines that have not come by now, each told once; call it before :meth:`step`."""
        if self._resting:
            self._wake(now)
        if now < self.silence.next_due or now <= self._now:
            return []
        limits = self.thresholds.values
        limit = limits[-1]
        told = []
        # After a leap of the clock everything is late: the dearest few say so.
        late_ones = sorted(self.silence.overdue(now, limit), key=lambda late: -late.cost)
        for late in late_ones[:_TOLD]:
            costs = (*(0.0 for _ in KINDS[1:]), late.cost)
            self.thresholds.step(costs)
            told.append((late, LineScore(late.cost / limit, late.cost, "silence", costs, limits)))
        return told

    def rename(self, old: int, new: int) -> None:
        """Count what was seen as template `old` for template `new`."""
        for part in (
            self.templates,
            self.sequence,
            self.values,
            self.gaps,
            self.rates,
            self.silence,
        ):
            part.rename(old, new)

        def renamed(before: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(new if template == old else template for template in before)

        for place, (before, time, strange) in self._streams.items():
            self._streams[place] = (renamed(before), time, strange)
        for i, (before, template) in enumerate(self._steps):
            self._steps[i] = (renamed(before), new if template == old else template)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "max_streams": self.max_streams,
            "templates": self.templates.to_dict(),
            "severities": self.severities.to_dict(),
            "sequence": self.sequence.to_dict(),
            "values": self.values.to_dict(),
            "gaps": self.gaps.to_dict(),
            "rates": self.rates.to_dict(),
            "silence": self.silence.to_dict(),
            "thresholds": self.thresholds.to_dict(),
            "streams": [[*place, *known] for place, known in self._streams.items()],
            "steps": list(self._steps),
            "now": self._now,
            "resting": self._resting,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "LineModel":
        """Build it again from :meth:`to_dict`."""
        new = cls(rate=1.0, max_streams=state["max_streams"])
        new.templates = Frequencies.from_dict(state["templates"])
        new.severities = Frequencies.from_dict(state["severities"])
        new.sequence = NGram.from_dict(state["sequence"])
        new.values = ValueTails.from_dict(state["values"])
        new.gaps = Gaps.from_dict(state["gaps"])
        new.rates = Rates.from_dict(state["rates"])
        new.silence = Silence.from_dict(state["silence"])
        new.thresholds = GuardedThresholds.from_dict(state["thresholds"])
        for source, stream, before, time, strange in state["streams"]:
            new._streams[source, stream] = (tuple(before), time, strange)
        new._steps.extend((tuple(before), template) for before, template in state["steps"])
        new._now, new._resting = state["now"], state["resting"]
        return new

    def _wake(self, now: int) -> None:
        """Move all times, so that the first line after a rest follows the last one before."""
        self._resting = False
        self.silence.shift(now - self._now)
        self.rates.shift(now - self._now)
        self._now = now

    def _costs(self, event: Event) -> tuple[tuple[float, ...], float]:
        """Costs of a line in the order of KINDS, and its rarity wherever it comes; learns it."""
        template, stream, source, time, severity, numbers, _ = event
        place = (source, stream)
        before, last, strange = self._streams.pop(place, ((START,), None, 0.0))
        rarity = self.templates.step(template) + self.severities.step(severity or "")
        order = self.sequence.cost(before, template)
        strange *= _FADE
        if template != before[-1]:  # how often a line repeats is a matter of its rate
            strange += min(order, _MOST_STRANGE)
        self._steps.append((before, template))
        if len(self._steps) > _LAG:
            self.sequence.step(*self._steps.popleft())
        tail = level = gap = rate = beat = 0.0
        if numbers:
            tail, level = self.values.score(template, numbers)
        if time is not None:
            if self._resting:
                self._wake(time)
            rate = self.rates.score(template, time)
            if last is not None:
                # The pace of a burst is not the usual one, nor is that of its beginning.
                usual = rate <= 0.5 * self.thresholds.values[_RATE]
                seconds = max(time - last, 0) * 1e-9
                gap = self.gaps.score(before[-1], template, seconds, learn=usual)
            beat = self.silence.beat(stream, template, time)
            self._now = time if time < self._now - _DAY else max(self._now, time)
        if len(self._streams) >= self.max_streams:
            del self._streams[next(iter(self._streams))]
        self._streams[place] = ((*before, template)[1 - _ORDER :], time, strange)
        return (max(rarity + order, strange), tail, level, gap, rate, beat), rarity
