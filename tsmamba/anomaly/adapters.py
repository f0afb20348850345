"""Detectors and streams in the manners of other libraries."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tsmamba.anomaly.stream import Stream

if TYPE_CHECKING:
    from tsmamba.anomaly.estimator import MambaDetector


class PyodDetector:
    """A `MambaDetector` with the methods and labels of PyOD.

    Parameters
    ----------
    detector : MambaDetector
        The detector; `fit` fits it.

    Attributes
    ----------
    decision_scores_ : ndarray of shape (n_rows,)
        Scores of the rows of the fit; higher is worse.
    labels_ : ndarray of shape (n_rows,), int
        0 for normal rows, 1 for anomalies.
    threshold_ : float
        1.0: what scores are measured by.

    Examples
    --------
    >>> from tsmamba import MambaDetector
    >>> view = MambaDetector("tiny").as_pyod().fit(np.arange(20.0)[:, None] % 5)
    >>> view.predict([[2.0], [99.0]])
    array([0, 1])
    """

    threshold_ = 1.0

    def __init__(self, detector: "MambaDetector") -> None:
        self.detector = detector

    def fit(self, X: Any, y: None = None) -> Self:
        """Fit the detector to rows in the order of time."""
        self.detector.fit(X)
        self.decision_scores_ = self.decision_function(X)
        self.labels_ = self.predict(X)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Score rows; higher is worse, 0 where a row has no score."""
        scores: np.ndarray = np.nan_to_num(self.detector.anomaly_score(X))
        return scores

    def predict(self, X: Any) -> np.ndarray:
        """Return 1 for anomalies and 0 for other rows."""
        labels: np.ndarray = (self.detector.predict(X) == -1).astype(int)
        return labels


class RiverDetector:
    """A stream with the methods of river: rows are mappings of channel name to number.

    The detector was fitted before, so `learn_one` only moves the stream past a row that was not
    scored.

    Parameters
    ----------
    stream : Stream
        Of a detector that was fitted on a frame.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._scored: Any = None

    def score_one(self, x: dict[str, float]) -> float:
        """Score a row; 0 in warm-up."""
        self._scored = x
        return self.stream.score_one(x).score or 0.0

    def learn_one(self, x: dict[str, float]) -> None:
        """Move on, unless `score_one` already did with this row."""
        if x is not self._scored:
            self.stream.score_one(x)
        self._scored = None


class PysadModel:
    """A stream with the methods of PySAD: rows are arrays.

    Parameters
    ----------
    stream : Stream
        Of a fitted detector.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def fit_partial(self, X: np.ndarray, y: None = None) -> Self:
        """Do nothing: scoring moves the stream on."""
        return self

    def score_partial(self, X: np.ndarray) -> float:
        """Score a row; 0 in warm-up."""
        return self.stream.score_one(X).score or 0.0

    def fit_score_partial(self, X: np.ndarray, y: None = None) -> float:
        """Score a row."""
        return self.score_partial(X)
