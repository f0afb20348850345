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
# Alerts left out count up to so many times the number that the rate allows: more are no chance.
_LEFT_OUT = 4.0
# Shares of the window above two scores in its body, which alerts do not reach.
_BODY = (0.2, 0.05)
_MARGIN = 1.25


class _Window:
    """Normal costs of one kind: the highest of each block, and which of the recent ones alerted."""

    __slots__ = ("alerts", "blocks", "left_out", "left_out_now", "ranked", "total_left_out")

    def __init__(self) -> None:
        self.blocks: deque[float] = deque()
        self.ranked: list[float] = []
        self.alerts: deque[int] = deque()
        # Alerts that were left out since the block before, of each block, and of all of them.
        self.left_out_now = 0
        self.left_out: deque[int] = deque()
        self.total_left_out = 0

    def add(self, highest: float) -> None:
        if len(self.blocks) == _WINDOW:
            oldest = self.blocks.popleft()
            del self.ranked[bisect_left(self.ranked, oldest)]
            self.total_left_out -= self.left_out.popleft()
        self.blocks.append(highest)
        insort(self.ranked, highest)
        self.left_out.append(self.left_out_now)
        self.total_left_out += self.left_out_now
        self.left_out_now = 0

    def admits(self, block: int) -> bool:
        """Note an alert; say whether so many of the recent blocks had one that it is normal."""
        if not self.alerts or self.alerts[-1] != block:
            self.alerts.append(block)
        while self.alerts[0] <= block - _RECENT:
            self.alerts.popleft()
        recent = min(block, _RECENT)
        admitted = recent >= _ENOUGH and len(self.alerts) > _TOO_MANY * recent
        self.left_out_now += not admitted
        return admitted

    def threshold(self, share: float) -> float:
        """Cost that this share of the blocks exceeds; infinite if there are none."""
        if not self.ranked:
            return math.inf
        expected = len(self.ranked) * share
        value = self._at(expected, 0.0)
        above = min(self.total_left_out, _LEFT_OUT * expected)
        if above:
            value = max(value, min(self._at(expected, above), self._bound(share)))
        return value

    def _at(self, expected: float, above: float) -> float:
        """Cost that `expected` costs exceed, `above` of which were left out of the window."""
        ranked = self.ranked
        if expected - above >= 1.0:
            return ranked[-min(len(ranked), round(expected - above))]
        tail = ranked[-_TAIL - 1 :]
        slope = sum(tail[1:]) / len(tail[1:]) - tail[0] if len(tail) > 1 else 0.0
        slope = max(slope, _LEAST_SLOPE * tail[-1])
        return tail[-1] + slope * math.log((1.0 + above) / expected)

    def _bound(self, share: float) -> float:
        """Highest threshold that the body of the window, where no alerts are, gives reason for."""
        low, high = (self.ranked[int((1.0 - p) * (len(self.ranked) - 1))] for p in _BODY)
        slope = (high - low) / math.log(_BODY[0] / _BODY[1])
        return high + _MARGIN * slope * math.log(_BODY[1] / share) if share < _BODY[1] else high

    def to_list(self) -> list[Any]:
        return [list(self.blocks), list(self.alerts), list(self.left_out), self.left_out_now]

    @classmethod
    def from_list(cls, state: list[Any]) -> "_Window":
        new = cls()
        blocks, alerts, left_out, new.left_out_now = state
        new.blocks.extend(blocks)
        new.ranked = sorted(blocks)
        new.alerts.extend(alerts)
        new.left_out.extend(left_out)
        new.total_left_out = sum(left_out)
        return new


class GuardedThresholds:
    """For each kind of cost, the threshold that a share `rate` of normal costs exceeds.

    A frozen quantile gave 2 to 30 % false alerts where it was set to 1 %, and one that learns from
    alerts goes deaf. So alerts stay out of the window, unless more than 5 % of the last 500 blocks
    have one: then they are the new normal. Rates too small for a window of 2,000 costs are met by
    a window of the highest costs of as many blocks, so that a burst of alerts is one block and no
    change; where even that is too short, by a straight line through the logarithm of the tail.
    Alerts left out count as costs higher than all in the window: without them each window would be
    lower than the one before.

    Parameters
    ----------
    rate : float
        Share of normal costs of each kind that may alert, between 0 and 1.
    kinds : int
        Kinds of costs that come together.
    least : float or sequence of float, optional
        No threshold is below, one for all kinds or one for each; ``-log(rate)`` if nothing is
        given, for costs in nats.

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

    def __init__(
        self, rate: float, kinds: int = 1, least: float | Sequence[float] | None = None
    ) -> None:
        self.rate = rate
        self.block = max(1, math.ceil(_RANK / (rate * _WINDOW)))
        self.values: tuple[float, ...] = (math.inf,) * kinds
        least = -math.log(rate) if least is None else least
        each = least if isinstance(least, Sequence) else [least] * kinds
        self._least = [max(one, 1e-6) for one in each]
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
            "least": self._least[0] if len({*self._least}) == 1 else self._least,
            "windows": [window.to_list() for window in self._windows],
            "count": self._count,
            "in_block": self._in_block,
            "highest": [None if cost == -math.inf else cost for cost in self._highest],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "GuardedThresholds":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["rate"], len(state["windows"]), state["least"])
        new._windows = [_Window.from_list(window) for window in state["windows"]]
        new._count, new._in_block = state["count"], state["in_block"]
        new._highest = [-math.inf if cost is None else cost for cost in state["highest"]]
        new._place()
        return new

    def _usual(self, kind: int, cost: float) -> float:
        """Return a cost that counts as normal; minus infinity for an alert that does not."""
        if cost <= self.values[kind]:
            return cost
        block = math.ceil(self._count / self.block)
        return cost if self._windows[kind].admits(block) else -math.inf

    def _close_block(self) -> None:
        for window, highest in zip(self._windows, self._highest, strict=True):
            # Nothing, if all costs of the block alerted.
            if highest > -math.inf:
                window.add(highest)
        self._highest = [-math.inf] * len(self._windows)
        self._in_block = 0
        self._place()

    def _place(self) -> None:
        share = self.rate * self.block
        found = [window.threshold(share) for window in self._windows]
        self.values = tuple(map(max, found, self._least))
