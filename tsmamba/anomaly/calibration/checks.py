"""Checks of settings and of the scores of a fit."""

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsmamba.errors import ParameterError


def usable(scores: ArrayLike) -> NDArray[np.float64]:
    """Return scores of a fit as numbers.

    Parameters
    ----------
    scores : array of shape (n,)
        What the user gave.

    Returns
    -------
    float64 ndarray of shape (n,)
        NaN where there is none.

    Raises
    ------
    ParameterError
        If they are not one row of numbers of at least 0 with one that is not NaN.
    """
    array = np.asarray(scores, dtype=float)
    if array.ndim != 1:
        raise ParameterError(f"scores: shape {array.shape}; pass one score a step, of shape (n,)")
    if not np.isfinite(array).any():
        raise ParameterError(f"scores: {array.size} without a finite one; pass at least one")
    refused = array[(array < 0) | np.isinf(array)]
    if refused.size:
        raise ParameterError(
            f"scores: {refused[0]}; pass finite numbers of at least 0, and NaN where there is none"
        )
    return array


def check_number(
    owner: object, name: str, *, above: float, below: float = np.inf, optional: bool = False
) -> None:
    """Refuse a setting that is not a number between two bounds.

    Parameters
    ----------
    owner : object
        Settings that hold it.
    name : str
        Of the setting.
    above, below : float
        Bounds, which are not accepted themselves.
    optional : bool
        Whether None is accepted.

    Raises
    ------
    ParameterError
        Naming the setting, what came and what is accepted.
    """
    value = getattr(owner, name)
    if value is None and optional:
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if is_number and above < value < below:
        return
    bound = f"above {above:g}" + ("" if below == np.inf else f" and below {below:g}")
    choice = " or None" if optional else ""
    raise ParameterError(f"{type(owner).__name__}: {name}={value!r}; pass a number {bound}{choice}")


def check_count(owner: object, name: str, *, least: int) -> None:
    """Refuse a setting that is not a whole number from some bound on.

    Parameters
    ----------
    owner : object
        Settings that hold it.
    name : str
        Of the setting.
    least : int
        The bound.

    Raises
    ------
    ParameterError
        Naming the setting, what came and what is accepted.
    """
    value = getattr(owner, name)
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if is_count and value >= least:
        return
    raise ParameterError(
        f"{type(owner).__name__}: {name}={value!r}; pass a whole number of at least {least}"
    )
