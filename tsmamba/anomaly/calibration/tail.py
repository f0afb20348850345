"""From a score to its p-value: the empirical law of training scores, continued beyond them."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsmamba.anomaly.calibration.pareto import Pareto

_TAIL_SHARE = 0.02
_TAIL_COUNT = 20  # scores of the tail, where there are few in all
_KNOTS = 256
LEAST_P_VALUE = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Tail:
    """Law of training scores: empirical in the bulk, generalised Pareto in the tail.

    Its size is bounded, whatever the number of scores.

    Parameters
    ----------
    knots : ndarray of shape (k,)
        Rising scores of the bulk.
    survivals : ndarray of shape (k,)
        Shares of scores at least as large as each knot.
    start : float
        Score from which the tail goes; the last knot.
    weight : float
        Share of scores above it.
    excess : Pareto
        Law of what lies above it.

    Examples
    --------
    >>> import numpy as np
    >>> tail = Tail.fit(np.random.default_rng(0).exponential(size=10_000))
    >>> tail.p_values([0.0, np.log(2), 9.2]).round(2).tolist()
    [1.0, 0.49, 0.0]
    """

    knots: NDArray[np.float64]
    survivals: NDArray[np.float64]
    start: float
    weight: float
    excess: Pareto

    @classmethod
    def fit(cls, scores: NDArray[np.float64], share: float = _TAIL_SHARE) -> Self:
        """Fit the law.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Finite.
        share : float
            Share of scores in the tail; few scores have a larger one.

        Returns
        -------
        Tail
            The law.
        """
        ordered = np.sort(scores)
        n = ordered.size
        share = min(max(share, _TAIL_COUNT / n), 0.5)
        place = int((1 - share) * (n - 1))
        knots = np.unique(ordered[np.linspace(0, place, min(_KNOTS, place + 1)).astype(int)])
        above = n - np.searchsorted(ordered, knots, side="left")
        start = float(ordered[place])
        excesses = ordered[ordered > start] - start
        return cls(knots, above / n, start, excesses.size / n, Pareto.fit(excesses, start))

    def p_values(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of a score at least as large.

        Parameters
        ----------
        scores : array of shape (n,)
            NaN where there is none.

        Returns
        -------
        ndarray of shape (n,)
            Above 0, and NaN where there is no score.
        """
        scores = np.asarray(scores, dtype=float)
        p_values: NDArray[np.float64] = np.interp(scores, self.knots, self.survivals)
        beyond = scores > self.start
        if beyond.any():
            p_values[beyond] = self.weight * self.excess.survival(scores[beyond] - self.start)
        return np.maximum(p_values, LEAST_P_VALUE, out=p_values)

    def quantile(self, probability: float) -> float:
        """Return the score that is reached with some probability: the inverse of `p_values`.

        Parameters
        ----------
        probability : float in (0, 1]
            Its p-value.

        Returns
        -------
        float
            A score.
        """
        if probability < self.weight:
            return self.start + self.excess.quantile(probability / self.weight)
        return float(np.interp(-probability, -self.survivals, self.knots))
