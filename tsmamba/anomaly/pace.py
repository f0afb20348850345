"""Time as rows: a gap in the times is as many missing rows."""

from dataclasses import dataclass

import numpy as np

_DAY = 86_400_000_000  # in microseconds
# Longer than anything a score depends on: one wrong stamp must not fill the memory.
_LONGEST_GAP = 4_096


@dataclass(frozen=True)
class Pace:
    """The usual distance of two rows.

    Parameters
    ----------
    step : float
        In the unit of integer times, or in microseconds.
    stamps : bool
        Whether times are dates or stamps.

    Examples
    --------
    >>> pace = Pace.of(np.array([0, 10, 20, 50]), stamps=False)
    >>> pace.places(np.array([0, 10, 20, 50]))
    array([0, 1, 2, 5])
    """

    step: float
    stamps: bool

    @classmethod
    def of(cls, times: np.ndarray, stamps: bool) -> "Pace":
        """Measure the median distance.

        Parameters
        ----------
        times : ndarray of int64
            Never decreasing.
        stamps : bool
            Whether they are microseconds.

        Returns
        -------
        Pace
        """
        gaps = np.diff(times)
        gaps = gaps[gaps > 0]
        return cls(float(np.median(gaps)) if len(gaps) else 1.0, stamps)

    @property
    def steps_per_day(self) -> float | None:
        """Rows a day, where times are stamps."""
        return _DAY / self.step if self.stamps else None

    def places(self, times: np.ndarray) -> np.ndarray:
        """Give each row its number, with room for those that are missing.

        Parameters
        ----------
        times : ndarray of int64
            Never decreasing.

        Returns
        -------
        ndarray of int64
            From 0, strictly increasing.
        """
        rows = np.clip(np.rint(np.diff(times) / self.step), 1, _LONGEST_GAP).astype(np.int64)
        return np.concatenate([[0], np.cumsum(rows)])
