"""`MambaClassifier`: classes of series of events, such as hospital stays, whole or at times."""

from typing import Any, Self

import numpy as np
import polars as pl
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from tsmamba.callbacks import observed
from tsmamba.data.frame import frame_kind, to_native
from tsmamba.errors import ParameterError
from tsmamba.outcomes.base import OutcomeEstimator
from tsmamba.outcomes.classes import Classes, as_probabilities
from tsmamba.outcomes.explanation import class_number, explain_frame
from tsmamba.outcomes.labels import known_classes
from tsmamba.outcomes.scores import METRICS, check_metric, figures
from tsmamba.outcomes.stream import RiskStream
from tsmamba.records.events import Repairs, tell
from tsmamba.training import Training

__all__ = ["MambaClassifier"]


class MambaClassifier(ClassifierMixin, OutcomeEstimator):
    """Probabilities of classes for series of irregular events, such as the risk of a stay.

    Use it where each subject has many measurements at times of their own, some of many kinds and
    most of them missing most of the time: records of hospitals, visits, machines. It is an average
    of networks that read the events in order and of boosted trees that read summaries, and its
    probabilities are calibrated on stays that its members were not trained on. Not a medical
    device.

    Parameters
    ----------
    preset : {"auto", "tiny"}, default "auto"
        Sizes and length of training; "tiny" is for tests.
    base : {"boosting", None}, default "boosting"
        What the networks are averaged with: boosted trees on summaries of each code, or nothing.
    causal : bool, default False
        Whether networks look back only, so that `stream` can tell the risk after every event.
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
        Column of the classes in the frame of labels; in a wide frame of events it is not read.
    training : Training, optional
        Knobs of training; eight times over the stays by default.
    random_state : int, optional
        Seed; fits with the same seed, data and number of threads are equal.
    verbose : int, default 0
        0 is silent, 1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    prior_ : ndarray of shape (K,)
        Their shares in training, which is the answer on a stay without measurements.
    codes_ : list of str
        The codes that are read.
    report_ : dict
        Stays and labels, how many were drawn to learn from, seconds, what was wrong with the
        events, whether trees take part, and figures on stays that were not trained on.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> rng = np.random.default_rng(0)
    >>> stay = np.repeat(np.arange(60), 20)
    >>> events = pl.DataFrame({
    ...     "subject_id": stay, "time": np.tile(np.arange(20.0), 60), "code": "pulse",
    ...     "numeric_value": 80 + 20 * (stay % 2) + rng.normal(size=1200),
    ... })
    >>> labels = pl.DataFrame({"subject_id": np.arange(60), "label": np.arange(60) % 2})
    >>> classifier = MambaClassifier(preset="tiny", random_state=0).fit(events, labels)
    >>> classifier.predict_proba(events).columns
    ['subject_id', 'p_0', 'p_1']
    """

    def __init__(
        self,
        *,
        preset: str = "auto",
        base: str | None = "boosting",
        causal: bool = False,
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
        self.causal = causal
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
        """Fit on events and the label of each stay, or of stays at times.

        Parameters
        ----------
        events : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
            A row for each event, or for each time with a column for each code.
        labels : DataFrame
            A row for each stay: its id and its label. With a column `time_col` each row labels its
            stay at that time, and of the events only those up to and with it are learned from.

        Returns
        -------
        MambaClassifier
            Itself.

        Raises
        ------
        ParameterError
            If a parameter is out of range.
        FrameError
            If a frame cannot be used; nothing of an earlier fit is changed then.
        """
        learned = self._learn(events, labels, Classes.of)
        self._took(learned.reader, learned.ensemble, learned.report)
        self.classes_ = learned.goal.classes
        self.prior_ = np.bincount(learned.targets) / len(learned.targets)
        lessons, held_out = learned.lessons, as_probabilities(learned.held_out)
        self.report_["held_out"] = figures(lessons.targets, held_out, lessons.weights)
        return self

    def predict_proba(self, events: Any, at: Any = None) -> Any:
        """Return the probability of each class for each stay, or at times.

        Where no known code was measured, or not yet, the answer is `prior_`, and a warning tells.

        Parameters
        ----------
        events : DataFrame
            As in `fit`.
        at : DataFrame, optional
            Rows of an id and a time, of the kind that `events` has. An answer rests on the events
            of its stay up to and with that time.

        Returns
        -------
        DataFrame
            The id, and a column ``p_...`` for each class, in the library of `events`. With `at` a
            row for each of its rows, id and time first, in the library of `at`.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If the frame cannot be used.
        """
        frame, there, scores = self._answers(events, at)
        probabilities = zip(self.classes_, self._probabilities(there, scores).T, strict=True)
        columns = {f"p_{name}": part for name, part in probabilities}
        return to_native(frame.with_columns(**columns), frame_kind(events if at is None else at))

    def predict(self, events: Any, at: Any = None) -> Any:
        """Return the likeliest class of each stay, or at times.

        Parameters
        ----------
        events : DataFrame
            As in `fit`.
        at : DataFrame, optional
            As in `predict_proba`.

        Returns
        -------
        DataFrame
            As of `predict_proba`, with the label.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If the frame cannot be used.
        """
        frame, there, scores = self._answers(events, at)
        likeliest = self._probabilities(there, scores).argmax(1)
        labels = pl.Series(self.label_col, self.classes_[likeliest])
        return to_native(frame.with_columns(labels), frame_kind(events if at is None else at))

    def score(self, events: Any, labels: Any, *, metric: str = "accuracy") -> float:
        """Score the answers on labelled stays, or at labelled times; higher is better.

        Parameters
        ----------
        events, labels : DataFrame
            As in `fit`.
        metric : {"accuracy", "auroc", "auprc", "brier"}, default "accuracy"
            What to measure; the Brier score is negated. Where one class is rare, accuracy says
            little.

        Returns
        -------
        float
            The score.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If a frame cannot be used, or a label is not among `classes_`.
        """
        check_is_fitted(self)
        check_metric(metric, METRICS)
        found, there, scores = self._labelled(events, labels)
        numbers = known_classes(found, self.classes_)
        return METRICS[metric](numbers, self._probabilities(there, scores), None)

    def explain(self, events: Any, *, label: Any = None) -> Any:
        """Tell how much each measurement adds to the answer of its stay.

        Parts are logarithms of odds, beside the same stay with usual values: those of a stay add up
        to the log odds of `predict_proba`, less those of the same events with each value at its
        mean in training. Networks are explained by integrated gradients, trees by Shapley values.
        A part says what the model makes of a value, not that it is a cause.

        Parameters
        ----------
        events : DataFrame
            As in `fit`.
        label : object, optional
            The class whose odds are explained; the second of two by default. Of more than two it
            must be given, and its odds are those against the geometric mean of the others.

        Returns
        -------
        DataFrame
            Of the same library, a row for each code and bin of time with a measurement: the id, the
            start of the bin (null for what trees read off the whole stay), code, mean of the
            values, ``contribution``. Stays in their order, in each the largest part first.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If the frame cannot be used.
        ParameterError
            If `label` is not one of `classes_`.
        """
        check_is_fitted(self)
        number = class_number(label, self.classes_)
        repairs = Repairs()
        explained = explain_frame(
            events, self._columns(), self._reader, self._ensemble, number, repairs
        )
        tell(repairs, stacklevel=3)
        return explained

    def stream(self) -> RiskStream:
        """Return a stream that tells the probabilities after every event.

        Returns
        -------
        RiskStream
            Of any number of stays; what it says after an event is what `predict_proba` says of
            the events so far.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        ParameterError
            Unless the classifier was made with ``causal=True`` and ``base=None``.
        """
        check_is_fitted(self)
        if not self.causal or self.base is not None:
            raise ParameterError(
                f"a stream needs networks that look back only and no trees, not causal="
                f"{self.causal}, base={self.base!r}; fit MambaClassifier(causal=True, base=None)"
            )
        return RiskStream(self._reader, self._ensemble, self.prior_)

    def _outcome(self) -> dict[str, Any]:
        return {
            "classes": self.classes_.tolist(),
            "classes_type": str(self.classes_.dtype),
            "prior": self.prior_.tolist(),
        }

    def _take_outcome(self, outcome: dict[str, Any]) -> None:
        self.classes_ = np.array(outcome["classes"], outcome["classes_type"])
        self.prior_ = np.array(outcome["prior"])

    def _probabilities(self, there: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the probabilities of all that is asked, the prior where nothing is known."""
        probabilities = np.tile(self.prior_, (len(there), 1))
        probabilities[there] = as_probabilities(scores)
        return probabilities
