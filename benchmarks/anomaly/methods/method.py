"""What every method does, and what the baselines do first."""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.anomaly.problem import filled


class Method(Protocol):
    """A detector that learns from the first rows of a series and then scores all of it."""

    def fit(self, train: np.ndarray) -> None:
        """Learn.

        Parameters
        ----------
        train : ndarray of shape (n, C)
            NaN where a value is missing.
        """

    def score(self, values: np.ndarray) -> np.ndarray:
        """Score each row.

        Parameters
        ----------
        values : ndarray of shape (T, C)
            The whole series, the rows of the fit among them.

        Returns
        -------
        ndarray of shape (T,)
            Higher is worse; NaN before the first score, and where a row has none of its own.
        """


class Explaining(Method, Protocol):
    """A method that also says which channels are at fault."""

    def explain(self, values: np.ndarray) -> np.ndarray:
        """Return what each channel adds to the score of each row, shape (T, C)."""


class Baseline(ABC):
    """A method on values without gaps, standardised by the training part.

    Parameters
    ----------
    seed : int
        For whatever is drawn.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(self, train: np.ndarray) -> None:
        """Learn from what lies in the training part."""
        known = filled(train)
        self._scaler = StandardScaler().fit(known)
        self.learn(self._scaler.transform(known))

    def score(self, values: np.ndarray) -> np.ndarray:
        """Score each row."""
        return self.judge(self.prepared(values))

    def prepared(self, values: np.ndarray) -> np.ndarray:
        """Fill gaps by the last value and standardise."""
        standardised: np.ndarray = self._scaler.transform(filled(values))
        return standardised

    @abstractmethod
    def learn(self, train: np.ndarray) -> None:
        """Learn from prepared rows."""

    @abstractmethod
    def judge(self, values: np.ndarray) -> np.ndarray:
        """Score prepared rows."""


class NotApplicableError(Exception):
    """A method is not made for such a series; its cell is left out and counted."""
