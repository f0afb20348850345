"""`MambaRegressor`: numbers of series of events, such as days that a stay goes on."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tsmamba.callbacks import observed
from tsmamba.data.frame import frame_kind, to_native
from tsmamba.forecast.columns import POINT, Bands
from tsmamba.outcomes.base import OutcomeEstimator
from tsmamba.outcomes.labels import as_numbers
from tsmamba.outcomes.numbers import NormalScores, Numbers, weighted_quantiles
from tsmamba.outcomes.scores import NUMBER_METRICS, check_metric
from tsmamba.training import Training

__all__ = ["MambaRegressor"]

# Shares of held-out stays between which an interval is told.
_LEVELS = np.linspace(0.0, 1.0, 201)


class MambaRegressor(RegressorMixin, OutcomeEstimator):
    """A number for series of irregular events, such as the days that a stay goes on.

    Use it where `MambaClassifier` fits but the label is a number: of each stay as a whole, or at
    times. It is an average of networks that read the events in order and of boosted trees that
    read summaries, in the shares that did best on stays that they were not trained on. Answers are
    medians, within the range of the labels of the fit. Not a medical device.

    Parameters
    ----------
    preset : {"auto", "tiny"}, default "auto"
        Sizes and length of training; "tiny" is for tests.
    base : {"boosting", None}, default "boosting"
        What the networks are averaged with: boosted trees on summaries of each code, or nothing.
    n_bins : int >= 1, default 24
        Bins of time in a usual stay; what falls into one is averaged.
    max_codes : int >= 1, default 128
        Codes that are read, those of most stays.
    id_col, time_col : str, default "subject_id" and "time"
        Columns of the subject and of the time: stamps, durations or numbers since the start.
    code_col, value_col : str, default "code" and "numeric_value"
        Columns of what was measured and its value. A frame without the first is wide, with a
        column for each code.
    label_col : str, default "label"
        Column of the numbers in the frame of labels; in a wide frame of events it is not read.
    training : Training, optional
        Knobs of training; eight times over the stays by default.
    random_state : int, optional
        Seed; fits with the same seed, data and number of threads are equal.
    verbose : int, default 0
        0 is silent, 1 shows a progress bar.

    Attributes
    ----------
    codes_ : list of str
        The codes that are read.
    report_ : dict
        Stays and labels, how many were drawn to learn from, seconds, what was wrong with the
        events, the share of trees, and scores on stays that were not trained on.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> rng = np.random.default_rng(0)
    >>> days = rng.uniform(1, 9, 60).round(1)
    >>> events = pl.DataFrame({
    ...     "subject_id": np.arange(60).repeat(20), "time": np.tile(np.arange(20.0), 60),
    ...     "code": "pulse", "numeric_value": 80 + 4 * days.repeat(20) + rng.normal(size=1200),
    ... })
    >>> labels = pl.DataFrame({"subject_id": np.arange(60), "label": days})
    >>> regressor = MambaRegressor(preset="tiny", random_state=0).fit(events, labels)
    >>> regressor.predict(events, level=[80]).columns
    ['subject_id', 'label', 'label-lo-80', 'label-hi-80']
    """

    causal = False

    def __init__(
        self,
        *,
        preset: str = "auto",
        base: str | None = "boosting",
        n_bins: int = 24,
        max_codes: int = 128,
        id_col: str = "subject_id",
        time_col: str = "time",
        code_col: str = "code",
        value_col: str = "numeric_value",
        label_col: str = "label",
        training: Training | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.preset = preset
        self.base = base
        self.n_bins = n_bins
        self.max_codes = max_codes
        self.id_col = id_col
        self.time_col = time_col
        self.code_col = code_col
        self.value_col = value_col
        self.label_col = label_col
        self.training = training
        self.random_state = random_state
        self.verbose = verbose

    @observed
    def fit(self, events: Any, labels: Any) -> Self:
        """Fit on events and the number of each stay, or of stays at times.

        Parameters
        ----------
        events : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
            A row for each event, or for each time with a column for each code.
        labels : DataFrame
            A row for each stay: its id and its number. With a column `time_col` each row holds at
            that time, and of the events only those up to and with it are learned from.

        Returns
        -------
        MambaRegressor
            Itself.

        Raises
        ------
        ParameterError
            If a parameter is out of range.
        FrameError
            If a frame cannot be used; nothing of an earlier fit is changed then.
        """
        learned = self._learn(events, labels, Numbers.of)
        self._took(learned.reader, learned.ensemble, learned.report)
        lessons, said = learned.lessons, learned.held_out[:, 0]
        self._scale = learned.goal.scale
        self._away = weighted_quantiles(lessons.targets - said, lessons.weights, _LEVELS)
        self._usual = weighted_quantiles(lessons.targets, lessons.weights, _LEVELS)
        truth, answers = (self._scale.back(each) for each in (lessons.targets, said))
        self.report_["held_out"] = {
            name: metric(truth, answers, lessons.weights) for name, metric in NUMBER_METRICS.items()
        }
        self.report_["share_of_trees"] = (
            0.0 if self.base is None else float(learned.ensemble.shares[1])
        )
        return self

    def predict(self, events: Any, at: Any = None, *, level: Sequence[float] | None = None) -> Any:
        """Return the number of each stay, or at times: the median of what may come.

        Where no known code was measured, or not yet, the answer is that of all stays of the fit,
        and a warning tells.

        Parameters
        ----------
        events : DataFrame
            As in `fit`.
        at : DataFrame, optional
            Rows of an id and a time, of the kind that `events` has. An answer rests on the events
            of its stay up to and with that time.
        level : sequence of float in (0, 100), optional
            Contents, in percent, of intervals to tell; they rest on held-out stays of the fit.

        Returns
        -------
        DataFrame
            The id and a column `label_col`, in the library of `events`; columns such as
            ``label-lo-90`` and ``label-hi-90`` for each level. With `at` a row for each of its
            rows, id and time first, in the library of `at`.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If the frame cannot be used.
        ParameterError
            If a level is out of range.
        """
        bands = () if level is None else Bands.of(level, None).columns
        frame, there, scores = self._answers(events, at)
        columns = {self.label_col: self._numbers(there, scores, 0.5, 0.0)}
        for name, share in bands:
            away = np.interp(share, _LEVELS, self._away)
            columns[name.replace(POINT, self.label_col)] = self._numbers(there, scores, share, away)
        return to_native(frame.with_columns(**columns), frame_kind(events if at is None else at))

    def score(self, events: Any, labels: Any, *, metric: str = "r2") -> float:
        """Score the answers on labelled stays, or at labelled times; higher is better.

        Parameters
        ----------
        events, labels : DataFrame
            As in `fit`.
        metric : {"r2", "mae", "rmse"}, default "r2"
            What to measure; the mean absolute and the root mean square error are negated. Answers
            are medians, which the mean absolute error judges best.

        Returns
        -------
        float
            The score.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If a frame cannot be used.
        ParameterError
            If there is no such metric.
        """
        check_is_fitted(self)
        check_metric(metric, NUMBER_METRICS)
        found, there, scores = self._labelled(events, labels)
        return NUMBER_METRICS[metric](
            as_numbers(found), self._numbers(there, scores, 0.5, 0.0), None
        )

    def _outcome(self) -> dict[str, Any]:
        return {
            "scale": self._scale.to_dict(),
            "away": self._away.tolist(),
            "usual": self._usual.tolist(),
        }

    def _take_outcome(self, outcome: dict[str, Any]) -> None:
        self._scale = NormalScores.from_dict(outcome["scale"])
        self._away, self._usual = np.array(outcome["away"]), np.array(outcome["usual"])

    def _numbers(
        self, there: np.ndarray, scores: np.ndarray, share: float, away: float
    ) -> np.ndarray:
        """Return numbers that are `away` from what is said, usual ones where nothing is known."""
        told = np.full(len(there), np.interp(share, _LEVELS, self._usual))
        told[there] = scores[:, 0] + away
        return self._scale.back(told)
