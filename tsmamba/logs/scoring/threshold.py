"""Alert thresholds: rolling quantiles that leave alerts out until they are the new normal."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from operator import gt
from typing import Any

__all__ = ["GuardedThresholds"]

_WINDOW = 2_000
_RECENT = 500
# More alerts than this share of the recent scores are a change of what is normal.
_TOO_MANY = 0.05
# Below so many scores among the recent ones the share of alerts says nothing.
_ENOUGH = 100
# Rank in the window that a threshold stands at, if the rate allows it.
_RANK = 2
# Excesses that the slope of the tail is read from, where the window is too short for the rate.
_TAIL = 10
# A few equal costs do not say that none is higher.
_LEAST_SLOPE = 0.1


class _Window:
    """Normal costs of one kind: the highest of each block, and which of the recent ones alerted."""

    __slots__ = ("alerts", "blocks", "ranked")

    def __init__(self) -> None:
        self.blocks: deque[float] = deque()
        self.ranked: list[float] = []
        self.alerts: deque[int] = deque()

    def add(self, highest: float) -> None:
        if len(self.blocks) == _WINDOW:
            oldest = self.blocks.popleft()
            del self.ranked[bisect_left(self.ranked, oldest)]
        self.blocks.append(highest)
        insort(self.ranked, highest)

    def threshold(self, rate: float) -> float:
        """Cost that a share `rate` of the blocks exceeds; infinite if there are none."""
        ranked = self.ranked
        if not ranked:
            return math.inf
        expected = len(ranked) * rate
        if expected >= 1.0:
            return ranked[-min(len(ranked), round(expected))]
        tail = ranked[-_TAIL - 1 :]
        slope = sum(tail[1:]) / len(tail[1:]) - tail[0] if len(tail) > 1 else 0.0
        slope = max(slope, _LEAST_SLOPE * tail[-1])
        return tail[-1] + slope * math.log(1.0 / expected)

    def learns(self, count: int) -> bool:
        """Whether so many of the recent costs alerted that alerts are taken as normal."""
        while self.alerts and self.alerts[0] <= count - _RECENT:
            self.alerts.popleft()
        recent = min(count, _RECENT)
        return recent >= _ENOUGH and len(self.alerts) > _TOO_MANY * recent


class GuardedThresholds:
    """For each kind of cost, the threshold that a share `rate` of normal costs exceeds.

    A frozen quantile gave 2 to 30 % false alerts where it was set to 1 %, and one that learns from
    alerts goes deaf. So alerts stay out of the window, unless more than 5 % of the last 500 costs
    alert: then they are the new normal. Rates too small for a window of 2,000 costs are met by a
    window of the highest costs of as many blocks, and where even that is too short, by a straight
    line through the logarithm of the tail. Costs are in nats, so that a threshold is never below
    ``-log(rate)``.

    Parameters
    ----------
    rate : float
        Share of normal costs of each kind that may alert, between 0 and 1.
    kinds : int
        Kinds of costs that come together.

    Attributes
    ----------
    values : tuple of float
        Thresholds; infinite as long as nothing is known.

    Examples
    --------
    >>> thresholds = GuardedThresholds(rate=0.01)
    >>> thresholds.seed([(float(i % 100),) for i in range(2_000)])
    >>> thresholds.step((50.0,)), thresholds.step((1_000.0,))
    (False, True)
    """

    def __init__(self, rate: float, kinds: int = 1) -> None:
        self.rate = rate
        self.block = max(1, math.ceil(_RANK / (rate * _WINDOW)))
        self.values: tuple[float, ...] = (math.inf,) * kinds
        self._windows = [_Window() for _ in range(kinds)]
        self._count = 0
        self._in_block = 0
        self._highest = [-math.inf] * kinds

    def seed(self, costs: Iterable[Sequence[float]]) -> None:
        """Take in costs that are normal."""
        for each in costs:
            self._highest = list(map(max, self._highest, each))
            self._in_block += 1
            if self._in_block >= self.block:
                self._close_block()
        if not self._windows[0].blocks and self._in_block:
            self._close_block()

    def step(self, costs: Sequence[float]) -> bool:
        """Return whether one of the costs alerts, and take them in."""
        self._count += 1
        alerts = True in map(gt, costs, self.values)
        if alerts:
            costs = [self._usual(kind, cost) for kind, cost in enumerate(costs)]
        self._highest = list(map(max, self._highest, costs))
        self._in_block += 1
        if self._in_block >= self.block:
            self._close_block()
        return alerts

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "rate": self.rate,
            "windows": [[list(each.blocks), list(each.alerts)] for each in self._windows],
            "count": self._count,
            "in_block": self._in_block,
            "highest": [None if cost == -math.inf else cost for cost in self._highest],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "GuardedThresholds":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["rate"], len(state["windows"]))
        for window, (blocks, alerts) in zip(new._windows, state["windows"], strict=True):
            window.blocks.extend(blocks)
            window.ranked = sorted(blocks)
            window.alerts.extend(alerts)
        new._count, new._in_block = state["count"], state["in_block"]
        new._highest = [-math.inf if cost is None else cost for cost in state["highest"]]
        new._place()
        return new

    def _usual(self, kind: int, cost: float) -> float:
        """Return a cost that counts as normal; minus infinity for an alert that does not."""
        if cost <= self.values[kind]:
            return cost
        window = self._windows[kind]
        window.alerts.append(self._count)
        return cost if window.learns(self._count) else -math.inf

    def _close_block(self) -> None:
        for window, highest in zip(self._windows, self._highest, strict=True):
            # Nothing, if all costs of the block alerted.
            if highest > -math.inf:
                window.add(highest)
        self._highest = [-math.inf] * len(self._windows)
        self._in_block = 0
        self._place()

    def _place(self) -> None:
        least = max(-math.log(self.rate), 1e-6)
        share = self.rate * self.block
        self.values = tuple(max(each.threshold(share), least) for each in self._windows)
