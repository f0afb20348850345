"""Time as rows: a gap in the times is as many missing rows."""

from dataclasses import dataclass

import numpy as np

_DAY = 86_400_000_000  # in microseconds
# Longer than anything a score depends on: one wrong stamp must not fill the memory.
_LONGEST_GAP = 4_096
# In steps. Stamps that jitter may lie farther apart than this with nothing between them; where the
# clock runs says whether there is.
_LEAST_GAP = 1.5
# Part of what a stamp is late by that counts as the clock itself being late.
_GAIN = 0.25


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

    def rows(
        self, steps: np.ndarray, late: float = 0.0, most: int = _LONGEST_GAP
    ) -> tuple[np.ndarray, float]:
        """Tell how many rows each row is after the one before.

        Stamps are held against a clock that ticks at the usual distance and slowly follows them,
        so that neither jitter nor a distance that is slightly off makes a gap.

        Parameters
        ----------
        steps : ndarray of int64
            Time since the row before.
        late : float in [-0.5, 0.5], default 0
            Steps by which the first of these began behind the clock.
        most : int
            Longest gap to tell apart from longer ones.

        Returns
        -------
        rows : ndarray of int64
            From 1, where nothing is missing, to `most`.
        late : float
            For the next call.
        """
        gaps = steps / self.step
        rounded = np.rint(gaps)
        if late == 0.0 and (gaps == rounded).all() and (gaps >= 1).all():
            return np.minimum(rounded, most).astype(np.int64), late
        rows = np.empty(len(gaps), dtype=np.int64)
        for i, step in enumerate(steps.tolist()):
            rows[i], late = self.next(step, late, most)
        return rows, late

    def next(self, step: int, late: float = 0.0, most: int = _LONGEST_GAP) -> tuple[int, float]:
        """Do so for one row.

        Parameters
        ----------
        step : int
            Time since the row before.
        late, most
            As for `rows`.

        Returns
        -------
        rows : int
            From 1 to `most`.
        late : float
            For the next row.
        """
        gap = step / self.step
        passed = late + gap
        n = max(1, round(passed)) if gap >= _LEAST_GAP else 1
        return min(n, most), (1 - _GAIN) * min(max(passed - n, -0.5), 0.5)

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
        rows, _ = self.rows(np.diff(times))
        return np.concatenate([[0], np.cumsum(rows)])
