"""Windows of a single series, or rows of several channels: what a baseline compares."""

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tsmamba.metrics import window_of

_LEAST = 8
_STRIDES = 8  # windows are scored this often a window length, and scores joined by lines
_BATCH = 65_536

Judge = Callable[[np.ndarray], np.ndarray]


def window_length(train: np.ndarray) -> int:
    """Return the length of windows for a training part.

    Parameters
    ----------
    train : ndarray of shape (n, C)
        Without NaN.

    Returns
    -------
    int
        The period that TSB-AD finds, but at most a third of the part; 1 for several channels,
        whose rows are compared as they are.

    Examples
    --------
    >>> window_length(np.sin(np.arange(1000) * 2 * np.pi / 50)[:, None])
    50
    """
    if train.shape[1] > 1:
        return 1
    return max(_LEAST, min(window_of(train), len(train) // 3))


def windows(values: np.ndarray, length: int) -> np.ndarray:
    """Return all windows, or all rows where the length is 1, without a copy.

    Examples
    --------
    >>> windows(np.arange(4.0)[:, None], 3).tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    """
    if length == 1:
        return values
    return sliding_window_view(values[:, 0], length)


def judged(values: np.ndarray, length: int, judge: Judge) -> np.ndarray:
    """Score windows and give each score to the middle row of its window.

    Parameters
    ----------
    values : ndarray of shape (T, C)
        Prepared rows.
    length : int
        Of a window.
    judge : callable
        Scores windows of shape (n, length), or rows.

    Returns
    -------
    ndarray of shape (T,)
        Between the windows that are scored, the scores run on straight lines; the first and the
        last are held to the ends.

    Examples
    --------
    >>> judged(np.arange(5.0)[:, None], 3, lambda found: found.sum(1)).tolist()
    [3.0, 3.0, 6.0, 9.0, 9.0]
    """
    every = max(1, length // _STRIDES)
    found = windows(values, length)[::every]
    parts = [judge(found[n : n + _BATCH]) for n in range(0, len(found), _BATCH)]
    middles = np.arange(len(found)) * every + (length - 1) // 2
    scores: np.ndarray = np.interp(np.arange(len(values)), middles, np.concatenate(parts))
    return scores
