"""What every calibration is once it is fitted: thresholds and p-values, step by step."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from tsmamba.anomaly.calibration.checks import usable
from tsmamba.anomaly.calibration.tail import Tail
from tsmamba.errors import ModelFileError

Steps = tuple[NDArray[np.float64], NDArray[np.float64]]
Evidence: TypeAlias = float | tuple[float, ...]


@dataclass
class Calibrator(ABC):
    """A fitted calibration of the scores of one stream.

    All fields are numbers, arrays, or frozen dataclasses of such, and the number of bytes does not
    grow with the number of steps.

    Parameters
    ----------
    law : Tail
        Law of the scores of the fit.
    """

    law: Tail

    @abstractmethod
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
        evidence : float or tuple of float
            What `p_values` makes a p-value of, for any number of scores and streams at once.
        """

    def p_values(self, evidence: ArrayLike) -> NDArray[np.float64]:
        """Return p-values of judged scores; nothing moves on.

        Parameters
        ----------
        evidence : array of shape (n,) or (n, k)
            What `judge` gave, of this calibrator or of copies of it.

        Returns
        -------
        ndarray of shape (n,)
            Above 0, and NaN where there is no score.
        """
        return self.law.p_values(evidence)

    def step(self, scores: ArrayLike) -> Steps:
        """Judge scores in the order of time, each by what came before it, and move on.

        One call with many scores equals many calls with one. A score at its threshold or above is
        an alert.

        Parameters
        ----------
        scores : array of shape (n,)
            NaN where there is none, which leaves the state as it is.

        Returns
        -------
        tuple of two ndarrays of shape (n,)
            Thresholds, above 0, and p-values, above 0 and NaN where there is no score.
        """
        judged = [self.judge(score) for score in np.asarray(scores, dtype=float).tolist()]
        thresholds = np.array([threshold for threshold, _ in judged], dtype=float)
        return thresholds, self.p_values([evidence for _, evidence in judged])

    def tail(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return p-values by the scores of the fit alone; nothing moves on.

        Parameters
        ----------
        scores : array of shape (n,)
            NaN where there is none.

        Returns
        -------
        ndarray of shape (n,)
            Above 0, and NaN where there is no score.
        """
        return self.law.p_values(scores)

    def copy(self) -> Self:
        """Return an independent calibrator in the same state, for another stream."""
        # Not by `copy.copy`, which takes several times as long: a stream comes here at every row.
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            vars(twin)[name] = value.copy() if isinstance(value, np.ndarray) else value
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the whole calibrator as arrays, from which `restore` makes the same again."""
        return _arrays(self)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over a state.

        Parameters
        ----------
        state : mapping of str to ndarray
            What `state` of a calibrator of this kind gave.

        Raises
        ------
        ModelFileError
            If parts of it are missing or unknown; the calibrator then stays as it is.
        """
        new = type(self).from_state(state)
        for field in fields(self):
            setattr(self, field.name, getattr(new, field.name))

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """Make a calibrator from what `state` gave.

        Parameters
        ----------
        state : mapping of str to ndarray
            All parts.

        Returns
        -------
        Calibrator
            In the same state, bit for bit.

        Raises
        ------
        ModelFileError
            If parts are missing or unknown.
        """
        refuse_other_parts(cls, state.keys(), _names(cls))
        made: Self = _made(cls, state)
        return made


def refuse_other_parts(kind: type, given: Collection[str], known: Collection[str]) -> None:
    """Refuse a state that is not one of its kind.

    Parameters
    ----------
    kind : type
        What is to be restored.
    given, known : collection of str
        Names of the parts of the state, and of those that there must be.

    Raises
    ------
    ModelFileError
        If they differ.
    """
    missing, unknown = sorted(set(known) - set(given)), sorted(set(given) - set(known))
    if missing or unknown:
        raise ModelFileError(
            f"state of a {kind.__name__}: missing {missing}, unknown {unknown}; pass what state() "
            "of the same kind gave"
        )


def _names(kind: Any, prefix: str = "") -> list[str]:
    """Return the names of the arrays of a dataclass, nested ones with dots."""
    names: list[str] = []
    for field in fields(kind):
        if is_dataclass(field.type):
            names += _names(field.type, f"{prefix}{field.name}.")
        else:
            names.append(prefix + field.name)
    return names


def _arrays(value: Any, prefix: str = "") -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        if is_dataclass(part):
            arrays |= _arrays(part, f"{prefix}{field.name}.")
        else:
            arrays[prefix + field.name] = np.array(part)
    return arrays


def _made(kind: Any, state: Mapping[str, NDArray[Any]], prefix: str = "") -> Any:
    parts: dict[str, Any] = {}
    for field in fields(kind):
        name = prefix + field.name
        if is_dataclass(field.type):
            parts[field.name] = _made(field.type, state, f"{name}.")
        elif field.type in (int, float):
            parts[field.name] = field.type(state[name])
        else:
            parts[field.name] = np.array(state[name])
    return kind(**parts)


Fitted = TypeVar("Fitted", bound=Calibrator)


class Calibration(BaseEstimator, ABC, Generic[Fitted]):
    """Settings of a calibration; `fit` makes a `Calibrator` and leaves them as they are."""

    kind: type[Fitted]

    def fit(self, scores: ArrayLike, *, steps_per_day: float | None = None) -> Fitted:
        """Fit to scores of normal operation.

        Parameters
        ----------
        scores : array of shape (n,)
            At least 0, higher is worse, in the order of time; NaN where there is none.
        steps_per_day : float > 0, optional
            Steps of a day, for settings in units of days.

        Returns
        -------
        Calibrator
            In the state after the last of the scores.

        Raises
        ------
        ParameterError
            If a setting is out of range, or no score can be used.
        """
        self.check()
        return self._fitted(usable(scores), steps_per_day)

    def restored(self, state: Mapping[str, NDArray[Any]]) -> Fitted:
        """Make a calibrator from what the ``state`` of one of this kind gave, without a fit.

        Parameters
        ----------
        state : mapping of str to ndarray
            All parts.

        Returns
        -------
        Calibrator
            In the same state, bit for bit.
        """
        return self.kind.from_state(state)

    @abstractmethod
    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.
        """

    @abstractmethod
    def _fitted(self, scores: NDArray[np.float64], steps_per_day: float | None) -> Fitted:
        """Fit to scores that `usable` let through."""
