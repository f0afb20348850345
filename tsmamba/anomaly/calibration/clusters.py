"""Clusters of high scores: how far they reach, their peaks, and how often they come.

Scores of overlapping windows stay high together, so steps above a threshold are many more than
alerts. What can be counted as independent is the peak of each cluster.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from tsmamba.anomaly.calibration.pareto import Pareto, just_above

_INDEPENDENT = 0.1  # rank correlation below which steps count as unrelated
_LONGEST_SHARE = 20  # of the scores, one part in this is the farthest that a cluster may reach
# The tail starts where this many peaks lie above: measured by `benchmarks.anomaly_rate`.
_TAIL_SHARE = 0.25
_TAIL_COUNT = 10
_TAIL_PER_EXPECTED = 3


def run_length(scores: NDArray[np.float64]) -> int:
    """Return the number of steps after which scores are next to unrelated.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In the order of time; NaN where there is none.

    Returns
    -------
    int
        At least 1, and at most a twentieth of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.abs(np.random.default_rng(0).normal(size=20_000))
    >>> run_length(noise)
    1
    >>> 40 < run_length(np.convolve(noise, np.ones(50) / 50, "valid")) <= 50
    True
    """
    longest = max(1, scores.size // _LONGEST_SHARE)
    missing = np.isnan(scores)
    ranks = np.searchsorted(np.sort(scores[~missing]), scores)
    centred = np.where(missing, 0.0, ranks - ranks[~missing].mean())
    spectrum = np.abs(np.fft.rfft(centred, 2 * centred.size)) ** 2
    covariance = np.fft.irfft(spectrum)[: longest + 1]
    unrelated = np.flatnonzero(covariance <= _INDEPENDENT * covariance[0])
    return max(1, int(unrelated[0])) if unrelated.size else longest


def cluster_peaks(scores: NDArray[np.float64], run: int) -> NDArray[np.float64]:
    """Return the scores that are the greatest within a run of steps on either side.

    Above any threshold they are about as many as the episodes, which is what makes them useful: one
    list serves all thresholds.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In the order of time; NaN where there is none.
    run : int >= 1
        Steps.

    Returns
    -------
    ndarray
        Rising.

    Examples
    --------
    >>> import numpy as np
    >>> cluster_peaks(np.array([0.0, 5, 4, 0, 0, 0, 3, 0]), run=2).tolist()
    [3.0, 5.0]
    """
    filled = np.where(np.isnan(scores), -np.inf, scores)
    greatest = maximum_filter1d(filled, 2 * run + 1, mode="nearest")
    # Of equal scores side by side, the first stands for all.
    first = np.concatenate([[True], filled[1:] != filled[:-1]])
    return np.sort(filled[(filled == greatest) & first & (filled > -np.inf)])


def count_episodes(above: NDArray[np.bool_], run: int) -> int:
    """Return the number of episodes: steps above, those at most a run apart taken together.

    Parameters
    ----------
    above : bool ndarray of shape (n,)
        Which steps reach the threshold.
    run : int >= 1
        Steps.

    Returns
    -------
    int
        Episodes.

    Examples
    --------
    >>> import numpy as np
    >>> count_episodes(np.array([0, 1, 1, 0, 1, 0, 0, 0, 1], dtype=bool), run=2)
    2
    """
    steps = np.flatnonzero(above)
    return 0 if not steps.size else 1 + int((np.diff(steps) > run).sum())


@dataclass(frozen=True)
class EpisodeThreshold:
    """A threshold that some number of episodes is expected to reach.

    Parameters
    ----------
    value : float
        The threshold.
    scale : float
        Change of it that matters: the scale of the peaks' tail.
    """

    value: float
    scale: float

    @classmethod
    def fit(cls, scores: NDArray[np.float64], expected: float, run: int) -> "EpisodeThreshold":
        """Solve for the threshold, beyond the scores seen where need be.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            In the order of time; NaN where there is none.
        expected : float > 0
            Episodes among as many scores as these.
        run : int >= 1
            Steps within which episodes are one.

        Returns
        -------
        EpisodeThreshold
            Above 0.
        """
        peaks = cluster_peaks(scores, run)
        wanted = max(_TAIL_COUNT, _TAIL_SHARE * peaks.size, _TAIL_PER_EXPECTED * expected)
        count = min(int(wanted), peaks.size - 1)
        start = float(peaks[-count - 1])
        excesses = peaks[peaks > start] - start
        law = Pareto.fit(excesses, start)
        if expected < excesses.size:
            value = start + law.quantile(expected / excesses.size)
        else:
            value = float(np.quantile(peaks, max(0.0, 1 - expected / peaks.size)))
        return cls(just_above(value), law.scale)
