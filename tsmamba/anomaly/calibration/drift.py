"""What to do when the level of the scores has changed for good: new units for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from tsmamba.anomaly.calibration.calibrator import Calibrator, refuse_other_parts
from tsmamba.anomaly.calibration.checks import check_count
from tsmamba.anomaly.calibration.pareto import LEAST

_SHARE = 0.5  # of the last scores that are above the threshold: more than any anomaly would be
# A typical score of the fit may be 0; it then counts as this part of a high one.
_LEAST_TYPICAL = 0.1
_HIGH = 0.02  # p-value of a high score
_NESTED = "calibrator."
_NOWHERE = 2  # the place of a score that is missing
_STATE = ("typical", "scores", "places", "filled", "factor")


class Watched(NamedTuple):
    """What a `Watch` says of some scores."""

    thresholds: NDArray[np.float64]  # (n,), above 0
    p_values: NDArray[np.float64]  # (n,), NaN where there is no score
    drifted: NDArray[np.bool_]  # (n,), True at a score after which the units changed


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


class _Trial(NamedTuple):
    """What a calibrator says of a block, and itself after it."""

    calibrator: Calibrator
    thresholds: NDArray[np.float64]
    p_values: NDArray[np.float64]
    places: NDArray[np.int8]


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
        Last scores, oldest first.
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
        scores = np.asarray(scores, dtype=float)
        thresholds, p_values = np.empty(scores.shape), np.empty(scores.shape)
        drifted = np.zeros(scores.shape, dtype=bool)
        begin = 0
        while begin < scores.size:
            block = scores[begin : begin + self.scores.size]
            trial = self._tried(block)
            change = self._change(trial.places)
            if change is not None:  # what comes after it is for the new units
                block = block[: change + 1]
                trial = self._tried(block)
                drifted[begin + change] = True
            span = slice(begin, begin + block.size)
            thresholds[span], p_values[span] = trial.thresholds, trial.p_values
            self._remember(block, trial)
            if change is not None:
                self._rebase()
            begin = span.stop
        return Watched(thresholds, p_values, drifted)

    def copy(self) -> "Watch":
        """Return an independent watch in the same state, for another stream."""
        return Watch(
            self.calibrator.copy(),
            self.typical,
            self.scores.copy(),
            self.places.copy(),
            self.filled,
            self.factor,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Return watch and calibrator as arrays, from which `restore` makes the same again."""
        own = {name: np.array(getattr(self, name)) for name in _STATE}
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
        self.scores, self.places = np.array(state["scores"]), np.array(state["places"])
        self.typical = float(state["typical"])
        self.filled, self.factor = int(state["filled"]), float(state["factor"])

    def _tried(self, block: NDArray[np.float64]) -> "_Trial":
        """Return what the calibrator says of a block, while this one stays where it is."""
        calibrator = self.calibrator.copy()
        thresholds, p_values = calibrator.step(block / self.factor)
        thresholds *= self.factor
        above, below = block >= thresholds, block < self.typical * self.factor
        places = np.where(np.isnan(block), _NOWHERE, above.astype(np.int8) - below)
        return _Trial(calibrator, thresholds, p_values, places.astype(np.int8))

    def _change(self, places: NDArray[np.int8]) -> int | None:
        """Return the first place in a block after which the units are to change."""
        patience = self.scores.size
        # No place raises the count of those above, which was too low at the place before.
        if self.filled == patience and self.factor == 1 and not (places == 1).any():
            return None
        present = np.flatnonzero(places != _NOWHERE)
        if self.filled + present.size < patience:
            return None
        recent = np.concatenate([self.places, places[present]])
        enough = self.filled + np.arange(1, present.size + 1) >= patience
        change = enough & (_counts(recent == 1, patience) >= _SHARE * patience)
        if self.factor > 1:
            change |= enough & (_counts(recent == -1, patience) == patience)
        first = int(change.argmax()) if change.any() else None
        return None if first is None else int(present[first])

    def _remember(self, block: NDArray[np.float64], trial: "_Trial") -> None:
        present = trial.places != _NOWHERE
        patience = self.scores.size
        self.calibrator = trial.calibrator
        self.scores = np.concatenate([self.scores, block[present]])[-patience:]
        self.places = np.concatenate([self.places, trial.places[present]])[-patience:]
        self.filled = min(self.filled + int(present.sum()), patience)

    def _rebase(self) -> None:
        latest = self.scores[-self.scores.size // 2 :]  # the others may be of the old level
        self.factor = max(1.0, float(np.median(latest)) / self.typical)
        self.filled = 0


def _counts(marks: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    """Return the marks in the last places before each place from the second window on."""
    sums = np.cumsum(np.concatenate([[0], marks]))
    counts: NDArray[np.int64] = sums[length + 1 :] - sums[1:-length]
    return counts
