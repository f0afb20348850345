"""Events: unbroken runs of marked steps."""

from typing import NamedTuple

import numpy as np


class Ranges(NamedTuple):
    """First and last step of each run, in order of time.

    Parameters
    ----------
    starts, ends : int ndarray of shape (events,)
        First and last step of each run, both inside it.

    Examples
    --------
    >>> ranges_of(np.array([True, True, False, True])).ends.tolist()
    [1, 3]
    """

    starts: np.ndarray
    ends: np.ndarray


def ranges_of(marks: np.ndarray) -> Ranges:
    """Find the runs of marked steps.

    Parameters
    ----------
    marks : bool ndarray of shape (T,)
        Labels or alerts.

    Returns
    -------
    Ranges
        Empty where nothing is marked.

    Examples
    --------
    >>> ranges_of(np.array([True, True, False, True])).starts.tolist()
    [0, 3]
    """
    edges = np.flatnonzero(np.diff(marks, prepend=False, append=False))
    return Ranges(edges[::2], edges[1::2] - 1)


def touched(ranges: Ranges, marks: np.ndarray) -> np.ndarray:
    """Tell which ranges hold a marked step.

    Parameters
    ----------
    ranges : Ranges
        Runs of steps.
    marks : bool ndarray of shape (T,)
        Labels or alerts.

    Returns
    -------
    bool ndarray of shape (events,)

    Examples
    --------
    >>> events = ranges_of(np.array([True, True, False, True]))
    >>> touched(events, np.array([False, True, True, False])).tolist()
    [True, False]
    """
    counts = np.concatenate([[0], np.cumsum(marks)])
    inside: np.ndarray = counts[ranges.ends + 1] > counts[ranges.starts]
    return inside
