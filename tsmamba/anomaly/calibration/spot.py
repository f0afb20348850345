"""Peaks over a threshold in a stream: SPOT, and DSPOT for scores that wander.

Siffer, Fouque, Termier and Largouet, "Anomaly detection in streams with extreme value theory", KDD
2017. The tail is fitted by another estimator than theirs, which needs no search.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsmamba.anomaly.calibration.calibrator import Calibration, Calibrator, Evidence
from tsmamba.anomaly.calibration.checks import check_count, check_number
from tsmamba.anomaly.calibration.pareto import LEAST, Pareto
from tsmamba.anomaly.calibration.tail import LEAST_P_VALUE, Tail
from tsmamba.errors import ParameterError

_MOST_PEAKS = 512  # the latest ones that the tail is fitted to
_PEAKS_A_FIT = 8  # a fit after each of them would cost more and change little
_MOST_ALERTS = 2  # learnt from, in those expected
_GOLDEN = (math.sqrt(5) - 1) / 2
_ABOVE = 1 + 1e-9  # a threshold that follows a constant stays above it


@dataclass
class SpotCalibrator(Calibrator):
    """A threshold from the tail of all scores so far; of alerts only their number counts.

    Parameters
    ----------
    law : Tail
        Law of the scores of the fit.
    distances : Tail
        Law of their distances from the moving mean; of the scores themselves without one.
    q : float
        Probability of an alert.
    excess : Pareto
        Law of peaks now.
    weight : float
        Share of distances that are peaks, now.
    learnt, alerts, peaked : int
        Number of scores below their threshold, of alerts that were learnt from, and of peaks among
        both.
    peaks : ndarray of shape (512,)
        Excesses of the latest peaks, in a ring; NaN where there were not as many.
    recent : ndarray of shape (depth,)
        Last scores but alerts, in a ring.
    total : float
        Their sum.
    """

    distances: Tail
    q: float
    excess: Pareto
    weight: float
    learnt: int
    alerts: int
    peaked: int
    peaks: NDArray[np.float64]
    recent: NDArray[np.float64]
    total: float

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
        evidence : tuple of float
            Distance from the mean, share of peaks, and p-value of a distance among them.
        """
        depth = self.recent.size
        mean = self.total / depth if depth else 0.0
        threshold = max(mean + self._beyond(), mean * _ABOVE, LEAST)
        distance = score - mean
        excess = distance - self.distances.start
        rarity = self.weight * float(self.excess.survival(excess)) if excess > 0 else 1.0
        evidence = (distance, self.weight, rarity)
        if math.isnan(score):
            return threshold, evidence
        if score < threshold:
            if depth:
                self._follow(score)
            self.learnt += 1
        elif self.alerts < _MOST_ALERTS * self.q * self.learnt + 1:
            excess = self._usual_alert()
            self.alerts += 1
        else:
            return threshold, evidence
        if excess > 0:
            self._learn(excess)
        return threshold, evidence

    def p_values(self, evidence: ArrayLike) -> NDArray[np.float64]:
        """Return p-values by the tail at the time, and by the bulk of the fit squeezed to meet it.

        Parameters
        ----------
        evidence : array of shape (n, 3)
            What `judge` gave, of this calibrator or of copies of it.

        Returns
        -------
        ndarray of shape (n,)
            Above 0, and NaN where there is no score.
        """
        columns = np.asarray(evidence, dtype=float).reshape(-1, 3).T
        distances, weights, rarities = np.ascontiguousarray(columns)
        fitted = self.distances
        squeezed = 1 - (1 - fitted.p_values(distances)) * (1 - weights) / (1 - fitted.weight)
        p_values: NDArray[np.float64] = np.where(distances > fitted.start, rarities, squeezed)
        return np.maximum(p_values, LEAST_P_VALUE, out=p_values)

    def _beyond(self) -> float:
        """Return the distance of the threshold from the mean."""
        beyond = self.excess.quantile(self._alert_share)
        return math.nextafter(self.distances.start + beyond, math.inf)

    @property
    def _alert_share(self) -> float:
        """Share of peaks that are to be alerts."""
        return min(1.0, self.q / self.weight) if self.weight else 1.0

    def _usual_alert(self) -> float:
        """Return an excess for an alert, drawn from the tail beyond the threshold.

        Without any, each fit would be to a tail that the one before cut off, and alerts would
        become more and more; with its own, one anomaly would hide the next.
        """
        drawn = 1 - (self.alerts * _GOLDEN) % 1  # evenly over (0, 1], however many there are
        return self.excess.quantile(self._alert_share * drawn)

    def _follow(self, score: float) -> None:
        """Move the mean on; rounding does not add up, as each round sums anew."""
        place = self.learnt % self.recent.size
        self.total += score - float(self.recent[place])
        self.recent[place] = score
        if place == 0:
            self.total = float(self.recent.sum())

    def _learn(self, excess: float) -> None:
        """Take in a peak, and fit the tail anew after some of them."""
        self.peaks[self.peaked % _MOST_PEAKS] = excess
        self.peaked += 1
        if self.peaked % _PEAKS_A_FIT == 0:
            peaks = self.peaks[~np.isnan(self.peaks)]
            self.excess = Pareto.fit(peaks, self.distances.start)
            self.weight = self.peaked / (self.learnt + self.alerts)


