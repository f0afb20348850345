"""Numbers in messages: how far out a value lies, and whether its level has moved."""

import math
from typing import Any

__all__ = ["ValueTails"]

# Bins of log1p(|value|), four to a factor of e: wide enough to fill, narrow enough for 3 against 1.
_PER_E = 4.0
_BINS = 128
# The bin of 0; negative values lie below it.
_ZERO = 32
# Silent for so many values of a slot.
_WARMUP = 20
# A bin that holds more than one value in so many is usual, and costs nothing.
_USUAL = 8.0
# Counts are halved here: the histogram follows a slow change.
_CAP = 2_000.0
# A value beyond all that were seen costs as many nats for each bin in between.
_PER_BIN = 1.0
# Counts below this have faded away: they, and the rounding of sums, are nothing.
_LEAST_COUNT = 1e-6

# Level of the recent values and of all values: means that forget with these rates.
_FAST = 1.0 / 64.0
_SLOW = 1.0 / 4_096.0
_FAST_PLAIN, _SLOW_PLAIN = 64, 4_096
# Values before the level is judged.
_LEVEL_WARMUP = 256
# It moves slowly: every so many values are enough.
_LEVEL_EVERY = 8
# Two logarithms of values are alike within this, however steady the slot was.
_LEAST_SPREAD = 0.05
_SUMS = ("fast", "mean", "moved", "seen", "total", "variance")


class _Slot:
    """One number of one template."""

    __slots__ = ("counts", *_SUMS)

    def __init__(self) -> None:
        self.counts = [0.0] * _BINS
        self.total = 0.0
        self.seen = 0
        self.fast = 0.0
        self.mean = 0.0
        self.variance = 0.0
        self.moved = 0.0

    def step(self, x: float) -> tuple[float, float]:
        """Cost of a value and of the level before it; takes the value in."""
        index = min(max(int(x * _PER_E) + _ZERO, 0), _BINS - 1)
        tail = 0.0 if self.seen < _WARMUP else self._tail(index)
        if self.seen >= _LEVEL_WARMUP and self.seen % _LEVEL_EVERY == 0:
            self.moved = self._level()
        self.counts[index] += 1.0
        self.total += 1.0
        if self.total >= _CAP:
            self.counts = [count / 2.0 if count > _LEAST_COUNT else 0.0 for count in self.counts]
            self.total = sum(self.counts)
        self.seen += 1
        # Plain means at first, so that the first value does not stay.
        slow = _SLOW if self.seen > _SLOW_PLAIN else 1.0 / self.seen
        fast = _FAST if self.seen > _FAST_PLAIN else 1.0 / self.seen
        difference = x - self.mean
        self.mean += slow * difference
        self.variance += slow * (difference * (x - self.mean) - self.variance)
        self.fast += fast * (x - self.fast)
        return tail, self.moved

    def _tail(self, index: int) -> float:
        """Cost of a bin: minus the logarithm of the smaller tail, doubled."""
        here = self.counts[index]
        if here * _USUAL > self.total:
            return 0.0
        below = sum(self.counts[:index]) + here
        above = self.total - below + here
        smaller = max(min(below, above), 0.0)
        cost = math.log((self.total + 1.0) / (2.0 * smaller + 1.0))
        return cost + _PER_BIN * self._beyond(index) if smaller < _LEAST_COUNT else cost

    def _level(self) -> float:
        """Cost of the distance between the recent level and the level of all values."""
        spread = math.sqrt(self.variance * _FAST / (2.0 - _FAST)) + _LEAST_SPREAD
        return 0.5 * ((self.fast - self.mean) / spread) ** 2

    def _beyond(self, index: int) -> int:
        """Bins between a value and the nearest that was seen."""
        reach = max(index, _BINS - 1 - index)
        for step in range(1, reach + 1):
            for other in (index - step, index + step):
                if 0 <= other < _BINS and self.counts[other] > _LEAST_COUNT:
                    return step
        return reach


class ValueTails:
    """Histograms of the numbers in the wild places of templates.

    Parameters
    ----------
    max_slots : int
        Numbers that are followed; the one not seen for longest gives way.

    Examples
    --------
    >>> values = ValueTails()
    >>> for i in range(500):
    ...     _ = values.score(template=3, numbers=(20.0 + i % 7,))
    >>> tail, level = values.score(template=3, numbers=(900.0,))
    >>> tail > 10.0, level < 1.0
    (True, True)
    """

    def __init__(self, max_slots: int = 4_096) -> None:
        self.max_slots = max_slots
        self._slots: dict[tuple[int, int], _Slot] = {}

    def score(self, template: int, numbers: tuple[float, ...]) -> tuple[float, float]:
        """Cost of the farthest value of a line and of the level that moved most; learns both."""
        tail = level = 0.0
        for place, number in enumerate(numbers):
            if not math.isfinite(number):  # the miner's sign for a place that holds no number
                continue
            slot = self._slot(template, place)
            x = math.copysign(math.log1p(abs(number)), number)
            far, moved = slot.step(x)
            tail = max(tail, far)
            level = max(level, moved)
        return tail, level

    def rename(self, old: int, new: int) -> None:
        """Forget the slots of a template that became another: its places have moved."""
        for key in [key for key in self._slots if key[0] == old]:
            del self._slots[key]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "max_slots": self.max_slots,
            "slots": [
                [*key, list(slot.counts), *(getattr(slot, name) for name in _SUMS)]
                for key, slot in self._slots.items()
            ],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "ValueTails":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["max_slots"])
        for template, place, counts, *sums in state["slots"]:
            slot = new._slots[template, place] = _Slot()
            slot.counts = list(counts)
            for name, value in zip(_SUMS, sums, strict=True):
                setattr(slot, name, value)
        return new

    def _slot(self, template: int, place: int) -> _Slot:
        key = (template, place)
        slot = self._slots.pop(key, None)
        if slot is None:
            slot = _Slot()
            if len(self._slots) >= self.max_slots:
                del self._slots[next(iter(self._slots))]
        self._slots[key] = slot
        return slot
