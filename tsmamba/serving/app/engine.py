"""What a model must do to be served."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["Engine", "StatefulEngine"]


class Engine(ABC):
    """A model that answers; one thread at a time may use it."""

    kind: ClassVar[str]
    """Class of the model."""

    evicted = 0
    """Series forgotten to make room; whoever counts them sets it back to 0."""

    @property
    def n_series(self) -> int:
        """Series with a state."""
        return 0

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """Return what a request must hold, by role; JSON values."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the settings that matter to who sends requests; JSON values."""


class StatefulEngine(Engine):
    """A model with a state for each series, which a file can keep."""

    @abstractmethod
    def open(self, path: Path, *, anew: bool = False) -> None:
        """Go on from a checkpoint, and write to it from now on.

        Parameters
        ----------
        path : Path
            The file; it may be absent.
        anew : bool, default False
            Whether to leave out what it holds: states of the model before.

        Raises
        ------
        CheckpointError, ModelFileError
            If it belongs to another model, is damaged, or cannot be written.
        """

    @abstractmethod
    def save(self) -> None:
        """Write the state of all series to the open file, whole or not at all."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""
