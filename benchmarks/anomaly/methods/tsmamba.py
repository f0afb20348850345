"""`MambaDetector` as anyone would use it: no setting but its mode and corrector."""

from typing import Any

import numpy as np


class Tsmamba:
    """Fitted on the training rows alone.

    Parameters
    ----------
    seed : int
        Of the corrector; nothing else in the detector is random.
    **settings
        Of `MambaDetector`.
    """

    def __init__(self, seed: int, **settings: Any) -> None:
        # Looked up here, so that where it is missing only its own cells fail.
        from tsmamba import MambaDetector

        make: Any = MambaDetector
        self._detector = make(random_state=seed, **settings)

    def fit(self, train: np.ndarray) -> None:
        """Fit."""
        self._detector.fit(train)

    def score(self, values: np.ndarray) -> np.ndarray:
        """Score each row."""
        return np.asarray(self._detector.anomaly_score(values), float)

    def explain(self, values: np.ndarray) -> np.ndarray:
        """Return the contributions of channels."""
        return np.asarray(self._detector.explain(values), float)
