"""How far a row, all its channels together, is from the rows of the fit."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tsmamba.anomaly.fusion import HIGHEST
from tsmamba.anomaly.memory import PatchMemory

# A twin of an anomaly among the rows of the fit is forgiven.
_NEAREST = 3
# Where channels hardly change together, distances would be measured in units of noise.
_LEAST_DEVIATION = 0.05
# Squared distances are compared in these steps, so that ties are broken in the same way whether
# rows come alone or many at once.
_GRID = 2.0**20
_PIECE = 128  # rows at once, whose distances fit a cache
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class JointRows:
    """Distance of rows to the third nearest of those in memory, over the channels that are there.

    Deviations of a channel count by their logarithm, so that many channels that are a little off
    count as one that is far out.

    Parameters
    ----------
    memory : PatchMemory
        Its patches end with the rows to compare with.
    apart : int
        Rows of the fit nearer than this are not compared with each other.
    mean, deviation : float
        Of the distances of the rows of the fit.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=(500, 3))
    >>> joint = JointRows.of(values, PatchMemory.of(values, 4, 100), apart=16)
    >>> parts = joint.excess(np.array([[0.0, 0.0, 0.0], [9.0, 0.0, np.nan]]))
    >>> parts[0].sum() < 1 < parts[1, 0], parts[1, 2]
    (np.True_, np.float64(0.0))
    """

    memory: PatchMemory
    apart: int
    mean: float
    deviation: float

    @classmethod
    def of(cls, values: np.ndarray, memory: PatchMemory, apart: int) -> "JointRows":
        """Measure the distances of the rows that the memory was made from.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Standardised, NaN where missing.
        memory, apart
            As above.

        Returns
        -------
        JointRows
        """
        squares = cls(memory, apart, 0.0, 1.0)._squares(values, len(values))
        there = ~np.isnan(values).all(axis=1)
        distances = np.sqrt(squares.sum(axis=1)[there]) if there.any() else np.zeros(1)
        deviation = max(float(distances.std()), _LEAST_DEVIATION)
        return cls(memory, apart, float(distances.mean()), deviation)

    def array(self) -> np.ndarray:
        """Return what it knows beside the memory."""
        return np.array([self.mean, self.deviation])

    def excess(self, values: np.ndarray, n_seen: int = 0) -> np.ndarray:
        """Tell how many deviations a distance lies above its mean.

        Parameters
        ----------
        values : ndarray of shape (..., n_channels)
            Standardised, NaN where missing.
        n_seen : int, default 0
            Leading rows that are those of the fit. They are not compared with themselves.

        Returns
        -------
        ndarray of the same shape
            Shared among the channels by their parts of the squared distance; 0 where missing.
        """
        squares = self._squares(values.reshape(-1, values.shape[-1]), n_seen)
        total = np.add.reduce(squares, axis=1, keepdims=True)
        above = (np.sqrt(total) - self.mean) / self.deviation
        above = np.minimum(np.maximum(above, 0.0), HIGHEST)
        squares *= above / np.maximum(total, _TINY)
        return squares.reshape(values.shape)

    @cached_property
    def _rows(self) -> np.ndarray:
        return _curbed(self.memory.newest(1)[..., 0].T.astype(np.float64))

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what squared distances are sums of, by column of the memory."""
        rows = np.ascontiguousarray(self._rows.T)
        squares = _GRID * np.square(rows)
        return -2 * _GRID * rows, squares, squares.sum(axis=0)

    def _squares(self, values: np.ndarray, n_seen: int) -> np.ndarray:
        """Return the parts of the mean squared distance, (n_rows, n_channels)."""
        out = np.empty(values.shape)
        for start in range(0, len(values), _PIECE):
            piece = _curbed(values[start : start + _PIECE])
            near = None
            if start < n_seen:
                places = np.arange(start, start + len(piece))[:, None]
                near = (places < n_seen) & (np.abs(places - self.memory.ends) < self.apart)
            out[start : start + _PIECE] = self._nearest(piece, near)
        return out

    def _nearest(self, rows: np.ndarray, near: np.ndarray | None) -> np.ndarray:
        mixed, squares, norms = self._tables
        there = ~np.isnan(rows)
        whole = there.all()
        if not whole:
            rows, norms = np.where(there, rows, 0.0), there @ squares
        order = rows @ mixed
        order += norms
        np.rint(order, out=order)
        if near is not None:
            order[near] = np.inf
        each = np.arange(len(rows))
        nearest = np.empty((len(rows), _NEAREST), dtype=np.int64)
        for i in range(_NEAREST):
            nearest[:, i] = chosen = order.argmin(axis=1)
            order[each, chosen] = np.inf
        # Anew, because the difference of large squares is not exact.
        squared = np.square(rows[:, None] - self._rows[nearest])
        if near is not None:  # where fewer rows count, the farthest of them
            squared[near[each[:, None], nearest]] = 0.0
        if whole:
            count: float | np.ndarray = rows.shape[1]
        else:
            squared *= there[:, None]
            count = np.maximum(there.sum(axis=1, keepdims=True), 1)
        third: np.ndarray = squared[each, np.add.reduce(squared, axis=-1).argmax(axis=1)]
        return third / count


def _curbed(values: np.ndarray) -> np.ndarray:
    """Let numbers grow by their logarithm."""
    curbed: np.ndarray = np.copysign(np.log1p(np.abs(values)), values)
    return curbed
