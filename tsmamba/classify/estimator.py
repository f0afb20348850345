"""`MambaClassifier`: classes of series of events, such as hospital stays, whole or at times."""

import os
import time
from typing import Any, Self

import numpy as np
import polars as pl
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tsmamba.callbacks import observed
from tsmamba.classify.answers import answers, asked, labelled
from tsmamba.classify.checks import check_settings
from tsmamba.classify.explanation import class_number, explain_frame
from tsmamba.classify.fitting import Ensemble, fit_ensemble
from tsmamba.classify.labels import as_classes, known_classes
from tsmamba.classify.lessons import Lessons, draw
from tsmamba.classify.network import RecordConfig
from tsmamba.classify.presets import PRESETS
from tsmamba.classify.saved import load_classifier, save_classifier
from tsmamba.classify.scores import check_metric, figures, measured
from tsmamba.classify.stream import RiskStream
from tsmamba.data.frame import frame_kind, to_native
from tsmamba.errors import ParameterError
from tsmamba.forecast.progress import progress_bar
from tsmamba.records.events import EventColumns, Events, Repairs, read_events, tell
from tsmamba.records.moments import Moments
from tsmamba.records.reader import Reader, Stays
from tsmamba.records.vocabulary import Vocabulary
from tsmamba.training import Training
from tsmamba.training.drawing import training_of

__all__ = ["MambaClassifier"]

_LR = 2e-3
_EMA_DECAY = 0.99


class MambaClassifier(ClassifierMixin, BaseEstimator):
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

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of a default `Training` included.

        Parameters
        ----------
        **params
            By name; ``training__lr`` and its like reach the nested estimator.

        Returns
        -------
        MambaClassifier
            Itself.
        """
        if self.training is None and any(name.startswith("training__") for name in params):
            self.training = Training()
        super().set_params(**params)
        return self

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
        check_settings(self.get_params(deep=False))
        started = time.perf_counter()
        preset = PRESETS[self.preset]
        repairs = Repairs()
        given = read_events(events, self._columns(), repairs)
        reader, cleaned = Reader.learn(given, self.n_bins, self.max_codes, repairs)
        found, moments = labelled(labels, events, given, reader, self._columns())
        there = reader.measured(cleaned, moments)
        known = moments.only(there)
        classes, numbers = as_classes(found.filter(pl.Series(there)), known.stay, preset.folds)
        with torch.random.fork_rng(devices=[]):
            torch.seed() if self.random_state is None else torch.manual_seed(self.random_state)
            which, weights = draw(numbers, preset.moments * len(given.ids))
            parts = reader.stays_at(cleaned, known.only(which), summaries=self.base is not None)
            lessons = Lessons(
                Stays.joined(parts), numbers[which], weights, known.stay[which], known.cut
            )
            ensemble, held_out = self._train(lessons, len(classes), reader.vocabulary)
        self.classes_ = classes
        self.prior_ = np.bincount(numbers) / len(numbers)
        self.codes_ = [*reader.vocabulary.codes, *reader.vocabulary.statics]
        self.report_ = {
            "stays": len(given.ids),
            "labels": len(there),
            "without_measurement": int((~there).sum()),
            "drawn": len(which),
            "model": "mamba" if self.base is None else f"mamba and {self.base}",
            "repairs": repairs.counts,
            "held_out": figures(lessons.classes, held_out, weights),
            "seconds": time.perf_counter() - started,
        }
        self._reader, self._ensemble = reader, ensemble
        tell(repairs, stacklevel=3)
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
        frame, probabilities = self._answers(events, at)
        told = {
            f"p_{name}": part for name, part in zip(self.classes_, probabilities.T, strict=True)
        }
        return to_native(frame.with_columns(**told), frame_kind(events if at is None else at))

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
        frame, probabilities = self._answers(events, at)
        labels = pl.Series(self.label_col, self.classes_[probabilities.argmax(1)])
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
        check_metric(metric)
        repairs = Repairs()
        given = read_events(events, self._columns(), repairs)
        found, moments = labelled(labels, events, given, self._reader, self._columns())
        numbers = known_classes(found, self.classes_)
        probabilities = self._probabilities(given, moments, repairs)
        tell(repairs, stacklevel=3)
        return measured(metric, numbers, probabilities)

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one file, without pickle.

        Parameters
        ----------
        path : str or path
            The file, such as "risk.tsm"; replaced if it exists.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        ModelFileError
            If the file cannot be written.
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        training = parameters["training"]
        parameters["training"] = None if training is None else training.get_params()
        settings = {
            "parameters": parameters,
            "classes": self.classes_.tolist(),
            "classes_type": str(self.classes_.dtype),
            "prior": self.prior_.tolist(),
            "reader": self._reader.to_dict(),
            "report": self.report_,
        }
        save_classifier(path, settings, self._ensemble)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a classifier that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        MambaClassifier
            Fitted, with the same answers.

        Raises
        ------
        ModelFileError
            If the file is missing, damaged, altered, or of another class or version.
        """
        settings, ensemble = load_classifier(path)
        parameters = settings["parameters"]
        if parameters["training"] is not None:
            parameters["training"] = Training(**parameters["training"])
        self = cls(**parameters)
        self.classes_ = np.array(settings["classes"], settings["classes_type"])
        self.prior_ = np.array(settings["prior"])
        self.report_ = settings["report"]
        self._reader, self._ensemble = Reader.from_dict(settings["reader"]), ensemble
        vocabulary = self._reader.vocabulary
        self.codes_ = [*vocabulary.codes, *vocabulary.statics]
        return self

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags

    def _columns(self) -> EventColumns:
        return EventColumns(
            self.id_col, self.time_col, self.code_col, self.value_col, self.label_col
        )

    def _train(
        self, lessons: Lessons, n_classes: int, vocabulary: Vocabulary
    ) -> tuple[Ensemble, np.ndarray]:
        """Return the model, and the probabilities of each lesson where it was held out."""
        preset = PRESETS[self.preset]
        config = RecordConfig(
            n_codes=len(vocabulary.codes),
            n_statics=vocabulary.static_width,
            n_outputs=1 if n_classes == 2 else n_classes,
            causal=self.causal,
            d_model=preset.d_model,
        )
        count, stays = (
            len(each) * (preset.folds - 1) // preset.folds
            for each in (lessons.classes, np.unique(lessons.subjects))
        )
        training = training_of(
            self.training,
            Training(lr=_LR, ema_decay=_EMA_DECAY),
            count,
            preset.readings(count, stays),
        )
        with progress_bar(preset.folds * training.steps, show=self.verbose > 0) as on_step:
            return fit_ensemble(lessons, config, training, preset.folds, on_step)

    def _answers(self, events: Any, at: Any) -> tuple[pl.DataFrame, np.ndarray]:
        """Return id and perhaps time of what is asked, and the probabilities of each."""
        check_is_fitted(self)
        repairs = Repairs()
        given = read_events(events, self._columns(), repairs)
        frame, moments = asked(at, events, given, self._reader, self._columns())
        probabilities = self._probabilities(given, moments, repairs)
        tell(repairs, stacklevel=3)
        return frame.select(frame.columns[: 1 if at is None else 2]), probabilities

    def _probabilities(self, given: Events, moments: Moments, repairs: Repairs) -> np.ndarray:
        cleaned = self._reader.clean(given, repairs)
        return answers(cleaned, moments, self._reader, self._ensemble, self.prior_, repairs)
