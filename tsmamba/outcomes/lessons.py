"""What a fit learns from: stays, whole or cut at moments, and the target of each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from tsmamba.records.reader import Stays

__all__ = ["Lessons", "draw"]


@dataclass(frozen=True)
class Lessons:
    """Stays, whole or cut at moments, and the target of each.

    Parameters
    ----------
    stays : Stays
        None is empty.
    targets : ndarray of shape (n,)
        Classes from 0 on, or numbers.
    weights : ndarray of shape (n,)
        How many labels each stands for, in means.
    subjects : int ndarray of shape (n,)
        Whose they are; those of one subject are never in two folds.
    cut : bool
        Whether labels hold at moments, not for the stay as a whole.
    """

    stays: Stays
    targets: np.ndarray
    weights: np.ndarray
    subjects: np.ndarray
    cut: bool

    def folds(self, count: int, strata: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield numbers of those inside and outside each fold, by torch's seed.

        Parameters
        ----------
        count : int
            How many folds.
        strata : int ndarray of shape (n,)
            What each fold has an equal share of.

        Yields
        ------
        tuple of int ndarray
            Inside and outside.
        """
        seed = int(torch.randint(2**31, ()))
        kind = StratifiedGroupKFold if self.cut else StratifiedKFold
        groups = self.subjects if self.cut else None
        splitter = kind(count, shuffle=True, random_state=seed)
        yield from splitter.split(np.zeros((len(strata), 1)), strata, groups)


def draw(strata: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw labels to learn from, of each stratum as many as there are or an equal share.

    Parameters
    ----------
    strata : int ndarray of shape (n,)
        From 0 on, such as classes; none is empty.
    size : int
        How many are drawn at most.

    Returns
    -------
    which : int ndarray of shape (m,)
        Their numbers, ascending; drawn by torch's seed.
    weights : ndarray of shape (m,)
        How many of the labels each stands for, 1 on average. Weighted means over what was drawn
        are, on average, means over all.

    Examples
    --------
    >>> which, weights = draw(np.array([0, 0, 0, 0, 0, 0, 1, 1]), 4)
    >>> which[2:].tolist(), weights.tolist()
    ([6, 7], [1.5, 1.5, 0.5, 0.5])
    """
    if size >= len(strata):
        return np.arange(len(strata)), np.ones(len(strata))
    counts = np.bincount(strata)
    taken = np.zeros_like(counts)
    for done, kind in enumerate(np.argsort(counts)):
        share = (size - taken.sum()) // (len(counts) - done)
        taken[kind] = min(counts[kind], share)
    parts = []
    for kind, count in enumerate(taken):
        there = np.flatnonzero(strata == kind)
        parts.append(there[torch.randperm(len(there))[:count].numpy()])
    which = np.sort(np.concatenate(parts))
    weights = (counts / np.maximum(taken, 1))[strata[which]]
    return which, weights / weights.mean()
