"""What estimators of outcomes share: parameters, the way of a fit, files."""

import os
import time
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import polars as pl
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tsmamba.forecast.progress import progress_bar
from tsmamba.outcomes.answers import asked, labelled, told
from tsmamba.outcomes.checks import check_settings
from tsmamba.outcomes.fitting import Ensemble, fit_ensemble
from tsmamba.outcomes.goal import Goal
from tsmamba.outcomes.lessons import Lessons, draw
from tsmamba.outcomes.network import RecordConfig
from tsmamba.outcomes.presets import PRESETS, Preset
from tsmamba.outcomes.saved import load_outcomes, save_outcomes
from tsmamba.records.events import EventColumns, Events, Repairs, read_events, tell
from tsmamba.records.moments import Moments
from tsmamba.records.reader import Reader, Stays
from tsmamba.records.vocabulary import Vocabulary
from tsmamba.training import Training
from tsmamba.training.drawing import training_of

__all__ = ["Learned", "OutcomeEstimator"]

_LR = 2e-3
_EMA_DECAY = 0.99

_Goal = TypeVar("_Goal", bound=Goal)


class Learned(NamedTuple, Generic[_Goal]):
    """What a fit found.

    Parameters
    ----------
    goal : Goal
        What was learned.
    targets : ndarray of shape (m,)
        Of all labels at which something was measured.
    reader : Reader
        Of events.
    ensemble : Ensemble
        The model.
    lessons : Lessons
        What was learned from.
    held_out : ndarray of shape (n, K)
        What is said of each lesson by the member that did not learn from it.
    report : dict
        Counts and seconds.
    """

    goal: _Goal
    targets: np.ndarray
    reader: Reader
    ensemble: Ensemble
    lessons: Lessons
    held_out: np.ndarray
    report: dict[str, Any]


