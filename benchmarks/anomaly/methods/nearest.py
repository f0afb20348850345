"""Distance to what was seen in training."""

import numpy as np

from benchmarks.anomaly.methods.method import Baseline
from benchmarks.anomaly.methods.windows import judged, window_length, windows

_KEPT = 1_000  # windows or rows of the training part, evenly spaced
_BATCH = 4_096


class Nearest(Baseline):
    """Distance to the third nearest of 1,000 windows, or rows, of the training part.

    A window of the training part meets itself there, which the third nearest forgives.
    """

    _RANK = 3

    def learn(self, train: np.ndarray) -> None:
        """Keep windows."""
        self._length = window_length(train)
        found = windows(train, self._length)
        chosen = np.unique(np.linspace(0, len(found) - 1, _KEPT).astype(int))
        self._kept = found[chosen].astype(np.float32)
        self._norms = np.square(self._kept).sum(axis=1)

    def judge(self, values: np.ndarray) -> np.ndarray:
        """Look windows up."""
        return judged(values, self._length, self._distances)

    def _distances(self, found: np.ndarray) -> np.ndarray:
        parts = [self._nearest(found[n : n + _BATCH]) for n in range(0, len(found), _BATCH)]
        return np.concatenate(parts)

    def _nearest(self, found: np.ndarray) -> np.ndarray:
        queries = found.astype(np.float32)
        squared = self._norms - 2 * queries @ self._kept.T
        third = np.partition(squared, self._RANK - 1, axis=1)[:, self._RANK - 1]
        own = np.square(queries).sum(axis=1)
        distances: np.ndarray = np.sqrt(np.maximum(third + own, 0)).astype(float)
        return distances
