"""The alert threshold: a rolling quantile that leaves alerts out until they are the new normal."""

import math
from bisect import bisect_left, insort
from collections import deque
from typing import Any

__all__ = ["GuardedThreshold"]

_WINDOW = 2_000
_RECENT = 500
# More alerts than this share of the recent scores are a change of what is normal.
_TOO_MANY = 0.05
# Below so many scores among the recent ones the share of alerts says nothing.
_ENOUGH = 100
# Rank in the window that the threshold stands at, if the rate allows it.
_RANK = 2
# Excesses that the slope of the tail is read from, where the window is too short for the rate.
_TAIL = 10
# A few equal costs do not say that none is higher.
_LEAST_SLOPE = 0.1


class GuardedThreshold:
    """Threshold that a share `rate` of normal scores exceeds.

    A frozen quantile gave 2 to 30 % false alerts where it was set to 1 %, and one that learns from
    alerts goes deaf. So alerts stay out of the window, unless more than 5 % of the last 500 scores
    alert: then they are the new normal. Rates too small for a window of 2,000 scores are met by a
    window of highest scores of as many blocks, and where even that is too short, by a straight
    line through the logarithm of the tail. Scores are costs in nats, so that the threshold is never
    below ``-log(rate)``.

    Parameters
    ----------
    rate : float
        Share of normal scores that may alert, between 0 and 1.

    Examples
    --------
    >>> threshold = GuardedThreshold(rate=0.01)
    >>> threshold.seed([float(i % 100) for i in range(2_000)])
    >>> threshold.step(50.0), threshold.step(1_000.0)
    (False, True)
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.block = max(1, math.ceil(_RANK / (rate * _WINDOW)))
        self._least = max(-math.log(rate), 1e-6)
        self._window: deque[float] = deque()
        self._sorted: list[float] = []
        self._count = 0
        # Which of the scores alerted, of the recent ones.
        self._alerts: deque[int] = deque()
        self._in_block = 0
        self._highest = -math.inf
        self.value = math.inf

    @property
    def learns(self) -> bool:
        """Whether so many recent scores alerted that alerts are taken as normal."""
        while self._alerts and self._alerts[0] <= self._count - _RECENT:
            self._alerts.popleft()
        recent = min(self._count, _RECENT)
        return recent >= _ENOUGH and len(self._alerts) > _TOO_MANY * recent

    def seed(self, scores: list[float]) -> None:
        """Take in scores that are normal."""
        for score in scores:
            self._collect(score)
        if not self._window and self._in_block:
            self._close_block()

    def step(self, score: float) -> bool:
        """Return whether a score alerts, and take it in."""
        self._count += 1
        if score <= self.value:
            self._collect(score)
            return False
        self._alerts.append(self._count)
        if self.learns:
            self._collect(score)
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "rate": self.rate,
            "window": list(self._window),
            "count": self._count,
            "alerts": list(self._alerts),
            "in_block": self._in_block,
            "highest": self._highest if self._in_block else None,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "GuardedThreshold":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["rate"])
        new._window.extend(state["window"])
        new._sorted = sorted(state["window"])
        new._count = state["count"]
        new._alerts.extend(state["alerts"])
        new._in_block = state["in_block"]
        new._highest = -math.inf if state["highest"] is None else state["highest"]
        new._place()
        return new

    def _collect(self, score: float) -> None:
        self._highest = max(self._highest, score)
        self._in_block += 1
        if self._in_block >= self.block:
            self._close_block()

    def _close_block(self) -> None:
        if len(self._window) == _WINDOW:
            oldest = self._window.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._window.append(self._highest)
        insort(self._sorted, self._highest)
        self._in_block = 0
        self._highest = -math.inf
        self._place()

    def _place(self) -> None:
        count = len(self._sorted)
        if not count:
            self.value = math.inf
            return
        expected = count * self.rate * self.block
        if expected >= 1.0:
            self.value = max(self._sorted[-min(count, round(expected))], self._least)
            return
        tail = self._sorted[-_TAIL - 1 :]
        slope = sum(tail[1:]) / len(tail[1:]) - tail[0] if len(tail) > 1 else 0.0
        slope = max(slope, _LEAST_SLOPE * tail[-1])
        self.value = max(tail[-1] + slope * math.log(1.0 / expected), self._least)
