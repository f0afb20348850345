"""The generalised Pareto law of what lies beyond a high threshold."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

_PRIOR_COUNT = 20  # excesses that the belief in an exponential tail is worth
_LEAST_COUNT = 5  # excesses below which their shape is not asked for
_SHAPES = (-1.0, 0.9)  # from a uniform law to one with next to no mean
# A bounded law rules out what lies beyond its end, which some data cannot tell. From this survival
# on the tail falls as an exponential with the hazard reached there.
_REACH = 1e-3
_LEAST_SCALE = 1e-9  # of the threshold, where all excesses are equal or there are none
LEAST = math.sqrt(np.finfo(float).tiny)  # least threshold and scale: 1 / LEAST is a number


def just_above(score: float) -> float:
    """Return the least threshold that a score does not reach, above 0 so that it can divide.

    Parameters
    ----------
    score : float
        The score.

    Returns
    -------
    float
        The threshold.

    Examples
    --------
    >>> just_above(1.0) > 1.0 and just_above(0.0) > 0.0
    True
    """
    return max(math.nextafter(score, math.inf), LEAST)


@dataclass(frozen=True)
class Pareto:
    """Generalised Pareto law of excesses over a threshold, never ending.

    Parameters
    ----------
    shape : float
        0 for an exponential tail, above for a heavy one, below for a light one.
    scale : float > 0
        In units of the scores.

    Examples
    --------
    >>> law = Pareto(shape=0.0, scale=2.0)
    >>> law.survival([0.0, 2.0]).round(3).tolist()
    [1.0, 0.368]
    >>> round(law.quantile(0.1), 3)
    4.605
    """

    shape: float
    scale: float

    @classmethod
    def fit(cls, excesses: NDArray[np.float64], start: float) -> Self:
        """Fit the law by the estimator of Zhang and Stephens (2009).

        The shape is drawn towards 0 as if 20 more excesses had been seen there, which steadies it
        where excesses are few.

        Parameters
        ----------
        excesses : ndarray of shape (n,)
            Positive; may be empty.
        start : float
            The threshold that they lie beyond.

        Returns
        -------
        Pareto
            Of the same mean as the excesses.
        """
        least = _LEAST_SCALE * abs(start) + LEAST
        if not excesses.size:
            return cls(0.0, least)
        n = excesses.size
        mean = float(excesses.mean())
        shape = _shape(np.sort(excesses) / mean) if n >= _LEAST_COUNT else 0.0
        shape = float(np.clip(n * shape / (n + _PRIOR_COUNT), *_SHAPES))
        return cls(shape, max(mean * (1 - shape), least))

    def survival(self, excesses: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of an excess at least as large.

        Parameters
        ----------
        excesses : array of shape (n,)
            At least 0.

        Returns
        -------
        ndarray of shape (n,)
            Falling strictly, until it is too small a number.
        """
        x = np.asarray(excesses, dtype=float) / self.scale
        if self.shape == 0:
            return np.exp(-x)
        end = self._reach
        hazard = 1 / (1 + self.shape * end)
        body = np.exp(-np.log1p(self.shape * np.minimum(x, end)) / self.shape)
        return body * np.exp(-hazard * np.maximum(x - end, 0)) if self.shape < 0 else body

    def quantile(self, probability: float) -> float:
        """Return the excess that is reached with some probability: the inverse of `survival`.

        Parameters
        ----------
        probability : float in (0, 1]
            Its survival.

        Returns
        -------
        float
            At least 0.
        """
        if self.shape == 0:
            return -self.scale * math.log(probability)
        if self.shape < 0 and probability < _REACH:
            end = self._reach
            return self.scale * (end + (1 + self.shape * end) * math.log(_REACH / probability))
        return self.scale * math.expm1(-self.shape * math.log(probability)) / self.shape

    @property
    def _reach(self) -> float:
        """Excess, in scales, from which a light tail goes on as an exponential."""
        if self.shape > 0:
            return math.inf
        return math.expm1(-self.shape * math.log(_REACH)) / self.shape


def _shape(excesses: NDArray[np.float64]) -> float:
    """Return the shape: the mean of a profile likelihood over a grid, so nothing is searched."""
    n = excesses.size
    size = 30 + int(n**0.5)
    quarter = excesses[int(n / 4 + 0.5) - 1]
    grid = 1 / excesses[-1] + (1 - np.sqrt(size / (np.arange(size) + 0.5))) / (3 * quarter)
    shapes = np.log1p(-grid[:, None] * excesses).mean(1)
    # A rate of zero is the exponential law itself, whose likelihood is the limit.
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = n * (np.log(-grid / shapes) - shapes - 1)
    likelihood = np.where(np.isfinite(likelihood), likelihood, -np.inf)
    weights = np.exp(likelihood - likelihood.max())
    rate = float((grid * weights).sum() / weights.sum())
    return float(np.log1p(-rate * excesses).mean())
