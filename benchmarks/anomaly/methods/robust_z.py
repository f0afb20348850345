"""Distance from the median of the training part, in units of its spread."""

import numpy as np

from benchmarks.anomaly.methods.method import Baseline


class RobustZ(Baseline):
    """Worst channel by absolute deviation from the median, over the median absolute deviation.

    A channel that hardly moves in training has no such spread; its standard deviation stands in.
    """

    def learn(self, train: np.ndarray) -> None:
        """Take median and spread of each channel."""
        self._median = np.median(train, axis=0)
        spread = np.median(np.abs(train - self._median), axis=0)
        self._spread = np.where(spread > 0, 1.4826 * spread, 1.0)

    def judge(self, values: np.ndarray) -> np.ndarray:
        """Take the worst channel."""
        worst: np.ndarray = self._deviations(values).max(axis=1)
        return worst

    def explain(self, values: np.ndarray) -> np.ndarray:
        """Return the deviation of each channel."""
        return self._deviations(self.prepared(values))

    def _deviations(self, values: np.ndarray) -> np.ndarray:
        deviations: np.ndarray = np.abs(values - self._median) / self._spread
        return deviations
