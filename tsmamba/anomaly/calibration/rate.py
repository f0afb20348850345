"""A threshold by the rate of false alarms: so many episodes a day."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsmamba.anomaly.calibration.calibrator import Calibration, Calibrator, Evidence
from tsmamba.anomaly.calibration.checks import check_number
from tsmamba.anomaly.calibration.clusters import EpisodeThreshold, run_length
from tsmamba.anomaly.calibration.tail import Tail
from tsmamba.errors import ParameterError

# Of the time between two episodes of the target rate, the part within which they are one. Without
# this bound scores that hang together for a day could never reach one episode a day.
_LONGEST_RUN_SHARE = 8
# An episode that lasts as many runs counts again, at twice the target rate or more. Otherwise a
# threshold so low that all is one episode would be quiet, and would fall for ever.
_RUNS_TO_COUNT_AGAIN = 4


@dataclass
class RateCalibrator(Calibrator):
    """A threshold that follows the episodes: each one raises it, and time lowers it.

    The two are in balance at the target rate, so that rate is held in the long run whatever the
    scores do. Changes are factors, so that a threshold stays above 0.

    Parameters
    ----------
    law : Tail
        Law of the scores of the fit.
    fitted : float > 0
        Threshold of the fit.
    per_step : float > 0
        Episodes wanted a step.
    run : int >= 1
        Steps within which episodes are one.
    gain : float >= 0
        Logarithm of the factor of an episode.
    log_factor : float
        Logarithm of present over fitted threshold.
    quiet, uncounted : int >= 0
        Steps with a score since the threshold was last reached, and since an episode was counted,
        as far as they matter.
    """

    fitted: float
    per_step: float
    run: int
    gain: float
    log_factor: float
    quiet: int
    uncounted: int

    def judge(self, score: float) -> tuple[float, Evidence]:
        """Judge the next score by what came before it, and move on.

        Parameters
        ----------
        score : float
            NaN where there is none, which leaves the state as it is.

        Returns
        -------
        threshold : float
            Above 0.
        evidence : float
            The score.
        """
        threshold = self.fitted * math.exp(self.log_factor)
        if math.isnan(score):
            return threshold, score
        longest = self.run * _RUNS_TO_COUNT_AGAIN
        self.uncounted = min(self.uncounted + 1, longest)
        if score < threshold:
            self.quiet = min(self.quiet + 1, self.run)
        else:
            if self.quiet >= self.run or self.uncounted >= longest:
                self.log_factor += self.gain
                self.uncounted = 0
            self.quiet = 0
        self.log_factor -= self.gain * self.per_step
        return threshold, score


class Rate(Calibration[RateCalibrator]):
    """Threshold at which normal operation gives so many false alarms a day.

    What is counted is episodes, not steps: scores of overlapping windows stay high together, and
    many steps above the threshold are one alarm. The peaks of such clusters in the training scores
    get a generalised Pareto tail, so that the rate may be lower than one in the training part.

    Parameters
    ----------
    per_day : float > 0, default 1.0
        False alarms a day.
    steps_per_day : float > 0, optional
        Steps of a day; a detector learns it from time stamps.
    gain : float >= 0, default 0.2
        How fast the threshold follows the stream: the share of the peaks' scale by which an alarm
        raises it. True alarms count as well. With 0 the threshold is fixed.

    Examples
    --------
    A week of one score a minute, each a mean over an hour:

    >>> import numpy as np
    >>> noise = np.abs(np.random.default_rng(0).normal(size=30 * 1_440))
    >>> scores = np.convolve(noise, np.ones(60) / 60, mode="valid")
    >>> calibrator = Rate(per_day=1.0, steps_per_day=1_440).fit(scores[: 7 * 1_440])
    >>> later = scores[7 * 1_440 :]
    >>> alerts = later >= calibrator.copy().step(later)[0]
    >>> from tsmamba.anomaly.calibration.clusters import count_episodes
    >>> 0.5 < count_episodes(alerts, calibrator.run) / (later.size / 1_440) < 2
    True
    """

    kind = RateCalibrator

    def __init__(
        self, *, per_day: float = 1.0, steps_per_day: float | None = None, gain: float = 0.2
    ) -> None:
        self.per_day = per_day
        self.steps_per_day = steps_per_day
        self.gain = gain

    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.

        Examples
        --------
        >>> Rate(per_day=0.5).check()
        """
        check_number(self, "per_day", above=0)
        check_number(self, "steps_per_day", above=0, optional=True)
        if self.gain != 0:
            check_number(self, "gain", above=0)

    def _fitted(self, scores: NDArray[np.float64], steps_per_day: float | None) -> RateCalibrator:
        steps = steps_per_day if self.steps_per_day is None else self.steps_per_day
        if steps is None:
            raise ParameterError(
                f"Rate: {self.per_day:g} a day of unknown length; pass "
                "Rate(..., steps_per_day=1440) for a step a minute, or time stamps to the detector"
            )
        per_step = self.per_day / steps
        if per_step >= 0.5:
            raise ParameterError(
                f"Rate: per_day={self.per_day:g} with {steps:g} steps a day; pass less than an "
                "alarm every other step"
            )
        present = scores[~np.isnan(scores)]
        run = max(1, min(run_length(scores), int(1 / (per_step * _LONGEST_RUN_SHARE))))
        threshold = EpisodeThreshold.fit(scores, per_step * present.size, run)
        gain = self.gain * threshold.scale / threshold.value
        law = Tail.fit(present)
        return RateCalibrator(
            law=law,
            fitted=threshold.value,
            per_step=per_step,
            run=run,
            gain=gain,
            log_factor=0.0,
            quiet=run,
            uncounted=0,
        )
