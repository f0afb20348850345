"""The last rows of a channel, and how new their end is."""

from math import sqrt

import numpy as np


class Trail:
    """The last rows of one channel, in one piece, with the patches among them.

    Parameters
    ----------
    capacity : int
        Rows kept.
    width : int
        Rows of a patch.

    Examples
    --------
    >>> trail = Trail(capacity=100, width=2)
    >>> for value in (1.0, 2.0, 7.0, 7.0, 1.0, 2.5):
    ...     trail.append(value)
    >>> trail.novelty()
    0.5
    """

    def __init__(self, capacity: int, width: int) -> None:
        self.capacity = capacity
        self.width = width
        # With room for as many again, rows are moved only once in a while.
        self._values = np.zeros(2 * capacity)
        self._squares = np.zeros(2 * capacity)  # of the patches that end with the values
        self._end = 0

    def __len__(self) -> int:
        return min(self._end, self.capacity)

    def append(self, value: float) -> None:
        """Take in a row.

        Parameters
        ----------
        value : float
            Finite.
        """
        if self._end == len(self._values):
            kept = self.capacity - 1
            for each in (self._values, self._squares):
                each[:kept] = each[-kept:]
            self._end = kept
        self._values[self._end] = value
        self._end += 1
        patch = self.newest(self.width)
        self._squares[self._end - 1] = patch.dot(patch)

    def newest(self, n: int) -> np.ndarray:
        """View the last `n` values, oldest first; fewer where there are fewer."""
        newest: np.ndarray = self._values[max(0, self._end - n) : self._end]
        return newest

    def novelty(self) -> float | None:
        """Return the distance of the newest patch to the nearest that does not overlap it.

        Returns
        -------
        float or None
            None where there is no other patch.
        """
        values, width = self._values, self.width
        start, stop = max(0, self._end - self.capacity), self._end - width
        if stop - start < width:
            return None
        newest = values[stop : self._end]
        # But for the norm of the newest patch, which is the same for all.
        distances = np.correlate(values[start:stop], -2.0 * newest)
        distances += self._squares[start + width - 1 : stop]
        nearest = start + int(distances.argmin())
        # Anew, because the difference of large squares is not exact.
        gap = newest - values[nearest : nearest + width]
        return sqrt(gap.dot(gap))

    def array(self) -> np.ndarray:
        """Return the rows as an array of shape (2, capacity), NaN where there are none yet."""
        known = slice(self._end - len(self), self._end)
        out = np.full((2, self.capacity), np.nan)
        out[:, : len(self)] = self._values[known], self._squares[known]
        return out

    @classmethod
    def restored(cls, rows: np.ndarray, width: int) -> "Trail":
        """Make the trail again that `array` was of.

        Parameters
        ----------
        rows : ndarray of shape (2, capacity)
            What `array` gave.
        width : int
            Rows of a patch.

        Returns
        -------
        Trail
        """
        trail = cls(rows.shape[1], width)
        trail._end = int((~np.isnan(rows[0])).sum())
        trail._values[: trail._end], trail._squares[: trail._end] = rows[:, : trail._end]
        return trail
