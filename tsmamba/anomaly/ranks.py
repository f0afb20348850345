"""How rare a value is among the last thousands."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from math import log10

import numpy as np

# Single precision: half the memory, and ranks need no more.
_TYPE = "f"


class Ranks:
    """The last values of a statistic, kept in order of time and of size.

    Parameters
    ----------
    capacity : int
        Values kept; the oldest goes first.
    values : iterable of float
        Those before, oldest first, no more than `capacity`.

    Examples
    --------
    >>> ranks = Ranks(1_000, range(99))
    >>> ranks.surprise(200.0)
    2.0
    """

    def __init__(self, capacity: int, values: Iterable[float] = ()) -> None:
        self.capacity = capacity
        self._ring = array(_TYPE, values)
        self._sorted = array(_TYPE, sorted(self._ring))
        self._oldest = 0
        self._cell = array(_TYPE, [0.0])

    def surprise(self, value: float, two_sided: bool = False) -> float:
        """Return -log10 of the p-value of a value among those before, and take it in.

        Parameters
        ----------
        value : float
            Finite.
        two_sided : bool
            Whether low values surprise as well.

        Returns
        -------
        float
            0 and more; the value itself counts as one of those that are as far out.
        """
        self._cell[0] = value
        value = self._cell[0]
        ordered = self._sorted
        known = len(ordered)
        low = bisect_left(ordered, value)
        as_far = known - low + 1
        if two_sided:
            as_far = 2 * min(as_far, bisect_right(ordered, value, low) + 1)
        ordered.insert(low, value)
        if known == self.capacity:
            oldest = self._ring[self._oldest]
            del ordered[bisect_left(ordered, oldest)]
            self._ring[self._oldest] = value
            self._oldest = (self._oldest + 1) % known
        else:
            self._ring.append(value)
        return max(0.0, -log10(as_far / (known + 1)))

    def values(self) -> np.ndarray:
        """Return the values, oldest first."""
        return np.roll(np.array(self._ring), -self._oldest)
