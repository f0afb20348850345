"""Lines: what a single line costs where it stands, and which of its costs alert."""

from collections import deque
from collections.abc import Sequence
from math import log
from operator import truediv
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tsmamba.logs.judging import Gaps as Waits
from tsmamba.logs.judging import Trainer, is_as_usual
from tsmamba.logs.scoring.frequencies import Frequencies
from tsmamba.logs.scoring.gaps import Gaps, Overdue, Silence
from tsmamba.logs.scoring.ngram import START, NGram
from tsmamba.logs.scoring.rates import Rates
from tsmamba.logs.scoring.threshold import GuardedThresholds
from tsmamba.logs.scoring.values import ValueTails
from tsmamba.logs.tracker import UNKNOWN_GAP

if TYPE_CHECKING:
    from tsmamba.logs.network import Committee, Follower

__all__ = ["KINDS", "KINDS_WITH_NETWORK", "Event", "LineModel", "LineScore"]

Place: TypeAlias = tuple[str, str]

# Each kind of cost alerts by itself: what is rare in one says nothing about another.
KINDS = ("sequence", "value", "level", "gap", "rate", "silence")
KINDS_WITH_NETWORK = (*KINDS, "network")

# What remains of the cost of an order after each line of the stream, and what a line adds at most:
# two requests that meet make a few strange steps, a program that goes another way makes many.
_FADE = 31.0 / 32.0
_MOST_STRANGE = 6.0
# Lines after which an order is learned: what goes another way is not usual at its second time.
_LAG = 256
_RATE, _SILENCE = KINDS.index("rate"), KINDS.index("silence")
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
# No threshold of the networks is below so many nats. What they never saw costs them seven or eight,
# not more: with the logarithm of the rate as the least, as for other kinds, none would alert.
_LEAST_NETWORK = 5.0
# Lines of a stream whose costs are held against those of the n-gram at once.
_STRETCH = 256


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

    `cost` is that dearest one in nats, and `costs` are all of them, in the order of ``KINDS``, that
    of the networks after them if there are any; `new_error` is the least score of a new kind of
    line that tells of an error, 0 for others.
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
        kinds = KINDS_WITH_NETWORK[: len(self.costs)]
        pairs = zip(kinds, self.costs, self.thresholds, strict=True)
        parts = {kind: cost / limit for kind, cost, limit in pairs if cost > _LEAST * limit}
        return {**parts, "new_error": self.new_error} if self.new_error else parts


