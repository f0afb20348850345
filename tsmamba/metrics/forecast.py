"""Errors of forecasts on arrays; frames are evaluated by ``utilsforecast.evaluation.evaluate``."""

import numpy as np
from numpy.typing import ArrayLike


def mase(y: ArrayLike, forecast: ArrayLike, scale: float) -> float:
    """Mean absolute scaled error.

    Below 1, the forecast is better than the seasonal naive forecast was, one step ahead, on the
    training part.

    Parameters
    ----------
    y, forecast : array-like of the same shape
        True and forecast values; pairs with a NaN are left out.
    scale : float > 0
        See `naive_scale`.

    Returns
    -------
    float
        0 is best; NaN when no pair is left.

    References
    ----------
    Hyndman and Koehler, "Another look at measures of forecast accuracy", 2006.

    Examples
    --------
    >>> mase([1.0, 2.0], [1.5, 2.5], scale=1.0)
    0.5
    """
    error = np.abs(np.asarray(y, dtype=float) - np.asarray(forecast, dtype=float))
    error = error[~np.isnan(error)]
    return float(error.mean() / scale) if error.size else float("nan")


def naive_scale(y: ArrayLike, season: int) -> float:
    """Mean absolute difference between values one season apart: the unit of `mase`.

    Parameters
    ----------
    y : array-like of shape (steps,)
        Training part of a series; NaN where missing.
    season : int >= 1
        Season in steps; a series no longer than it is judged by single steps.

    Returns
    -------
    float
        Above 0 also for series that never change.

    Examples
    --------
    >>> naive_scale([1.0, 2.0, 2.0, 4.0], season=2)
    1.5
    """
    values = np.asarray(y, dtype=float)
    lag = season if len(values) > season else 1
    differences = np.abs(values[lag:] - values[:-lag])
    differences = differences[~np.isnan(differences)]
    scale = float(differences.mean()) if differences.size else 0.0
    largest = float(np.nanmax(np.abs(values))) if differences.size else 0.0
    return float(least_scale(np.array(scale), np.array(largest)))


def least_scale(scale: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Lift scales that are mere rounding of values that were stored in single precision.

    Parameters
    ----------
    scale, largest : ndarray
        Mean absolute differences, and greatest absolute values.

    Returns
    -------
    ndarray
        Above 0.

    Examples
    --------
    >>> bool(least_scale(np.zeros(1), np.array([8.0]))[0] > 0)
    True
    """
    least = np.finfo(np.float32).eps * np.where(largest > 0, largest, 1.0)
    lifted: np.ndarray = np.maximum(scale, least)
    return lifted


def coverage(y: ArrayLike, low: ArrayLike, high: ArrayLike) -> float:
    """Share of true values inside an interval, bounds included.

    Parameters
    ----------
    y, low, high : array-like of the same shape
        True values and bounds; missing values are left out.

    Returns
    -------
    float
        From 0 to 1; compare it with the nominal level. NaN when no value is left.

    Examples
    --------
    >>> coverage([1.0, 5.0], [0.0, 0.0], [2.0, 2.0])
    0.5
    """
    values = np.asarray(y, dtype=float)
    inside = (values >= np.asarray(low, dtype=float)) & (values <= np.asarray(high, dtype=float))
    inside = inside[~np.isnan(values)]
    return float(inside.mean()) if inside.size else float("nan")
