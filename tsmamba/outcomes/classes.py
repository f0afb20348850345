"""Classes as what is learned."""

from typing import Self

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from torch import Tensor, nn

from tsmamba.outcomes.boosting import Trees, grow_classes
from tsmamba.outcomes.goal import Goal, Settled
from tsmamba.outcomes.labels import as_classes

__all__ = ["Classes", "as_probabilities"]

# Of whole stays trees have a half; moments are many, so that it can be told from them, and trees
# are often far ahead.
_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def as_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the probability of each class, (n, classes), of what a fit of classes says, (n, K).

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Logarithms; for two classes K is 1, the logarithm of the odds of the second.

    Returns
    -------
    ndarray
        Rows add up to 1.

    Examples
    --------
    >>> as_probabilities(np.zeros((1, 1)))
    array([[0.5, 0.5]])
    """
    if scores.shape[1] == 1:
        scores = np.concatenate([np.zeros_like(scores), scores], 1)
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    probabilities: np.ndarray = shifted / shifted.sum(1, keepdims=True)
    return probabilities


class Classes(Goal):
    """Classes; targets are their places.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        Two or more.
    """

    def __init__(self, classes: np.ndarray) -> None:
        self.classes = classes
        self.n_outputs = 1 if len(classes) == 2 else len(classes)

    @classmethod
    def of(cls, labels: pl.Series, subjects: np.ndarray, least: int) -> tuple[Self, np.ndarray]:
        """Return the goal of some labels, and their targets, as `as_classes` finds them."""
        classes, numbers = as_classes(labels, subjects, least)
        return cls(classes), numbers

    def strata(self, targets: np.ndarray) -> np.ndarray:
        """Return the classes: the rarest is in every fold, and drawn whole."""
        return targets

    def shares(self, *, cut: bool) -> tuple[float, ...]:
        """Return the shares that trees may have."""
        return _SHARES if cut else _SHARES[:1]

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the negative logarithm of the likelihood."""
        if self.n_outputs == 1:
            return nn.functional.binary_cross_entropy_with_logits(
                outputs[:, 0], targets.to(outputs.dtype), reduction="none"
            )
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    def grow(self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray, *, seed: int) -> Trees:
        """Grow trees of log odds."""
        return grow_classes(X, targets, weights, seed=seed)

    def settle(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> Settled:
        """Calibrate: Platt scaling for two classes, its like for more."""
        platt = LogisticRegression(C=1e3, max_iter=1000).fit(outputs, targets, weights)
        scores = outputs @ platt.coef_.T + platt.intercept_
        loss = log_loss(targets, as_probabilities(scores), sample_weight=weights)
        return Settled(platt.coef_, platt.intercept_, loss)
