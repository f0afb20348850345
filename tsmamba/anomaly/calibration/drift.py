"""What to do when the level of the scores has changed for good: new units for them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from tsmamba.anomaly.calibration.calibrator import Calibrator, Evidence, refuse_other_parts
from tsmamba.anomaly.calibration.checks import check_count
from tsmamba.anomaly.calibration.pareto import LEAST

_SHARE = 0.5  # of the last scores that are above the threshold: more than any anomaly would be
# A typical score of the fit may be 0; it then counts as this part of a high one.
_LEAST_TYPICAL = 0.1
_HIGH = 0.02  # p-value of a high score
_NESTED = "calibrator."
_ABOVE, _BELOW = 1, -1  # places of scores
_STATE = ("typical", "scores", "places", "filled", "factor")


class Watched(NamedTuple):
    """What a `Watch` says of some scores."""

    thresholds: NDArray[np.float64]  # above 0
    p_values: NDArray[np.float64]  # NaN where there is no score
    drifted: NDArray[np.bool_]  # True at a score after which the units changed


class Drift(BaseEstimator):
    """When a change of level counts as the new normal.

    Parameters
    ----------
    patience : int >= 2, default 1000
        Scores of which half must reach the threshold. Longer than any anomaly that should stay an
        alert to its end, and than a season, so that the high part of a day is no change.

    Examples
    --------
    >>> import numpy as np
    >>> from tsmamba.anomaly.calibration import Quantile
    >>> rng = np.random.default_rng(0)
    >>> watch = Drift(patience=200).watch(Quantile().fit(rng.exponential(size=5_000)))
    >>> after = watch.step(50 + 50 * rng.exponential(size=1_000))
    >>> int(after.drifted.argmax()), int(after.drifted.sum())
    (199, 1)
    >>> bool((after.thresholds[200:] > 400).all())
    True
    """

    def __init__(self, *, patience: int = 1_000) -> None:
        self.patience = patience

    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.

        Examples
        --------
        >>> Drift(patience=50).check()
        """
        check_count(self, "patience", least=2)

    def watch(self, calibrator: Calibrator) -> "Watch":
        """Return a calibrator that follows changes of level.

        Parameters
        ----------
        calibrator : Calibrator
            Fitted; the watch takes it over.

        Returns
        -------
        Watch
            In units of the fit.
        """
        self.check()
        return Watch.start(calibrator, self.patience)


