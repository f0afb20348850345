"""A fixed threshold: a quantile of the training scores."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsmamba.anomaly.calibration.calibrator import Calibration, Calibrator, Evidence
from tsmamba.anomaly.calibration.checks import check_number
from tsmamba.anomaly.calibration.clusters import EpisodeThreshold, run_length
from tsmamba.anomaly.calibration.pareto import just_above
from tsmamba.anomaly.calibration.tail import Tail


@dataclass
class FixedCalibrator(Calibrator):
    """The same threshold at every step.

    Parameters
    ----------
    law : Tail
        Law of the scores of the fit.
    threshold : float > 0
        The threshold.
    """

    threshold: float

    def judge(self, score: float) -> tuple[float, Evidence]:
        """Judge the next score; nothing moves on.

        Parameters
        ----------
        score : float
            NaN where there is none.

        Returns
        -------
        threshold : float
            The threshold.
        evidence : float
            The score.
        """
        return self.threshold, score


class Quantile(Calibration[FixedCalibrator]):
    """Fixed threshold that a given share of the training scores lies above.

    Parameters
    ----------
    contamination : float in (0, 1), optional
        The share. Without it the threshold is one that an episode of normal scores is expected to
        reach once in a time as long as the training part, which is mostly beyond all scores seen.
    least : float > 0, optional
        The threshold is never below it.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.random.default_rng(0).exponential(size=1_000)
    >>> thresholds, p_values = Quantile(contamination=0.05).fit(scores).step(scores)
    >>> float((scores >= thresholds).mean())
    0.05
    >>> bool(Quantile().fit(scores).threshold > np.quantile(scores, 0.99))
    True
    """

    kind = FixedCalibrator

    def __init__(self, *, contamination: float | None = None, least: float | None = None) -> None:
        self.contamination = contamination
        self.least = least

    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.

        Examples
        --------
        >>> Quantile(contamination=0.1).check()
        """
        check_number(self, "contamination", above=0, below=1, optional=True)
        check_number(self, "least", above=0, optional=True)

    def _fitted(self, scores: NDArray[np.float64], steps_per_day: float | None) -> FixedCalibrator:
        present = scores[~np.isnan(scores)]
        if self.contamination is None:
            threshold = EpisodeThreshold.fit(scores, 1.0, run_length(scores)).value
        else:
            threshold = just_above(float(np.quantile(present, 1 - self.contamination)))
        return FixedCalibrator(Tail.fit(present), max(threshold, self.least or 0.0))
