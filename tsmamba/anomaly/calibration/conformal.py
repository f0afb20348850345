"""A threshold that holds a share of alerts under drift: adaptive conformal inference."""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsmamba.anomaly.calibration.calibrator import Calibration, Calibrator, Evidence
from tsmamba.anomaly.calibration.checks import check_count, check_number
from tsmamba.anomaly.calibration.pareto import just_above
from tsmamba.anomaly.calibration.tail import Tail

_LEVEL = 0.9  # quantile of the window that the threshold is a multiple of
_LEAST_LEVEL = 1e-3  # of the fitted threshold, where most scores are 0


@dataclass
class ConformalCalibrator(Calibrator):
    """A multiple of a recent quantile, raised by each alert and lowered by each step without.

    The two are in balance at the wanted share, so it is held in the long run, whatever the scores
    do, as long as they stay within some factor of their recent level.

    Parameters
    ----------
    law : Tail
        Law of the scores of the fit.
    alpha : float
        Share of alerts.
    gain : float
        Logarithm of the factor of an alert.
    fitted : float > 0
        Threshold of the fit.
    log_multiple : float
        Logarithm of threshold over recent quantile.
    level : float > 0
        The quantile over the whole fit.
    recent, ordered : ndarray of shape (window,)
        Last scores, in a ring and in order.
    place : int
        Where the oldest of them lies.
    """

    alpha: float
    gain: float
    fitted: float
    log_multiple: float
    level: float
    recent: NDArray[np.float64]
    ordered: NDArray[np.float64]
    place: int

    def judge(self, score: float) -> tuple[float, Evidence]:
        """Judge the next score by what came before it, and move on.

        Parameters
        ----------
        score : float
            NaN where there is none, which leaves the state as it is.

        Returns
        -------
        threshold : float
            Above 0.
        evidence : float
            The score in units of the recent level.
        """
        ordered = self.ordered
        level = max(ordered.item(_rank(ordered.size)), _LEAST_LEVEL * self.fitted)
        threshold = level * math.exp(self.log_multiple)
        if not math.isnan(score):
            rise = self.gain if score >= threshold else 0.0
            self.log_multiple += rise - self.gain * self.alpha
            _replace(ordered, self.recent.item(self.place), score)
            self.recent[self.place] = score
            self.place = (self.place + 1) % ordered.size
        return threshold, score / level * self.level


def _replace(ordered: NDArray[np.float64], old: float, new: float) -> None:
    """Put a number in the place of another one, in order."""
    lookup = ordered.data  # its items are plain numbers, which is faster
    out, into = bisect_left(lookup, old), bisect_left(lookup, new)
    if into > out:
        into -= 1
        ordered[out:into] = ordered[out + 1 : into + 1]
    else:
        ordered[into + 1 : out + 1] = ordered[into:out]
    ordered[into] = new


def _rank(window: int) -> int:
    return int(_LEVEL * (window - 1))


class Conformal(Calibration[ConformalCalibrator]):
    """Threshold that a given share of steps lies above in the long run, whatever the drift.

    It is a multiple of a quantile of recent scores, and the multiple is corrected at every step as
    in adaptive conformal inference (Gibbs and Candès, 2021; Angelopoulos et al., 2023). Steps are
    counted, not episodes: scores that stay high together use up the share of a long time at once.

    Parameters
    ----------
    alpha : float in (0, 0.1), default 0.001
        Share of alerts.
    window : int >= 10, default 1000
        Scores that the quantile is of.
    gain : float > 0, default 0.01
        How fast the multiple is corrected.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> calibrator = Conformal(alpha=0.01, window=200).fit(rng.exponential(size=2_000))
    >>> drifting = rng.exponential(size=20_000) * np.linspace(1, 50, 20_000)
    >>> bool(abs((drifting >= calibrator.step(drifting)[0]).mean() - 0.01) < 0.003)
    True
    """

    kind = ConformalCalibrator

    def __init__(self, *, alpha: float = 1e-3, window: int = 1_000, gain: float = 0.01) -> None:
        self.alpha = alpha
        self.window = window
        self.gain = gain

    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.

        Examples
        --------
        >>> Conformal(alpha=0.01, window=500).check()
        """
        check_number(self, "alpha", above=0, below=1 - _LEVEL)
        check_number(self, "gain", above=0)
        check_count(self, "window", least=10)

    def _fitted(
        self, scores: NDArray[np.float64], steps_per_day: float | None
    ) -> ConformalCalibrator:
        present = scores[~np.isnan(scores)]
        law = Tail.fit(present)
        fitted = just_above(law.quantile(self.alpha))
        recent = np.resize(present[-self.window :], self.window)
        level = max(float(np.quantile(present, _LEVEL)), _LEAST_LEVEL * fitted)
        return ConformalCalibrator(
            law=law,
            alpha=self.alpha,
            gain=self.gain,
            fitted=fitted,
            log_multiple=math.log(fitted / level),
            level=level,
            recent=recent,
            ordered=np.sort(recent),
            place=0,
        )