@dataclass
class Watch:
    """A calibrator and the factor between its units and those of the stream.

    Where half of the last scores reached the threshold, the level has changed: scores are divided
    by a factor from then on, so that the median of the latest ones becomes that of the fit. Where
    none of them reached even that median, the factor falls again, but never below 1. The calibrator
    itself is not fitted anew: what one learns from so few scores is their level, not their tail.

    Parameters
    ----------
    calibrator : Calibrator
        Sees scores in units of the fit.
    typical : float > 0
        Median of the fit.
    scores : ndarray of shape (patience,)
        Last scores, in a ring.
    places : int8 ndarray of shape (patience,)
        1 where they reached the threshold of their time, -1 below the median of the fit, else 0.
    filled : int
        How many of them came since the last change.
    factor : float >= 1
        Present over fitted level.
    """

    calibrator: Calibrator
    typical: float
    scores: NDArray[np.float64]
    places: NDArray[np.int8]
    filled: int
    factor: float

    def __post_init__(self) -> None:
        self._take(self.scores, self.places)

    @classmethod
    def start(cls, calibrator: Calibrator, patience: int) -> Self:
        """Return a watch that has seen nothing yet.

        Parameters
        ----------
        calibrator : Calibrator
            Fitted.
        patience : int
            Scores to judge by.

        Returns
        -------
        Watch
            In units of the fit.
        """
        law = calibrator.law
        typical = max(law.quantile(0.5), _LEAST_TYPICAL * law.quantile(_HIGH), LEAST)
        scores, places = np.zeros(patience), np.zeros(patience, np.int8)
        return cls(calibrator, typical, scores, places, 0, 1.0)

    def judge(self, score: float) -> tuple[float, Evidence, bool]:
        """Judge the next score by what came before it, and move on.

        Parameters
        ----------
        score : float
            NaN where there is none, which leaves the state as it is.

        Returns
        -------
        threshold : float
            Above 0.
        evidence : float or tuple of float
            What the calibrator makes a p-value of.
        drifted : bool
            Whether the units are others from now on.
        """
        factor = self.factor
        threshold, evidence = self.calibrator.judge(score / factor)
        threshold *= factor
        if math.isnan(score):
            return threshold, evidence, False
        self._remember(score, (score >= threshold) - (score < self.typical * factor))
        drifted = self._has_drifted()
        if drifted:
            self._rebase()
        return threshold, evidence, drifted

    def step(self, scores: ArrayLike) -> Watched:
        """Judge scores in the order of time, each by what came before it, and move on.

        Parameters
        ----------
        scores : array of shape (n,)
            NaN where there is none, which leaves the state as it is.

        Returns
        -------
        Watched
            Thresholds, p-values, and where the units changed.
        """
        watched = judged([self], np.asarray(scores, dtype=float)[None])
        return Watched(*(part[0] for part in watched))

    def copy(self) -> "Watch":
        """Return an independent watch in the same state, for another stream."""
        scores, places = self._in_order()
        return Watch(self.calibrator.copy(), self.typical, scores, places, self.filled, self.factor)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return watch and calibrator as arrays, from which `restore` makes the same again."""
        scores, places = self._in_order()
        parts = (self.typical, scores, places, self.filled, self.factor)
        own = {name: np.array(part) for name, part in zip(_STATE, parts, strict=True)}
        return own | {f"{_NESTED}{name}": part for name, part in self.calibrator.state().items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over a state.

        Parameters
        ----------
        state : mapping of str to ndarray
            What `state` of a watch over the same kind of calibrator gave.

        Raises
        ------
        ModelFileError
            If parts of it are missing or unknown; the watch then stays as it is.
        """
        nested = {
            name.removeprefix(_NESTED): part
            for name, part in state.items()
            if name.startswith(_NESTED)
        }
        refuse_other_parts(type(self), state.keys() - {f"{_NESTED}{n}" for n in nested}, _STATE)
        self.calibrator.restore(nested)
        self._take(np.array(state["scores"]), np.array(state["places"]))
        self.typical = float(state["typical"])
        self.filled, self.factor = int(state["filled"]), float(state["factor"])

    def _take(self, scores: NDArray[np.float64], places: NDArray[np.int8]) -> None:
        """Go on from the last scores and their places, oldest first."""
        self.scores, self.places, self._oldest = scores, places, 0
        self._above = int((places == _ABOVE).sum())
        self._below = int((places == _BELOW).sum())

    def _remember(self, score: float, place: int) -> None:
        at, patience = self._oldest, self.scores.size
        self.scores[at] = score
        forgotten = self.places.item(at)
        if place != forgotten:
            self.places[at] = place
            self._above += (place == _ABOVE) - (forgotten == _ABOVE)
            self._below += (place == _BELOW) - (forgotten == _BELOW)
        self._oldest = at + 1 if at + 1 < patience else 0
        if self.filled < patience:
            self.filled += 1

    def _has_drifted(self) -> bool:
        full = self.scores.size
        if self.filled < full:
            return False
        return self._above >= _SHARE * full or (self.factor > 1 and self._below == full)

    def _rebase(self) -> None:
        scores, _ = self._in_order()
        latest = scores[-scores.size // 2 :]  # the others may be of the old level
        self.factor = max(1.0, float(np.median(latest)) / self.typical)
        self.filled = 0

    def _in_order(self) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Return copies of scores and places, oldest first."""
        return np.roll(self.scores, -self._oldest), np.roll(self.places, -self._oldest)


def judged(watches: Sequence[Watch], scores: NDArray[np.float64]) -> Watched:
    """Judge scores of several streams, each by what came before it, and move on.

    Parameters
    ----------
    watches : sequence of Watch
        One a stream, over copies of one calibrator.
    scores : ndarray of shape (n_streams, n)
        In the order of time; NaN where there is none.

    Returns
    -------
    Watched
        Of arrays of that shape.
    """
    rows = [
        watch.judge(score)
        for watch, row in zip(watches, scores.tolist(), strict=True)
        for score in row
    ]
    # The law of the fit is the same for all, and looked up for all at once.
    p_values = watches[0].calibrator.p_values([evidence for _, evidence, _ in rows])
    thresholds = np.array([threshold for threshold, _, _ in rows], dtype=float)
    drifted = np.array([drifted for _, _, drifted in rows], dtype=bool)
    shape = scores.shape
    return Watched(thresholds.reshape(shape), p_values.reshape(shape), drifted.reshape(shape))