class Spot(Calibration[SpotCalibrator]):
    """Threshold that a score passes with a given probability, learnt from the tail as it streams.

    SPOT: scores above a high quantile are peaks, their excesses have a generalised Pareto law, and
    the law gives the threshold. Each peak that is no alert refines it.

    Parameters
    ----------
    q : float in (0, 1), default 1e-4
        Probability that a score of normal operation is an alert.
    level : float in (0, 1), default 0.98
        Quantile of the training scores that peaks lie above.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.random.default_rng(0).exponential(size=50_000)
    >>> calibrator = Spot(q=1e-3).fit(scores[:5_000])
    >>> later = scores[5_000:]
    >>> bool(abs((later >= calibrator.step(later)[0]).mean() - 1e-3) < 3e-4)
    True
    """

    kind = SpotCalibrator

    def __init__(self, *, q: float = 1e-4, level: float = 0.98) -> None:
        self.q = q
        self.level = level

    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.

        Examples
        --------
        >>> Spot(q=1e-5).check()
        """
        check_number(self, "level", above=0, below=1)
        check_number(self, "q", above=0, below=1)
        if self.q > 1 - self.level:
            raise ParameterError(
                f"{type(self).__name__}: q={self.q:g} with level={self.level:g}; pass a q below "
                f"{1 - self.level:g}, or a lower level"
            )

    def _fitted(self, scores: NDArray[np.float64], steps_per_day: float | None) -> SpotCalibrator:
        present = scores[~np.isnan(scores)]
        return _fitted(present, present, np.empty(0), self.q, self.level)


class DriftSpot(Spot):
    """As `Spot`, for the distances of scores from their moving mean: DSPOT.

    Parameters
    ----------
    q : float in (0, 1), default 1e-4
        Probability that a score of normal operation is an alert.
    level : float in (0, 1), default 0.98
        Quantile of the training distances that peaks lie above.
    depth : int >= 1, default 200
        Scores that the mean is of, alerts left out.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.random.default_rng(0).exponential(size=50_000) + np.linspace(0, 50, 50_000)
    >>> calibrator = DriftSpot(q=1e-3, depth=100).fit(scores[:5_000])
    >>> later = scores[5_000:]
    >>> bool(abs((later >= calibrator.step(later)[0]).mean() - 1e-3) < 3e-4)
    True
    """

    def __init__(self, *, q: float = 1e-4, level: float = 0.98, depth: int = 200) -> None:
        super().__init__(q=q, level=level)
        self.depth = depth

    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.

        Examples
        --------
        >>> DriftSpot(depth=50).check()
        """
        super().check()
        check_count(self, "depth", least=1)

    def _fitted(self, scores: NDArray[np.float64], steps_per_day: float | None) -> SpotCalibrator:
        present = scores[~np.isnan(scores)]
        if present.size <= self.depth:
            raise ParameterError(
                f"DriftSpot: depth={self.depth} with {present.size} scores; pass more scores, or "
                "a smaller depth"
            )
        sums = np.cumsum(np.concatenate([[0.0], present]))
        means = (sums[self.depth : -1] - sums[: -self.depth - 1]) / self.depth
        recent = present[-self.depth :]
        return _fitted(present, present[self.depth :] - means, recent, self.q, self.level)


def _fitted(
    scores: NDArray[np.float64],
    distances: NDArray[np.float64],
    recent: NDArray[np.float64],
    q: float,
    level: float,
) -> SpotCalibrator:
    distance_law = Tail.fit(distances, 1 - level)
    excesses = distances[distances > distance_law.start] - distance_law.start
    peaks = np.full(_MOST_PEAKS, np.nan)
    latest = excesses[-_MOST_PEAKS:]
    # In a ring the item of number n lies at n modulo its size; both counts go on from the fit.
    peaks[np.arange(excesses.size - latest.size, excesses.size) % _MOST_PEAKS] = latest
    return SpotCalibrator(
        Tail.fit(scores),
        distance_law,
        q,
        distance_law.excess,
        distance_law.weight,
        distances.size,
        0,
        excesses.size,
        peaks,
        np.roll(recent, distances.size),
        float(recent.sum()),
    )
