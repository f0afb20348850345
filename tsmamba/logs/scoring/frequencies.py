"""How often a thing was seen: the cost of a template, a set of counts or a transition."""

import math
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Frequencies", "Key"]

Key = int | str | tuple[int, ...]

# What was never seen counts as half a sighting.
_UNSEEN = 0.5


class Frequencies:
    """Counts of keys over observations, each of which holds a set of keys.

    Parameters
    ----------
    horizon : int
        Observations after which all counts are halved: old habits fade, and what fades below half
        a sighting is forgotten. This bounds the table as well.

    Examples
    --------
    >>> seen = Frequencies()
    >>> for _ in range(99):
    ...     seen.add(["start", "stop"])
    >>> round(seen.cost("start"), 2), round(seen.cost("crash"), 2)
    (0.01, 5.3)
    """

    def __init__(self, horizon: int = 200_000) -> None:
        self.horizon = horizon
        self.counts: dict[Key, float] = {}
        self.total = 0.0

    def cost(self, key: Key) -> float:
        """Minus the logarithm of the share of observations that hold the key."""
        return math.log((self.total + 1.0) / (self.counts.get(key, 0.0) + _UNSEEN))

    def rarest(self, keys: Iterable[Key]) -> float:
        """Cost of the key that is seen least."""
        get = self.counts.get
        return math.log((self.total + 1.0) / (min(get(key, 0.0) for key in keys) + _UNSEEN))

    def step(self, key: Key) -> float:
        """Cost of a key, which is one observation and is taken in."""
        count = self.counts.get(key, 0.0)
        cost = math.log((self.total + 1.0) / (count + _UNSEEN))
        self.counts[key] = count + 1.0
        self.total += 1.0
        if self.total >= self.horizon:
            self._fade()
        return cost

    def add(self, keys: Iterable[Key]) -> None:
        """Take in one observation."""
        counts = self.counts
        for key in keys:
            counts[key] = counts.get(key, 0.0) + 1.0
        self.total += 1.0
        if self.total >= self.horizon:
            self._fade()

    def rename(self, old: int, new: int) -> None:
        """Count what was seen as template `old` for template `new`."""
        self.relabel(lambda key: _renamed(key, old, new))

    def relabel(self, name: Callable[[Key], Key]) -> None:
        """Count each key under another name; those of one name add up."""
        before, self.counts = self.counts, {}
        for key, count in before.items():
            label = name(key)
            self.counts[label] = self.counts.get(label, 0.0) + count

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "horizon": self.horizon,
            "total": self.total,
            "counts": [[key, count] for key, count in self.counts.items()],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Frequencies":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["horizon"])
        new.total = state["total"]
        new.counts = {_key(key): count for key, count in state["counts"]}
        return new

    def _fade(self) -> None:
        self.total /= 2.0
        halved = ((key, count / 2.0) for key, count in self.counts.items())
        self.counts = {key: count for key, count in halved if count > _UNSEEN}


def _renamed(key: Key, old: int, new: int) -> Key:
    if isinstance(key, tuple):
        return tuple(new if part == old else part for part in key)
    return new if key == old else key


def _key(value: int | str | list[int]) -> Key:
    return tuple(value) if isinstance(value, list) else value
