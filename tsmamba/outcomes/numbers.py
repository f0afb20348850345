"""Numbers as what is learned, on a scale where they are normally distributed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from scipy.special import ndtri
from torch import Tensor

from tsmamba.errors import FrameError
from tsmamba.outcomes.boosting import Trees, grow_numbers
from tsmamba.outcomes.goal import Goal, Settled
from tsmamba.outcomes.labels import as_numbers

__all__ = ["NormalScores", "Numbers", "weighted_quantiles"]

# Knots of the map between numbers and scores.
_KNOTS = 1_000
# Of numbers enough can be told from any set of stays to settle the share.
_SHARES = tuple(np.linspace(0.0, 1.0, 11))
_SLOPES = np.linspace(0.5, 2.0, 61)


@dataclass(frozen=True)
class NormalScores:
    """Map between numbers and normal scores, monotone and piecewise linear.

    Numbers of records are often skewed over decades, as laboratory values, or end at a limit, as
    days in a ward. Squared errors of their scores weigh each part of the range alike, and what is
    the middle there is the middle here.

    Parameters
    ----------
    values : ndarray of shape (k,)
        Knots, ascending.
    scores : ndarray of shape (k,)
        Of each knot, ascending.

    Examples
    --------
    >>> scale = NormalScores.of(np.array([1.0, 10.0, 100.0]))
    >>> scale.to(np.array([10.0])), scale.back(np.array([0.0, 9.0]))
    (array([0.]), array([ 10., 100.]))
    """

    values: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray) -> Self:
        """Return the map by which some numbers have normal scores; equal ones share the middle."""
        knots, counts = np.unique(numbers, return_counts=True)
        ranks = (np.cumsum(counts) - counts / 2) / len(numbers)
        if len(knots) > _KNOTS:
            few = np.unique(np.linspace(0, len(knots) - 1, _KNOTS).astype(int))
            knots, ranks = knots[few], ranks[few]
        return cls(knots.astype(float), ndtri(ranks))

    def to(self, numbers: np.ndarray) -> np.ndarray:
        """Return scores of numbers; beyond the knots those of the outermost."""
        scores: np.ndarray = np.interp(numbers, self.values, self.scores)
        return scores

    def back(self, scores: np.ndarray) -> np.ndarray:
        """Return numbers of scores; beyond the knots the outermost."""
        numbers: np.ndarray = np.interp(scores, self.scores, self.values)
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"values": self.values.tolist(), "scores": self.scores.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Build it again from `to_dict`."""
        return cls(np.array(state["values"]), np.array(state["scores"]))


class Numbers(Goal):
    """Normal scores of numbers.

    Parameters
    ----------
    scale : NormalScores
        By which errors are told in the units of the user when mixtures are compared.
    """

    n_outputs = 1

    def __init__(self, scale: NormalScores) -> None:
        self.scale = scale

    @classmethod
    def of(cls, labels: pl.Series, subjects: np.ndarray, least: int) -> tuple[Self, np.ndarray]:
        """Return the goal of some labels, and their normal scores.

        Parameters
        ----------
        labels : polars.Series
            Numbers.
        subjects : int ndarray of shape (n,)
            The stay of each.
        least : int
            Stays that are needed.

        Returns
        -------
        goal : Numbers
            Of these labels.
        targets : ndarray of shape (n,)
            Scores.

        Raises
        ------
        FrameError
            If labels are no numbers, all are equal, or they are of too few stays.
        """
        numbers = as_numbers(labels)
        stays = len(np.unique(subjects))
        if stays < least:
            raise FrameError(f"{stays} stays with measurements and a label; {least} are needed")
        if np.ptp(numbers) == 0:
            raise FrameError(f"all labels are {numbers[0]:g}; there is nothing to learn")
        scale = NormalScores.of(numbers)
        return cls(scale), scale.to(numbers)

    def strata(self, targets: np.ndarray) -> np.ndarray:
        """Return zeros: all are alike."""
        return np.zeros(len(targets), int)

    def shares(self, *, cut: bool) -> tuple[float, ...]:
        """Return the shares that trees may have."""
        return _SHARES

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the squared error."""
        return (outputs[:, 0] - targets.to(outputs.dtype)).square()

    def grow(self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray, *, seed: int) -> Trees:
        """Grow trees of scores."""
        return grow_numbers(X, targets, weights, seed=seed)

    def settle(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> Settled:
        """Stretch outputs, which training draws to the mean, and move them to the middle.

        Of some slopes, each with the offset that leaves half of the errors on either side, the one
        of least absolute error in the units of the user is taken.
        """
        said, truth = outputs[:, 0], self.scale.back(targets)
        found = []
        for slope in _SLOPES:
            (offset,) = weighted_quantiles(targets - slope * said, weights, [0.5])
            missed = abs(self.scale.back(slope * said + offset) - truth)
            found.append((float(np.average(missed, weights=weights)), slope, offset))
        loss, slope, offset = min(found)
        return Settled(np.array([[slope]]), np.array([offset]), loss)


def weighted_quantiles(
    numbers: np.ndarray, weights: np.ndarray, levels: Sequence[float] | np.ndarray
) -> np.ndarray:
    """Return the least numbers that have at least such shares of the weight at or below them.

    Parameters
    ----------
    numbers, weights : ndarray of shape (n,)
        Weights are positive.
    levels : sequence of float of length q
        Shares, 0 to 1.

    Returns
    -------
    ndarray of shape (q,)
        Some of the numbers.

    Examples
    --------
    >>> weighted_quantiles(np.array([3.0, 1.0]), np.array([1.0, 3.0]), [0.5, 1.0])
    array([1., 3.])
    """
    order = np.argsort(numbers)
    reached = weights[order].cumsum()
    place = np.searchsorted(reached, np.asarray(levels) * reached[-1])
    found: np.ndarray = numbers[order[np.minimum(place, len(order) - 1)]]
    return found
