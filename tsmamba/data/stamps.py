"""Stamps of series in uneven time, where no arithmetic on the first one tells the others."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tsmamba.data.frequency import Frequency


@dataclass(frozen=True, eq=False)
class Stamps:
    """The stamp of every step of some series; beyond their ends time goes on by the usual gap.

    Parameters
    ----------
    values : polars.Series of length total
        Integers, dates or date-times, series after series, rising inside each.
    offsets : ndarray of shape (S + 1,), int64
        Series ``s`` is ``values[offsets[s]:offsets[s + 1]]``.
    freq : Frequency
        The usual gap.

    Examples
    --------
    >>> stamps = Stamps(pl.Series([1, 2, 5]), np.array([0, 3]), Frequency(2, uneven=True))
    >>> stamps.at(np.array([0, 0]), np.array([2, 4])).to_list()
    [5, 9]
    >>> stamps.elapsed
    array([0. , 0.5, 2. ])
    """

    values: pl.Series
    offsets: np.ndarray
    freq: Frequency

    @cached_property
    def elapsed(self) -> np.ndarray:
        """Time from the first stamp of its series to each step, in usual gaps, shape (total,)."""
        line = self.freq.line(self.values).to_numpy()
        since = line - np.repeat(line[self.offsets[:-1]], np.diff(self.offsets))
        elapsed: np.ndarray = since / self.freq.step_length(self.values.dtype)
        return elapsed

    def at(self, series: np.ndarray, steps: np.ndarray) -> pl.Series:
        """Return the stamps of steps, which may lie beyond the ends of their series.

        Parameters
        ----------
        series, steps : int ndarray of shape (n,)
            Number of the series, and steps since its first.

        Returns
        -------
        polars.Series of length n
            The stamps.
        """
        inside, beyond = self._split(series, steps)
        return self.freq.shift(self.values.gather(inside), pl.Series(beyond))

    def times(self, series: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the time from the first stamp to steps, as `at` takes them, in usual gaps."""
        inside, beyond = self._split(series, steps)
        times: np.ndarray = self.elapsed[inside] + beyond
        return times

    def steps(self, series: np.ndarray, stamps: pl.Series) -> np.ndarray:
        """Undo `at`.

        Parameters
        ----------
        series : int ndarray of shape (n,)
            Number of the series.
        stamps : polars.Series of length n
            Stamps of the same type.

        Returns
        -------
        int ndarray of shape (n,)
            The step that each stands for, -1 where there is none.
        """
        lengths = np.diff(self.offsets)
        every = np.repeat(np.arange(len(lengths)), lengths)
        known = pl.DataFrame({"series": every, "stamp": self.values})
        known = known.with_columns(step=np.arange(len(every)) - self.offsets[every])
        last = self.values.gather(self.offsets[1:][series] - 1)
        found = pl.DataFrame(
            {
                "series": series,
                "stamp": stamps,
                "last": lengths[series] - 1,
                "beyond": self.freq.steps_between(last, stamps),
            }
        ).join(known, on=["series", "stamp"], how="left", maintain_order="left")
        ahead = pl.when(pl.col("beyond") > 0).then(pl.col("last") + pl.col("beyond"))
        return found.select(pl.coalesce("step", ahead, -1)).to_series().to_numpy()

    def continued(self, steps: int) -> "Stamps":
        """Return the same with so many steps behind each series."""
        offsets = self.offsets + steps * np.arange(len(self.offsets))
        lengths = np.diff(offsets)
        series = np.repeat(np.arange(len(lengths)), lengths)
        return Stamps(self.at(series, np.arange(len(series)) - offsets[series]), offsets, self.freq)

    def _split(self, series: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the row of the nearest step inside each series, and the steps beyond it."""
        inside = np.clip(steps, 0, np.diff(self.offsets)[series] - 1)
        return self.offsets[series] + inside, steps - inside
