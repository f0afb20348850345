"""Sessions: what a whole sequence of templates costs, and how that is learned."""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING, Any, TypeAlias

from tsmamba.logs.judging import Gaps, Trainer, is_as_usual
from tsmamba.logs.scoring.counts import NearestCounts
from tsmamba.logs.scoring.frequencies import Frequencies, Key
from tsmamba.logs.scoring.ngram import START, STOP, NGram
from tsmamba.logs.scoring.threshold import GuardedThresholds
from tsmamba.logs.tracker import UNKNOWN_GAP

if TYPE_CHECKING:
    from tsmamba.logs.network import Committee

__all__ = ["SessionModel", "SessionScore"]

Session: TypeAlias = tuple[list[int], Gaps]

# Sessions longer than this, in the median of the training log, are judged by their mean cost.
_LONG = 100
_ORDER, _LONG_ORDER = 3, 8
# In a long session one surprise says little: it counts for no more than so many nats.
_CLIP = 4.0
# Nats for one unit of the distance to the nearest counts, and how many sessions have to say another
# number before it counts as much: where few were seen, rare counts of normal ones are missing.
_DISTANCE, _DOUBT = 8.0, 100
# Costs of networks that are all alike vary by this share at least, and by this.
_LEAST_SPREAD = (0.05, 1e-3)
# Only sessions below this share of the recent costs are learned from.
_LEARN_BELOW = 0.98
_RECENT = 2_000
# The share of the training sessions that sets the threshold: the last ones.
_CALIBRATION = 0.25


@dataclass(frozen=True, slots=True)
class SessionScore:
    """Cost of a session in nats, what it is made of, and whether it alerts.

    `reason` is its dearest part, or that a template was never seen, and `template` the one at the
    dearest step.
    """

    cost: float
    parts: dict[str, float]
    threshold: float
    is_anomaly: bool
    reason: str
    template: int


