"""How few random cuts it takes to set a window apart."""

import numpy as np
from sklearn.ensemble import IsolationForest

from benchmarks.anomaly.methods.method import Baseline
from benchmarks.anomaly.methods.windows import judged, window_length, windows


class Forest(Baseline):
    """scikit-learn's isolation forest of 100 trees with 256 windows each."""

    def learn(self, train: np.ndarray) -> None:
        """Grow the trees."""
        self._length = window_length(train)
        self._forest = IsolationForest(random_state=self._seed)
        self._forest.fit(windows(train, self._length))

    def judge(self, values: np.ndarray) -> np.ndarray:
        """Score windows."""
        return judged(values, self._length, lambda found: -self._forest.score_samples(found))