class OutcomeEstimator(BaseEstimator):
    """Base of estimators that learn an outcome of series of events; it is not for itself.

    Those that derive from it have the parameters of `MambaClassifier`, all or some.
    """

    preset: str
    base: str | None
    causal: bool
    n_bins: int
    max_codes: int
    id_col: str
    time_col: str
    code_col: str
    value_col: str
    label_col: str
    training: Training | None
    random_state: int | None
    verbose: int

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of a default `Training` included.

        Parameters
        ----------
        **params
            By name; ``training__lr`` and its like reach the nested estimator.

        Returns
        -------
        estimator
            Itself.
        """
        if self.training is None and any(name.startswith("training__") for name in params):
            self.training = Training()
        super().set_params(**params)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, without pickle.

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
            "reader": self._reader.to_dict(),
            "report": self.report_,
            "outcome": self._outcome(),
        }
        save_outcomes(path, type(self).__name__, settings, self._ensemble)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        estimator
            Fitted, with the same answers.

        Raises
        ------
        ModelFileError
            If the file is missing, damaged, altered, or of another class or version.
        """
        settings, ensemble = load_outcomes(path, cls.__name__)
        parameters = settings["parameters"]
        if parameters["training"] is not None:
            parameters["training"] = Training(**parameters["training"])
        self = cls(**parameters)
        self._took(Reader.from_dict(settings["reader"]), ensemble, settings["report"])
        self._take_outcome(settings["outcome"])
        return self

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags

    def _outcome(self) -> dict[str, Any]:
        """Return what a file holds of the outcome, as JSON values."""
        raise NotImplementedError

    def _take_outcome(self, outcome: dict[str, Any]) -> None:
        """Take over what `_outcome` returned."""
        raise NotImplementedError

    def _took(self, reader: Reader, ensemble: Ensemble, report: dict[str, Any]) -> None:
        self._reader, self._ensemble = reader, ensemble
        self.codes_ = [*reader.vocabulary.codes, *reader.vocabulary.statics]
        self.report_ = report

    def _columns(self) -> EventColumns:
        return EventColumns(
            self.id_col, self.time_col, self.code_col, self.value_col, self.label_col
        )

    def _learn(
        self,
        events: Any,
        labels: Any,
        aim: Callable[[pl.Series, np.ndarray, int], tuple[_Goal, np.ndarray]],
    ) -> Learned[_Goal]:
        """Learn; `aim` makes a goal and targets of labels, their stays and the count of folds."""
        check_settings(self.get_params(deep=False))
        started = time.perf_counter()
        preset = PRESETS[self.preset]
        repairs = Repairs()
        given = read_events(events, self._columns(), repairs)
        reader, cleaned = Reader.learn(given, self.n_bins, self.max_codes, repairs)
        found, moments = labelled(labels, events, given, reader, self._columns())
        there = reader.measured(cleaned, moments)
        known = moments.only(there)
        goal, targets = aim(found.filter(pl.Series(there)), known.stay, preset.folds)
        with torch.random.fork_rng(devices=[]):
            torch.seed() if self.random_state is None else torch.manual_seed(self.random_state)
            which, weights = draw(goal.strata(targets), preset.moments * len(given.ids))
            parts = reader.stays_at(cleaned, known.only(which), summaries=self.base is not None)
            lessons = Lessons(
                Stays.joined(parts), targets[which], weights, known.stay[which], known.cut
            )
            ensemble, held_out = self._train(lessons, goal, preset, reader.vocabulary)
        report = {
            "stays": len(given.ids),
            "labels": len(there),
            "without_measurement": int((~there).sum()),
            "drawn": len(which),
            "model": "mamba" if self.base is None else f"mamba and {self.base}",
            "repairs": repairs.counts,
            "seconds": time.perf_counter() - started,
        }
        tell(repairs, stacklevel=4)
        return Learned(goal, targets, reader, ensemble, lessons, held_out, report)

    def _train(
        self, lessons: Lessons, goal: Goal, preset: Preset, vocabulary: Vocabulary
    ) -> tuple[Ensemble, np.ndarray]:
        """Return the model, and what it says of each lesson where it was held out."""
        config = RecordConfig(
            n_codes=len(vocabulary.codes),
            n_statics=vocabulary.static_width,
            n_outputs=goal.n_outputs,
            causal=self.causal,
            d_model=preset.d_model,
        )
        count, stays = (
            len(each) * (preset.folds - 1) // preset.folds
            for each in (lessons.targets, np.unique(lessons.subjects))
        )
        training = training_of(
            self.training,
            Training(lr=_LR, ema_decay=_EMA_DECAY),
            count,
            preset.readings(count, stays),
        )
        with progress_bar(preset.folds * training.steps, show=self.verbose > 0) as on_step:
            return fit_ensemble(lessons, goal, config, training, preset.folds, on_step)

    def _answers(self, events: Any, at: Any) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
        """Return id and perhaps time of what is asked, where something is known, and the scores."""
        check_is_fitted(self)
        repairs = Repairs()
        given = read_events(events, self._columns(), repairs)
        frame, moments = asked(at, events, given, self._reader, self._columns())
        there, scores = self._told(given, moments, repairs)
        tell(repairs, stacklevel=3)
        return frame.select(frame.columns[: 1 if at is None else 2]), there, scores

    def _labelled(self, events: Any, labels: Any) -> tuple[pl.Series, np.ndarray, np.ndarray]:
        """Return labels, where something is known, and the scores."""
        check_is_fitted(self)
        repairs = Repairs()
        given = read_events(events, self._columns(), repairs)
        found, moments = labelled(labels, events, given, self._reader, self._columns())
        there, scores = self._told(given, moments, repairs)
        tell(repairs, stacklevel=3)
        return found, there, scores

    def _told(
        self, given: Events, moments: Moments, repairs: Repairs
    ) -> tuple[np.ndarray, np.ndarray]:
        cleaned = self._reader.clean(given, repairs)
        return told(cleaned, moments, self._reader, self._ensemble, repairs)
