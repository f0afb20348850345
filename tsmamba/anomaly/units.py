"""The unit of each channel."""

from dataclasses import dataclass

import numpy as np

from tsmamba.anomaly.rows import interpolated, repeated

# A channel that never changed still needs a unit: this part of its level.
_LEAST_PART = 0.01
_ROUNDING = 1e-9
# Farther out nothing is more anomalous, and sums that hold such a value lose all others.
_FARTHEST = 1e4


@dataclass(frozen=True)
class Units:
    """Mean and deviation of each channel on the rows of the fit, and how many values it has.

    Parameters
    ----------
    mean, scale : ndarray of shape (n_channels,)
        ``scale`` is above 0.
    known : ndarray of shape (n_channels,)
        Part of the rows that have a value.

    Examples
    --------
    >>> Units.of(np.array([[1.0, 5.0], [3.0, np.nan]]))
    Units(mean=array([2., 5.]), scale=array([1.  , 0.05]), known=array([1. , 0.5]))
    """

    mean: np.ndarray
    scale: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Units":
        """Measure them.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            NaN where missing.

        Returns
        -------
        Units
            0 and 1 for a channel without values.
        """
        known = ~np.isnan(values)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, values, 0.0).sum(axis=0) / count
        deviation = np.sqrt(np.square(np.where(known, values - mean, 0.0)).sum(axis=0) / count)
        level = np.abs(mean)
        least = np.where(level > 0, _LEAST_PART * level, 1.0)
        scale = np.where(deviation > _ROUNDING * level, deviation, least)
        return cls(mean, scale, known.mean(axis=0))

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Express rows in these units, cut at 10,000 of them.

        Parameters
        ----------
        values : ndarray of shape (..., n_channels)
            Rows.

        Returns
        -------
        ndarray of the same shape, contiguous
        """
        with np.errstate(over="ignore"):
            scaled = (values - self.mean) / self.scale
        return np.ascontiguousarray(np.minimum(np.maximum(scaled, -_FARTHEST), _FARTHEST))

    def complete(self, values: np.ndarray, repeat: int = 0) -> np.ndarray:
        """Do so for a whole series, and fill its gaps.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            NaN where missing.
        repeat : int, default 0
            Rows after which the series repeats itself: a gap is filled by the mean of the period
            before and the one after. Where there is none, a line is drawn.

        Returns
        -------
        ndarray of the same shape
        """
        scaled = self.apply(values)
        if repeat and np.isnan(scaled).any():
            before, after = repeated(scaled, repeat), repeated(scaled[::-1], repeat)[::-1]
            one = np.where(np.isnan(before), after, before)
            other = np.where(np.isnan(after), before, after)
            scaled = (one + other) / 2
        return interpolated(scaled)
