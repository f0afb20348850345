"""One series with labels, and how much of it a method may learn from."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl


class Cause(NamedTuple):
    """Channels at fault in the rows from ``start`` up to ``stop``, not included."""

    start: int
    stop: int
    channels: frozenset[int]


@dataclass(frozen=True)
class Problem:
    """A series of a set.

    Parameters
    ----------
    set, name : str
        As in the tables and the results.
    values : ndarray of shape (T, C)
        Rows are steps; NaN where a value is missing.
    labels : ndarray of bool, shape (T,)
        True in an anomaly.
    n_train : int
        Leading rows that `fit` gets. They may hold anomalies, and no method is told.
    scored_from : int
        First row that counts for the metrics.
    causes : tuple of Cause
        Where the set tells which channels were at fault.

    Examples
    --------
    >>> values, labels = np.zeros((10, 2)), np.arange(10) == 7
    >>> problem = Problem("set", "series", values, labels, n_train=4, scored_from=4)
    >>> problem.train.shape, problem.events
    ((4, 2), [(7, 8)])
    """

    set: str
    name: str
    values: np.ndarray
    labels: np.ndarray
    n_train: int
    scored_from: int
    causes: tuple[Cause, ...] = ()

    @property
    def train(self) -> np.ndarray:
        """The rows to fit on."""
        return self.values[: self.n_train]

    @property
    def events(self) -> list[tuple[int, int]]:
        """Start and stop, not included, of each run of labelled rows."""
        return runs(self.labels)


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return start and stop, not included, of each run of true values.

    Examples
    --------
    >>> runs(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def filled(values: np.ndarray) -> np.ndarray:
    """Carry the last value forward over missing ones, and the first one back before it.

    Parameters
    ----------
    values : ndarray of shape (T, C)
        NaN where missing.

    Returns
    -------
    ndarray of shape (T, C)
        Without NaN; a column that holds nothing becomes 0.

    Examples
    --------
    >>> filled(np.array([[np.nan], [1.0], [np.nan]])).ravel().tolist()
    [1.0, 1.0, 1.0]
    """
    frame = pl.DataFrame(values, schema=[str(c) for c in range(values.shape[1])])
    carried = frame.fill_nan(None).fill_null(strategy="forward").fill_null(strategy="backward")
    return carried.fill_null(0.0).to_numpy()
