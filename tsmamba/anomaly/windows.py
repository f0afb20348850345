"""Windows of a series, as a view."""

import numpy as np


def windows_of(values: np.ndarray, width: int) -> np.ndarray:
    """View every window of a series.

    Parameters
    ----------
    values : ndarray of shape (..., n_rows, n_channels), contiguous
        The series, at least `width` rows.
    width : int
        Rows of a window.

    Returns
    -------
    ndarray of shape (..., n_channels, n_rows - width + 1, width)
        A view.

    Examples
    --------
    >>> windows_of(np.arange(4.0)[:, None], 3)[0]
    array([[0., 1., 2.],
           [1., 2., 3.]])
    """
    *series, n, channels = values.shape
    *outer, row, column = values.strides
    # What `sliding_window_view` does, whose checks take longer than a step of a stream.
    view: np.ndarray = np.ndarray(
        (*series, channels, n - width + 1, width),
        values.dtype,
        values,
        strides=(*outer, column, row, row),
    )
    return view