class SessionModel:
    """Cost of a session: rarest template, counts, rarest transition and dearest step, in nats.

    The three frequencies and the n-gram learn from every session that is not among the dearest two
    per cent. Sessions of more than a hundred lines are judged by the mean of their steps alone,
    each cut at 4 nats.

    Networks, if there are any, read each session as well. Their dearest step is weighed so that it
    varies over usual sessions as much as all other parts together. They do not learn on.

    Parameters
    ----------
    rate : float
        Share of normal sessions that may alert.
    long : bool
        Whether sessions are long.
    clean : bool
        Whether the training log shows all that is normal and nothing else. Then the distance to
        the nearest counts joins, in units of the mean of sessions that were not learned yet.

    Examples
    --------
    >>> model = SessionModel.fitted([[0, 1, 1, 2]] * 50 + [[0, 1, 2]] * 50, rate=0.01, trim=0.1)
    >>> model.step([0, 1, 2]).is_anomaly, model.step([0, 2, 2, 9]).is_anomaly
    (False, True)
    """

    def __init__(self, rate: float, *, long: bool = False, clean: bool = False) -> None:
        self.long = long
        self.templates = Frequencies()
        self.counts = Frequencies()
        self.transitions = Frequencies()
        self.sequence = NGram(_LONG_ORDER if long else _ORDER)
        self.nearest = NearestCounts() if clean and not long else None
        self.network: Committee | None = None
        # Of the parts that are no logarithm of a share: nats for one unit.
        self.weights = {"distance": 1.0, "network": 1.0}
        # The mean of steps that are cut is no logarithm of a share.
        self.thresholds = GuardedThresholds(rate, least=0.0 if long else None)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._limit = 0.0
        self._age = 0

    @classmethod
    def fitted(
        cls,
        sessions: list[list[int]],
        rate: float,
        trim: float,
        *,
        gaps: list[Gaps] | None = None,
        train: Trainer | None = None,
    ) -> "SessionModel":
        """Learn from sessions in the order of time.

        The rarest `trim` of them are left out, by the costs of a first model, because training
        logs hold anomalies; the last quarter of the others sets the threshold. `gaps` are the
        seconds before each line, which networks read; `train` makes these.
        """
        long = median(len(session) for session in sessions) > _LONG
        clean = trim == 0.0
        kept = list(range(len(sessions)))
        if not clean:
            kept = _trimmed(sessions, trim, cls(rate, long=long))
        waits = gaps or [[UNKNOWN_GAP] * len(session) for session in sessions]
        split = len(kept) - int(len(kept) * _CALIBRATION)
        usual = [(sessions[i], waits[i]) for i in kept[split:]]
        model = cls(rate, long=long, clean=clean)
        for i in kept[:split]:
            model.learn(sessions[i])
        if train is not None:
            model.network = train(
                [sessions[i] for i in kept[:split]],
                [waits[i] for i in kept[:split]],
                lambda network: model._is_of_use(network, usual),
            )
        model._calibrate(usual)
        return model

    def parts(
        self, session: list[int], steps: list[float] | None = None, gaps: Gaps | None = None
    ) -> dict[str, float]:
        """Cost of a session, part by part."""
        steps = self.sequence.costs(session) if steps is None else steps
        parts = {} if self.long else self._frequencies(session)
        parts["sequence"] = self._reading(steps)
        if self.nearest is not None:
            parts["distance"] = self.nearest.distance(session)
        if self.network is not None:
            parts["network"] = self._reading(self.network.costs(session, gaps))
        for name in self.weights.keys() & parts.keys():
            parts[name] *= self.weights[name]
        return parts

    def step(
        self, session: list[int], gaps: Gaps | None = None, *, learn: bool = True
    ) -> SessionScore:
        """Score a session, and learn from it if it is usual and `learn` allows it."""
        steps = self.sequence.costs(session)
        parts = self.parts(session, steps, gaps)
        cost = sum(parts.values())
        (threshold,) = self.thresholds.values
        alert = self.thresholds.step((cost,)) if learn else cost > threshold
        strangest = session[min(steps.index(max(steps)), len(session) - 1)]
        reason = max(parts, key=lambda name: parts[name])
        unseen = next((t for t in session if not self.sequence.knows(t)), None)
        if unseen is not None:
            # It makes every part dear; this is what a person wants to know.
            reason, strangest = "unseen_template", unseen
        elif reason == "rarity":
            reason, strangest = "rare_template", max(session, key=self.templates.cost)
        if learn:
            if cost <= self._limit:
                self.learn(session)
            self._note(cost)
        return SessionScore(cost, parts, threshold, alert, reason, strangest)

    def learn(self, session: list[int]) -> None:
        """Take a session in."""
        self.sequence.add(session)
        if self.long:
            return
        templates, counts, transitions = _keys(session)
        self.templates.add(templates)
        self.counts.add((counts,))
        self.transitions.add(transitions)
        if self.nearest is not None:
            self.nearest.add(session)

    def rename(self, old: int, new: int) -> None:
        """Count what was seen as template `old` for template `new`."""
        for part in (self.templates, self.transitions, self.sequence):
            part.rename(old, new)
        self.counts.relabel(lambda name: _renamed(name, old, new))
        if self.nearest is not None:
            self.nearest.rename(old, new)
        if self.network is not None:
            self.network.rename(old, new)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "long": self.long,
            "templates": self.templates.to_dict(),
            "counts": self.counts.to_dict(),
            "transitions": self.transitions.to_dict(),
            "sequence": self.sequence.to_dict(),
            "nearest": None if self.nearest is None else self.nearest.to_dict(),
            "network": None if self.network is None else self.network.to_dict(),
            "weights": self.weights,
            "thresholds": self.thresholds.to_dict(),
            "recent": list(self._recent),
            "limit": self._limit,
            "age": self._age,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any], networks: list[str]) -> "SessionModel":
        """Build it again from :meth:`to_dict` and the weights of its networks."""
        new = cls(state["thresholds"]["rate"], long=state["long"])
        new.templates = Frequencies.from_dict(state["templates"])
        new.counts = Frequencies.from_dict(state["counts"])
        new.transitions = Frequencies.from_dict(state["transitions"])
        new.sequence = NGram.from_dict(state["sequence"])
        if state["nearest"] is not None:
            new.nearest = NearestCounts.from_dict(state["nearest"])
        if state["network"] is not None:
            from tsmamba.logs.network import Committee

            new.network = Committee.from_dict(state["network"], networks)
        new.weights = dict(state["weights"])
        new.thresholds = GuardedThresholds.from_dict(state["thresholds"])
        new._recent.extend(state["recent"])
        new._limit, new._age = state["limit"], state["age"]
        return new

    def _frequencies(self, session: list[int]) -> dict[str, float]:
        templates, counts, transitions = _keys(session)
        return {
            "rarity": self.templates.rarest(templates) if templates else 0.0,
            "counts": self.counts.cost(counts),
            "transition": self.transitions.rarest(transitions),
        }

    def _reading(self, steps: list[float]) -> float:
        """Cost of a session by the costs of its steps."""
        return fmean([min(step, _CLIP) for step in steps]) if self.long else max(steps)

    def _is_of_use(self, network: "Committee", usual: list[Session]) -> bool:
        """Whether usual sessions are usual for a network."""
        if not usual:
            return True
        told = [network.costs(session, gaps) for session, gaps in usual]
        expected = [self.sequence.costs(session) for session, _ in usual]
        return is_as_usual(told, expected, (fmean, self._reading))

    def _calibrate(self, usual: list[Session]) -> None:
        """Weigh the parts and set the threshold by sessions not learned yet, and learn them."""
        found = []
        for session, gaps in usual:
            found.append(self.parts(session, gaps=gaps))
            self.learn(session)
        if found and self.nearest is not None:
            # Distances of usual sessions as an exponential law: nats by the mean, with a prior.
            far = sum(parts["distance"] for parts in found)
            self.weights["distance"] = (len(found) + _DOUBT) / (far + _DOUBT / _DISTANCE)
        if found and self.network is not None:
            readings = [parts["network"] for parts in found]
            others = [self._total(parts) - parts["network"] for parts in found]
            share, least = _LEAST_SPREAD
            spread = max(pstdev(readings), share * fmean(readings) + least)
            self.weights["network"] = max(1.0, pstdev(others) / spread)
        costs = [self._total(parts) for parts in found]
        self.thresholds.seed([(cost,) for cost in costs])
        for cost in costs:
            self._note(cost)

    def _total(self, parts: dict[str, float]) -> float:
        """Sum of parts that were not weighed yet."""
        return sum(self.weights.get(name, 1.0) * part for name, part in parts.items())

    def _note(self, cost: float) -> None:
        """Keep a cost, and from time to time look again which ones are usual."""
        self._recent.append(cost)
        if self._age % 50 == 0:
            ranked = sorted(self._recent)
            self._limit = ranked[int(_LEARN_BELOW * (len(ranked) - 1))]
        self._age += 1


