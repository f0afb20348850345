"""Scores that know nothing: what a metric gives for free."""

import numpy as np


class RandomControl:
    """Draws scores and contributions.

    Parameters
    ----------
    seed : int
        Of the draws.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def fit(self, train: np.ndarray) -> None:
        """Learn nothing."""

    def score(self, values: np.ndarray) -> np.ndarray:
        """Draw."""
        return self._rng.random(len(values))

    def explain(self, values: np.ndarray) -> np.ndarray:
        """Draw."""
        return self._rng.random(values.shape)
