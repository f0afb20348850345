"""An autoregression that learns from every row."""

import numpy as np
from scipy.linalg.blas import dsymv, dsyr

_FORGETTING = 0.999
_FIRST_VARIANCE = 1e3


class RecursiveRegression:
    """Recursive least squares with forgetting, for the next value of one channel.

    Parameters
    ----------
    order : int
        Values to look back.

    Attributes
    ----------
    weights : ndarray of shape (order + 1,)
        Oldest value first, then the intercept.
    covariance : ndarray of shape (order + 1, order + 1)
        Of the weights, in the order of Fortran; only the triangle above the diagonal counts.

    Examples
    --------
    >>> wave = np.sin(np.arange(200) / 5)
    >>> model = RecursiveRegression(order=4)
    >>> residuals = [model.residual(wave[i - 4 : i], wave[i]) for i in range(4, 200)]
    >>> bool(abs(residuals[-1]) < 1e-3)
    True
    """

    def __init__(self, order: int) -> None:
        self.weights = np.zeros(order + 1)
        self.covariance = _first(order + 1)
        self._past = np.ones(order + 1)

    def forecast(self, before: np.ndarray) -> float:
        """Return what is expected next.

        Parameters
        ----------
        before : ndarray of shape (order,)
            Values before it, oldest first.

        Returns
        -------
        float
        """
        self._past[:-1] = before
        return float(self.weights.dot(self._past))

    def residual(self, before: np.ndarray, value: float) -> float:
        """Subtract the forecast from a value, and learn from it.

        Parameters
        ----------
        before : ndarray of shape (order,)
            Values before it, oldest first.
        value : float
            The value.

        Returns
        -------
        float
        """
        error = value - self.forecast(before)
        past = self._past
        gain = dsymv(1.0, self.covariance, past)
        spread = _FORGETTING + float(past.dot(gain))
        if spread < _FORGETTING:  # rounding has left nothing of the covariance
            self.covariance = _first(len(past))
            gain = _FIRST_VARIANCE * past
            spread = _FORGETTING + float(past.dot(gain))
        self.weights += gain * (error / spread)
        self.covariance = dsyr(-1.0 / spread, gain, a=self.covariance, overwrite_a=True)
        # Without news nothing may be forgotten, or the covariance grows beyond all bounds.
        if self.covariance.trace() < _FIRST_VARIANCE * len(past):
            self.covariance *= 1 / _FORGETTING
        return error


def _first(size: int) -> np.ndarray:
    return np.asfortranarray(_FIRST_VARIANCE * np.eye(size))
