"""The period of a series, which sets the width of the patches it is compared by."""

import numpy as np

_ROWS = 20_000
_LONGEST = 400
_SHORTEST = 3
_NO_PERIOD = 125


def dominant_period(values: np.ndarray) -> int:
    """Find the lag at which a series resembles itself most.

    The highest local maximum of the autocorrelation of the first 20,000 rows, at lags of 3 to 400.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        One channel without gaps.

    Returns
    -------
    int
        In rows; 125, the fallback of the TSB-AD benchmark, where there is no maximum.

    Examples
    --------
    >>> dominant_period(np.sin(2 * np.pi * np.arange(500) / 25))
    25
    """
    x = values[:_ROWS] - values[:_ROWS].mean()
    lags = min(_LONGEST, len(x) // 2)
    if lags <= _SHORTEST or not x.any():
        return _NO_PERIOD
    spectrum = np.fft.rfft(x, 2 * len(x))
    correlation = np.fft.irfft(spectrum * spectrum.conj())[: lags + 1]
    inner = correlation[_SHORTEST:-1]
    peaks = np.flatnonzero(
        (inner > correlation[_SHORTEST - 1 : -2]) & (inner >= correlation[_SHORTEST + 1 :])
    )
    if not len(peaks):
        return _NO_PERIOD
    return int(peaks[np.argmax(inner[peaks])]) + _SHORTEST
