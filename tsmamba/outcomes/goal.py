"""What is learned of stays, a class or a number: all that the fit must know of it."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from torch import Tensor

from tsmamba.outcomes.boosting import Trees

__all__ = ["Goal", "Settled"]


class Settled(NamedTuple):
    """A linear map from what members say to what is answered.

    Parameters
    ----------
    slope : ndarray of shape (K, K)
        What outputs are multiplied by.
    offset : ndarray of shape (K,)
        What is added.
    loss : float
        Of what it maps, on what it was settled by; mixtures of models are compared by it.
    """

    slope: np.ndarray
    offset: np.ndarray
    loss: float


class Goal(ABC):
    """What is learned of stays.

    Attributes
    ----------
    n_outputs : int
        Numbers that a model emits.
    """

    n_outputs: int

    @abstractmethod
    def strata(self, targets: np.ndarray) -> np.ndarray:
        """Return an int for each target, whose counts are kept in draws and folds."""

    @abstractmethod
    def shares(self, *, cut: bool) -> tuple[float, ...]:
        """Return the shares that trees may have, of stays as a whole or cut at moments."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each of n outputs, (n, K)."""

    @abstractmethod
    def grow(self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray, *, seed: int) -> Trees:
        """Grow trees on summaries, (n, F)."""

    @abstractmethod
    def settle(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> Settled:
        """Map outputs, (n, K), of models that were not trained on these targets."""
