"""Distance of each window to its nearest neighbour in the whole series, both standardised."""

from functools import cache
from typing import Any

import numpy as np

from benchmarks.anomaly.methods.method import Baseline, NotApplicableError
from benchmarks.anomaly.methods.windows import window_length
from tsmamba._optional import require

LONGEST = 65_536  # steps: the time grows with their square


class MatrixProfile(Baseline):
    """stumpy's self-join over the whole series; it learns nothing but the length of the windows."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._stump = _compiled()

    def learn(self, train: np.ndarray) -> None:
        """Take the length of the windows."""
        if train.shape[1] > 1:
            raise NotApplicableError("one channel only")
        self._length = window_length(train)

    def judge(self, values: np.ndarray) -> np.ndarray:
        """Join the series with itself."""
        if len(values) > LONGEST:
            raise NotApplicableError(f"more than {LONGEST:,} steps")
        distances = self._stump(values[:, 0], self._length)[:, 0].astype(float)
        # A window with no neighbour of a finite distance is no more than the strangest.
        finite = np.isfinite(distances)
        distances[~finite] = distances[finite].max(initial=0.0)
        middles = np.arange(len(distances)) + (self._length - 1) // 2
        scores: np.ndarray = np.interp(np.arange(len(values)), middles, distances)
        return scores


@cache
def _compiled() -> Any:
    """Return stumpy's function on one thread, compiled, so that no series pays for that."""
    require("numba", "bench").set_num_threads(1)
    stump = require("stumpy", "bench").stump
    stump(np.random.default_rng(0).normal(size=64), 8)
    return stump