class LineModel:
    """Cost of each line, learned as the lines come.

    Six kinds of cost have a threshold each: the sequence (how rare are the template and the
    severity, and how unexpected is the template here), a value, the level of a value, the time
    since the line before, the lines a minute, and a regular line that does not come. Networks, if
    there are any, follow each stream and are a seventh kind. They do not learn on.

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
        self.network: Follower | None = None
        self._set_thresholds(rate)
        # Of each stream the last templates, the time of the last line, how strange its order is.
        self._streams: dict[tuple[str, str], tuple[tuple[int, ...], int | None, float]] = {}
        self._steps: deque[tuple[tuple[int, ...], int]] = deque()
        self._now = 0
        self._resting = False

    def fit(self, events: list[Event], train: Trainer | None = None) -> None:
        """Learn from lines in the order of time; the last quarter of them sets the thresholds.

        `train` makes networks of what comes before the last quarter.
        """
        split = len(events) - int(len(events) * _CALIBRATION)
        for event in events[:split]:
            self._costs(event)
        if train is not None:
            self._add_network(events[:split], events[split:], train)
        self.thresholds.seed([self._costs(event)[0] for event in events[split:]])
        self.rest()

    def rest(self) -> None:
        """End the log: the next line begins another, at whatever time, and nothing is late."""
        self._streams.clear()
        if self.network is not None:
            self.network.clear()
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
        reason = KINDS_WITH_NETWORK[dearest]
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
        limit = limits[_SILENCE]
        told = []
        # After a leap of the clock everything is late: the dearest few say so.
        late_ones = sorted(self.silence.overdue(now, limit), key=lambda late: -late.cost)
        for late in late_ones[:_TOLD]:
            costs = tuple(late.cost if i == _SILENCE else 0.0 for i in range(len(limits)))
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
        if self.network is not None:
            self.network.rename(old, new)

        def renamed(before: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(new if template == old else template for template in before)

        for place, (before, time, strange) in self._streams.items():
            self._streams[place] = (renamed(before), time, strange)
        for i, (before, template) in enumerate(self._steps):
            self._steps[i] = (renamed(before), new if template == old else template)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        # Without networks nothing of them is in it.
        network = {} if self.network is None else {"network": self.network.to_dict()}
        return {
            **network,
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
    def from_dict(cls, state: dict[str, Any], networks: Sequence[str] = ()) -> "LineModel":
        """Build it again from :meth:`to_dict` and the weights of its networks."""
        new = cls(rate=1.0, max_streams=state["max_streams"])
        new.templates = Frequencies.from_dict(state["templates"])
        new.severities = Frequencies.from_dict(state["severities"])
        new.sequence = NGram.from_dict(state["sequence"])
        new.values = ValueTails.from_dict(state["values"])
        new.gaps = Gaps.from_dict(state["gaps"])
        new.rates = Rates.from_dict(state["rates"])
        new.silence = Silence.from_dict(state["silence"])
        if "network" in state:
            from tsmamba.logs.network import Follower

            new.network = Follower.from_dict(state["network"], list(networks))
        new.thresholds = GuardedThresholds.from_dict(state["thresholds"])
        for source, stream, before, time, strange in state["streams"]:
            new._streams[source, stream] = (tuple(before), time, strange)
        new._steps.extend((tuple(before), template) for before, template in state["steps"])
        new._now, new._resting = state["now"], state["resting"]
        return new

    def _set_thresholds(self, rate: float) -> None:
        """Begin thresholds anew: the kinds of cost share the rate."""
        if self.network is None:
            self.thresholds = GuardedThresholds(rate / len(KINDS), len(KINDS))
            return
        share = rate / len(KINDS_WITH_NETWORK)
        usual = -log(share)
        least = (*(usual for _ in KINDS), min(usual, _LEAST_NETWORK))
        self.thresholds = GuardedThresholds(share, len(least), least)

    def _add_network(self, learned: list[Event], usual: list[Event], train: Trainer) -> None:
        """Train networks, and take those that find the order of usual lines usual."""
        streams = _streams(usual)

        def is_of_use(network: "Committee") -> bool:
            told = [network.costs(*stream)[:-1] for stream in streams]
            expected = [self.sequence.costs(templates)[:-1] for templates, _ in streams]
            return not usual or is_as_usual(_stretches(told), _stretches(expected), (fmean, max))

        streams_learned = _streams(learned)
        committee = train(
            [templates for templates, _ in streams_learned],
            [waits for _, waits in streams_learned],
            is_of_use,
        )
        if committee is not None:
            from tsmamba.logs.network import Follower

            rate = self.thresholds.rate * len(KINDS)
            self.network = Follower(committee)
            self._set_thresholds(rate)

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
        told: tuple[float, ...] = ()
        if self.network is not None:
            told = (self.network.step(place, template, _wait(last, time)),)
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
        costs = (max(rarity + order, strange), tail, level, gap, rate, beat, *told)
        return costs, rarity


def _wait(last: int | None, time: int | None) -> float:
    """Seconds since the last line, as the networks read them."""
    return UNKNOWN_GAP if time is None or last is None else max(time - last, 0) * 1e-9


def _streams(events: list[Event]) -> list[tuple[list[int], Waits]]:
    """Templates of each stream, and the seconds before each line of it."""
    streams: dict[Place, tuple[list[int], Waits]] = {}
    last: dict[Place, int | None] = {}
    for event in events:
        place = (event.source, event.stream)
        templates, waits = streams.setdefault(place, ([], []))
        templates.append(event.template)
        waits.append(_wait(last.get(place), event.time))
        last[place] = event.time
    return [*streams.values()]


def _stretches(streams: list[list[float]]) -> list[list[float]]:
    """Cut the costs of the lines of each stream as the networks learn them."""
    return [
        costs[start : start + _STRETCH]
        for costs in streams
        for start in range(0, len(costs), _STRETCH)
    ]
