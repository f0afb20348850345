"""A linear autoregression in closed form: what the next row should be."""

from dataclasses import dataclass

import numpy as np

from tsmamba.anomaly.windows import windows_of

_REGRESSORS = 128
_RIDGE = 1e-3
_BLOCK = 4096


@dataclass(frozen=True)
class Autoregression:
    """Each channel from the last rows of all channels, by ridge regression.

    Parameters
    ----------
    coefficients : ndarray of shape (order * n_channels, n_channels)
        Oldest row first.
    intercept : ndarray of shape (n_channels,)
        Added to each forecast.

    Examples
    --------
    >>> wave = np.sin(np.arange(200) / 5)[:, None]
    >>> model = Autoregression.of(wave, order=4)
    >>> bool(np.abs(model.residuals(wave)).max() < 0.01)
    True
    """

    coefficients: np.ndarray
    intercept: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, order: int) -> "Autoregression":
        """Fit to a series.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, standardised.
        order : int
            Rows to look back; 0 compares each row with the mean.

        Returns
        -------
        Autoregression
        """
        n, channels = values.shape
        size = order * channels
        gram = np.zeros((size + 1, size + 1))
        cross = np.zeros((size + 1, channels))
        for start in range(order, n, _BLOCK):
            target = values[start : start + _BLOCK]
            past = _past(values[start - order : start + len(target) - 1], order)
            past = np.concatenate([past, np.ones((len(target), 1))], axis=1)
            gram += past.T @ past
            cross += past.T @ target
        penalty = np.full(size + 1, _RIDGE * max(n - order, 1))
        penalty[-1] = 1e-9
        gram[np.diag_indices(size + 1)] += penalty
        solved = np.linalg.solve(gram, cross)
        return cls(solved[:-1], solved[-1])

    @property
    def order(self) -> int:
        """Rows that a forecast looks back."""
        return len(self.coefficients) // len(self.intercept)

    def residuals(self, values: np.ndarray) -> np.ndarray:
        """Subtract its forecast from every row that has a past.

        Parameters
        ----------
        values : ndarray of shape (..., n_rows, n_channels)
            Without gaps.

        Returns
        -------
        ndarray of shape (..., n_rows - order, n_channels)
        """
        order = self.order
        *series, n, channels = values.shape
        out = np.empty((*series, n - order, channels))
        for start in range(0, n - order, _BLOCK):
            part = values[..., start : start + order + _BLOCK, :]
            past = _past(part[..., :-1, :], order)
            rest = part[..., order:, :] - past @ self.coefficients - self.intercept
            out[..., start : start + _BLOCK, :] = rest
        return out


def order_for(period: int, n_rows: int, n_channels: int) -> int:
    """Choose the rows to look back: two periods, as far as rows and channels allow.

    Parameters
    ----------
    period, n_rows, n_channels : int
        Of the series to fit to.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> order_for(24, 10_000, 1), order_for(24, 10_000, 38)
    (48, 3)
    """
    widest = max(3, _REGRESSORS // n_channels)
    return max(1, min(2 * period, widest, n_rows // 4))


def _past(values: np.ndarray, order: int) -> np.ndarray:
    """Lay the `order` rows before each row side by side; the last row has nothing after it."""
    *series, n, channels = values.shape
    if order == 0:
        return np.empty((*series, n + 1, 0))
    windows = windows_of(np.ascontiguousarray(values), order).swapaxes(-3, -2).swapaxes(-2, -1)
    return windows.reshape(*series, n - order + 1, order * channels)
