"""What all monitors have in common: a name, a state that stays small, and one result."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tsmamba.errors import ModelFileError, ParameterError

__all__ = ["Check", "Monitor"]

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Check:
    """What a monitor says.

    Parameters
    ----------
    name : str
        Of the monitor.
    value : float or None
        What it watches; None before anything was seen, and where it is no finite number.
    limits : (float or None, float or None)
        The least and the greatest value that is well; None where there is no such limit.
    ok : bool
        Whether all is well, as far as was seen.
    message : str
        The same in a sentence.

    Examples
    --------
    >>> Check("state_norm", 1.02, (0.8, 1.2), True, "norm of the state is 1.02 of the reference").ok
    True
    """

    name: str
    value: float | None
    limits: tuple[float | None, float | None]
    ok: bool
    message: str


class Monitor(ABC):
    """Watches one thing.

    Subclasses list in ``_parts`` the attributes, each a JSON value, that its next check depends on.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and underscores; metrics begin with it.
    reads : str or None
        Keyword of `Health.observe` whose value it is handed; None if it reads for itself.
    """

    unit: ClassVar[str]
    """What the value is, as the end of the name of its metric."""
    _parts: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, reads: str | None) -> None:
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"name={name!r}; pass lower-case letters, digits and underscores, a letter first"
            )
        self.name = name
        self.reads = reads

    @abstractmethod
    def observe(self, value: Any) -> Check:
        """Take in what is to be watched, and return what is said of it.

        Parameters
        ----------
        value : object
            What the monitor reads.

        Returns
        -------
        Check
        """

    @abstractmethod
    def check(self) -> Check:
        """Return what is said now, without new values."""

    def metrics(self) -> dict[str, float]:
        """Return the last check as numbers by name, as MLflow's ``log_metrics`` takes them.

        Returns
        -------
        dict of str to float
            The value, where there is one, and whether all is well, 1 or 0.
        """
        check = self.check()
        numbers = {f"{self.name}_ok": float(check.ok)}
        if check.value is not None:
            numbers[f"{self.name}_{self.unit}"] = float(check.value)
        return numbers

    def state(self) -> dict[str, Any]:
        """Return all that the next check depends on beside the settings; JSON values."""
        return {part: _copied(getattr(self, part)) for part in self._parts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state.

        Parameters
        ----------
        state : mapping of str to JSON value
            What `state` of a monitor of the same class and settings gave.

        Raises
        ------
        ModelFileError
            If parts of it are missing or unknown; the monitor then stays as it is.
        """
        if state.keys() != set(self._parts):
            raise ModelFileError(
                f"{self.name}: the state has the parts {sorted(state)}, a {type(self).__name__} "
                f"has {sorted(self._parts)}; restore a monitor of the class that was saved"
            )
        for part in self._parts:
            setattr(self, part, _copied(state[part]))


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value