def _renamed(counts: Key, old: int, new: int) -> Key:
    """Name of the same counts with one template in the place of another."""
    pairs = [part.split(":") for part in str(counts).split(",") if part]
    if all(template != str(old) for template, _ in pairs):
        return counts
    bits: dict[int, int] = {}
    for template, length in pairs:
        name = new if int(template) == old else int(template)
        bits[name] = max(bits.get(name, 0), int(length))
    return ",".join(f"{template}:{bits[template]}" for template in sorted(bits))


def _trimmed(sessions: list[list[int]], trim: float, model: SessionModel) -> list[int]:
    """Return which sessions are not of the dearest share, by a model that saw all of them."""
    for session in sessions:
        model.learn(session)
    costs = [sum(model.parts(session).values()) for session in sessions]
    dearest = sorted(range(len(sessions)), key=lambda i: -costs[i])[: int(trim * len(sessions))]
    dropped = set(dearest)
    return [i for i in range(len(sessions)) if i not in dropped]


def _keys(session: list[int]) -> tuple[set[int], str, set[tuple[int, ...]]]:
    """Templates, counts to the nearest power of two, and transitions with start and end."""
    counts: dict[int, int] = {}
    for template in session:
        counts[template] = counts.get(template, 0) + 1
    name = ",".join(f"{template}:{counts[template].bit_length()}" for template in sorted(counts))
    marked = [START, *session, STOP]
    return set(counts), name, set(pairwise(marked))
