"""Sessions: what a whole sequence of templates costs, and how that is learned."""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from tsmamba.logs.scoring.counts import NearestCounts
from tsmamba.logs.scoring.frequencies import Frequencies, Key
from tsmamba.logs.scoring.ngram import START, STOP, NGram
from tsmamba.logs.scoring.threshold import GuardedThresholds

__all__ = ["SessionModel", "SessionScore"]

# Sessions longer than this, in the median of the training log, are judged by their mean cost.
_LONG = 100
_ORDER, _LONG_ORDER = 3, 8
# In a long session one surprise says little: it counts for no more than so many nats.
_CLIP = 4.0
# Nats for one unit of the distance to the nearest counts.
_DISTANCE = 8.0
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

    Parameters
    ----------
    rate : float
        Share of normal sessions that may alert.
    long : bool
        Whether sessions are long.
    clean : bool
        Whether the training log shows all that is normal and nothing else. Then the distance to
        the nearest counts joins.

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
        # The mean of steps that are cut is no logarithm of a share.
        self.thresholds = GuardedThresholds(rate, least=0.0 if long else None)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._limit = 0.0
        self._age = 0

    @classmethod
    def fitted(cls, sessions: list[list[int]], rate: float, trim: float) -> "SessionModel":
        """Learn from sessions in the order of time.

        The rarest `trim` of them are left out, by the costs of a first model, because training
        logs hold anomalies; the last quarter of the others sets the threshold.
        """
        long = median(len(session) for session in sessions) > _LONG
        clean = trim == 0.0
        kept = sessions if clean else _trimmed(sessions, trim, cls(rate, long=long))
        split = len(kept) - int(len(kept) * _CALIBRATION)
        model = cls(rate, long=long, clean=clean)
        for session in kept[:split]:
            model.learn(session)
        costs = []
        for session in kept[split:]:
            costs.append(sum(model.parts(session).values()))
            model.learn(session)
        model.thresholds.seed([(cost,) for cost in costs])
        for cost in costs:
            model._note(cost)
        return model

    def parts(self, session: list[int], steps: list[float] | None = None) -> dict[str, float]:
        """Cost of a session, part by part."""
        steps = self.sequence.costs(session) if steps is None else steps
        if self.long:
            return {"sequence": sum(min(step, _CLIP) for step in steps) / len(steps)}
        templates, counts, transitions = _keys(session)
        parts = {
            "rarity": self.templates.rarest(templates) if templates else 0.0,
            "counts": self.counts.cost(counts),
            "transition": self.transitions.rarest(transitions),
            "sequence": max(steps),
        }
        if self.nearest is not None:
            parts["distance"] = _DISTANCE * self.nearest.distance(session)
        return parts

    def step(self, session: list[int], *, learn: bool = True) -> SessionScore:
        """Score a session, and learn from it if it is usual and `learn` allows it."""
        steps = self.sequence.costs(session)
        parts = self.parts(session, steps)
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

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "long": self.long,
            "templates": self.templates.to_dict(),
            "counts": self.counts.to_dict(),
            "transitions": self.transitions.to_dict(),
            "sequence": self.sequence.to_dict(),
            "nearest": None if self.nearest is None else self.nearest.to_dict(),
            "thresholds": self.thresholds.to_dict(),
            "recent": list(self._recent),
            "limit": self._limit,
            "age": self._age,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "SessionModel":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["thresholds"]["rate"], long=state["long"])
        new.templates = Frequencies.from_dict(state["templates"])
        new.counts = Frequencies.from_dict(state["counts"])
        new.transitions = Frequencies.from_dict(state["transitions"])
        new.sequence = NGram.from_dict(state["sequence"])
        if state["nearest"] is not None:
            new.nearest = NearestCounts.from_dict(state["nearest"])
        new.thresholds = GuardedThresholds.from_dict(state["thresholds"])
        new._recent.extend(state["recent"])
        new._limit, new._age = state["limit"], state["age"]
        return new

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


def _trimmed(sessions: list[list[int]], trim: float, model: SessionModel) -> list[list[int]]:
    """Return the sessions without the dearest share, by a model that saw all of them."""
    for session in sessions:
        model.learn(session)
    costs = [sum(model.parts(session).values()) for session in sessions]
    dearest = sorted(range(len(sessions)), key=lambda i: -costs[i])[: int(trim * len(sessions))]
    dropped = set(dearest)
    return [session for i, session in enumerate(sessions) if i not in dropped]


def _keys(session: list[int]) -> tuple[set[int], str, set[tuple[int, ...]]]:
    """Templates, counts to the nearest power of two, and transitions with start and end."""
    counts: dict[int, int] = {}
    for template in session:
        counts[template] = counts.get(template, 0) + 1
    name = ",".join(f"{template}:{counts[template].bit_length()}" for template in sorted(counts))
    marked = [START, *session, STOP]
    return set(counts), name, set(pairwise(marked))
