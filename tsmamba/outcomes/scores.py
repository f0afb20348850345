"""Figures that a classifier or a regressor is judged by."""

from collections.abc import Callable, Mapping

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from tsmamba.errors import ParameterError

__all__ = ["METRICS", "NUMBER_METRICS", "calibration_error", "check_metric", "figures"]


def calibration_error(
    truth: np.ndarray,
    probability: np.ndarray,
    bins: int = 10,
    weights: np.ndarray | None = None,
) -> float:
    """Return the expected calibration error, in bins of equal count.

    Parameters
    ----------
    truth : int ndarray of shape (n,)
        0 or 1.
    probability : ndarray of shape (n,)
        Of 1.
    bins : int, default 10
        How many.
    weights : ndarray of shape (n,), optional
        How much each counts in its bin and over bins.

    Returns
    -------
    float
        Mean distance of probability and frequency, weighted by counts.

    Examples
    --------
    >>> calibration_error(np.array([0, 1]), np.array([0.5, 0.5]), bins=1)
    0.0
    """
    order = np.argsort(probability, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    count = np.ones(len(truth)) if weights is None else weights
    away = [abs((count[part] * (probability[part] - truth[part])).sum()) for part in parts]
    return float(sum(away) / count.sum())


def _accuracy(truth: np.ndarray, p: np.ndarray, weights: np.ndarray | None) -> float:
    return float(accuracy_score(truth, p.argmax(1), sample_weight=weights))


def _auroc(truth: np.ndarray, p: np.ndarray, weights: np.ndarray | None) -> float:
    if p.shape[1] == 2:
        return float(roc_auc_score(truth, p[:, 1], sample_weight=weights))
    classes = range(p.shape[1])
    return float(roc_auc_score(truth, p, multi_class="ovr", labels=classes, sample_weight=weights))


def _auprc(truth: np.ndarray, p: np.ndarray, weights: np.ndarray | None) -> float:
    if p.shape[1] == 2:
        return float(average_precision_score(truth, p[:, 1], sample_weight=weights))
    return float(average_precision_score(np.eye(p.shape[1])[truth], p, sample_weight=weights))


def _brier(truth: np.ndarray, p: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the negative Brier score, so that higher is better; halved over the classes."""
    away = ((p - np.eye(p.shape[1])[truth]) ** 2).sum(1)
    return -float(np.average(away, weights=weights) / 2)


def _r2(truth: np.ndarray, numbers: np.ndarray, weights: np.ndarray | None) -> float:
    return float(r2_score(truth, numbers, sample_weight=weights))


def _mae(truth: np.ndarray, numbers: np.ndarray, weights: np.ndarray | None) -> float:
    return -float(mean_absolute_error(truth, numbers, sample_weight=weights))


def _rmse(truth: np.ndarray, numbers: np.ndarray, weights: np.ndarray | None) -> float:
    return -float(root_mean_squared_error(truth, numbers, sample_weight=weights))


Metric = Callable[[np.ndarray, np.ndarray, np.ndarray | None], float]

METRICS: dict[str, Metric] = {
    "accuracy": _accuracy,
    "auroc": _auroc,
    "auprc": _auprc,
    "brier": _brier,
}
NUMBER_METRICS: dict[str, Metric] = {"r2": _r2, "mae": _mae, "rmse": _rmse}


def check_metric(metric: str, known: Mapping[str, Metric]) -> None:
    """Refuse a metric that does not exist.

    Parameters
    ----------
    metric : str
        Its name.
    known : mapping of str to callable
        Those that exist.

    Raises
    ------
    ParameterError
        If there is no such metric.
    """
    if metric not in known:
        raise ParameterError(f"metric={metric!r}; pass one of {', '.join(map(repr, known))}")


def figures(
    truth: np.ndarray, probabilities: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, float]:
    """Return every figure, and the calibration error where there are two classes.

    Parameters
    ----------
    truth : int ndarray of shape (n,)
        Classes from 0 on.
    probabilities : ndarray of shape (n, K)
        Of each class.
    weights : ndarray of shape (n,), optional
        How much each counts.

    Returns
    -------
    dict of str to float
        By name.
    """
    told = {name: metric(truth, probabilities, weights) for name, metric in METRICS.items()}
    if probabilities.shape[1] == 2:
        told["calibration_error"] = calibration_error(truth, probabilities[:, 1], weights=weights)
    return told
