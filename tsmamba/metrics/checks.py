"""What the metrics of anomaly detection accept: refusals name the argument and the repair."""

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from tsmamba.errors import ParameterError


def check_marks(values: ArrayLike, name: str) -> np.ndarray:
    """Return labels or alerts as booleans.

    Parameters
    ----------
    values : array-like of shape (T,)
        0 or 1 for each step, or booleans.
    name : str
        The argument, for messages.

    Returns
    -------
    bool ndarray of shape (T,)

    Raises
    ------
    ParameterError
        If they are not one value a step, or hold anything but 0 and 1.

    Examples
    --------
    >>> check_marks([0, 1.0], "labels").tolist()
    [False, True]
    """
    marks = _numbers(values, name)
    other = (marks != 0) & (marks != 1)
    if other.any():
        raise ParameterError(
            f"{name} holds {other.sum():,} values that are neither 0 nor 1, the first "
            f"{marks[other][0]:g} at step {other.argmax()}; pass 1 where a step is marked and 0 "
            f"elsewhere, as in {name}=({name} > 0)"
        )
    return marks.astype(bool)


def check_scores(values: ArrayLike, name: str = "scores") -> np.ndarray:
    """Return scores as floats.

    Parameters
    ----------
    values : array-like of shape (T,)
        One number a step, all finite.
    name : str, default "scores"
        The argument, for messages.

    Returns
    -------
    float ndarray of shape (T,)

    Raises
    ------
    ParameterError
        If they are not one number a step, or some are missing or infinite.

    Examples
    --------
    >>> check_scores([1, 2]).tolist()
    [1.0, 2.0]
    """
    scores = _numbers(values, name)
    bad = ~np.isfinite(scores)
    if bad.any():
        raise ParameterError(
            f"{name} holds {bad.sum():,} NaN or infinite values of {len(scores):,}, the first at "
            f"step {bad.argmax()}; leave these steps out of all arrays, or say what they count as, "
            f"as in numpy.nan_to_num({name}), which makes a NaN the number 0"
        )
    return scores


def check_pair(
    labels: ArrayLike, second: np.ndarray, name: str, *, normal: bool = False
) -> np.ndarray:
    """Return labels as booleans that fit a second array and hold an event.

    Parameters
    ----------
    labels : array-like of shape (T,)
        0 or 1 for each step, or booleans.
    second : ndarray of shape (T,)
        Scores or alerts.
    name : str
        What the second array is, for messages.
    normal : bool, default False
        Whether a step without label is needed too.

    Returns
    -------
    bool ndarray of shape (T,)

    Raises
    ------
    ParameterError
        If lengths differ, or no step is labelled, or all are where ``normal`` asks for others.

    Examples
    --------
    >>> check_pair([0, 1], np.zeros(2), "scores").tolist()
    [False, True]
    """
    marks = check_marks(labels, "labels")
    if len(marks) != len(second):
        raise ParameterError(
            f"labels has {len(marks):,} steps and {name} {len(second):,}; pass one of each a step"
        )
    if not marks.any():
        raise ParameterError(
            f"labels has no 1 in {len(marks):,} steps, and without an event this metric is not "
            "defined; leave such series out, and count their alerts on their own"
        )
    if normal and marks.all():
        raise ParameterError(
            f"labels is 1 at all {len(marks):,} steps, and without a normal step this metric is "
            "not defined; leave such series out"
        )
    return marks


def check_whole(value: SupportsIndex, name: str, least: int = 0) -> int:
    """Return a whole number.

    Parameters
    ----------
    value : int
        The number.
    name : str
        The argument, for messages.
    least : int, default 0
        The least that is accepted.

    Returns
    -------
    int

    Raises
    ------
    ParameterError
        If it is no whole number or is below the least.

    Examples
    --------
    >>> check_whole(np.int64(3), "window")
    3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ParameterError(f"{name}={value!r}; pass a whole number of at least {least}")
    return number


def _numbers(values: ArrayLike, name: str) -> np.ndarray:
    try:
        array = np.asarray(values).astype(float)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} does not hold numbers only; pass one number a step") from None
    if array.ndim != 1:
        raise ParameterError(
            f"{name} has shape {array.shape}; pass one number a step, shape (T,), as in "
            f"numpy.ravel({name}) for a single column"
        )
    return array
