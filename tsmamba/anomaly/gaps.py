"""Where a score would tell of what was filled in rather than of what was there."""

from collections.abc import Sequence

import numpy as np

# Of the values that a stretch of rows usually has. With fewer of them the distance of a patch is
# that of its filling.
LEAST_PART = 0.5


def sparse(
    absent: np.ndarray, n: int, stretches: Sequence[tuple[int, int]], usual: np.ndarray
) -> np.ndarray:
    """Tell for the last rows whether one of some stretches before them has too few values.

    Parameters
    ----------
    absent : ndarray of shape (..., n_rows, n_channels), bool
        Which values are missing.
    n : int
        For how many rows.
    stretches : sequence of (oldest, newest)
        Each by the rows between its ends and the row in question.
    usual : ndarray of shape (n_channels,)
        Part of the rows that have a value, as the fit saw it.

    Returns
    -------
    ndarray of shape (..., n, n_channels), bool

    Examples
    --------
    >>> absent = np.array([[False], [True], [True], [False], [False]])
    >>> sparse(absent, 3, [(2, 0)], np.ones(1)).ravel()
    array([ True,  True, False])
    """
    *streams, length, channels = absent.shape
    out = np.zeros((*streams, n, channels), dtype=bool)
    if not absent.any():
        return out
    total = np.zeros((*streams, length + 1, channels))
    np.cumsum(~absent, axis=-2, out=total[..., 1:, :])
    first = length - n
    for oldest, newest in stretches:
        until, before = first - newest + 1, first - oldest
        known = total[..., until : until + n, :] - total[..., before : before + n, :]
        out |= known < LEAST_PART * usual * (oldest - newest + 1)
    return out
