"""Boosted trees, grown by scikit-learn and kept as plain arrays."""

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

__all__ = ["Trees", "grow_classes", "grow_numbers"]

# scikit-learn's own file of a model is a pickle. A tree is six arrays, and to walk down it is a
# dozen lines; so a saved classifier needs neither a pickle nor the same version of scikit-learn.
_FIELDS = ("feature", "threshold", "missing_left", "left", "right", "leaf", "value")


class Trees:
    """Boosted trees of one or more outputs.

    Parameters
    ----------
    nodes : dict of str to ndarray of shape (trees, nodes)
        ``feature``, ``threshold``, ``missing_left``, ``left``, ``right``, ``leaf``, ``value``.
    start : ndarray of shape (K,)
        What the trees add to; tree ``i`` adds to output ``i % K``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> trees = grow_classes(X, (X[:, 0] > 0).astype(int), seed=0)
    >>> bool((trees.sums(X)[:, 0] > 0).mean() > 0.4)
    True
    """

    def __init__(self, nodes: dict[str, np.ndarray], start: np.ndarray) -> None:
        self.nodes = nodes
        self.start = start

    def sums(self, X: np.ndarray) -> np.ndarray:
        """Return the sums of the leaves, shape (n, K).

        Parameters
        ----------
        X : ndarray of shape (n, F)
            NaN where missing.

        Returns
        -------
        ndarray of shape (n, K)
            Of classes log odds; for two of them K is 1, the odds of the second.
        """
        sums = np.tile(self.start, (len(X), 1))
        rows = np.arange(len(X))
        for tree in range(len(self.nodes["leaf"])):
            feature, threshold, missing_left, left, right, leaf, value = (
                self.nodes[name][tree] for name in _FIELDS
            )
            at = np.zeros(len(X), np.int64)
            while not leaf[at].all():
                x = X[rows, feature[at]]
                down = np.where(np.isnan(x), missing_left[at], x <= threshold[at])
                at = np.where(leaf[at], at, np.where(down, left[at], right[at]))
            sums[:, tree % len(self.start)] += value[at]
        return sums


def grow_classes(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, *, seed: int
) -> Trees:
    """Grow trees with the settings that did best on records of intensive care.

    Parameters
    ----------
    X : ndarray of shape (n, F)
        Summaries, NaN where missing.
    y : int ndarray of shape (n,)
        Classes from 0 on.
    weights : ndarray of shape (n,), optional
        How much each row counts.
    seed : int
        Of the choice of features at each split.

    Returns
    -------
    Trees
        Of log odds.
    """
    return _grown(HistGradientBoostingClassifier, X, y, weights, seed, max_features=0.1)


def grow_numbers(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, *, seed: int
) -> Trees:
    """Grow trees of numbers, whose squared error they reduce.

    Parameters
    ----------
    X, weights, seed
        As in `grow_classes`.
    y : ndarray of shape (n,)
        Numbers.

    Returns
    -------
    Trees
        With one output.
    """
    # A number often hangs on few features, such as the last value of the same code.
    return _grown(HistGradientBoostingRegressor, X, y, weights, seed, max_features=0.3)


def _grown(
    kind: type, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, seed: int, **own: Any
) -> Trees:
    # scikit-learn refuses a column without any value; a constant one is never split.
    X = np.where(np.isnan(X).all(0), 0.0, X)
    booster = kind(
        learning_rate=0.03,
        max_iter=300,
        max_leaf_nodes=8,
        min_samples_leaf=min(30, max(1, len(X) // 20)),
        l2_regularization=10.0,
        early_stopping=False,
        random_state=seed,
        **own,
    ).fit(X, y, weights)
    return _arrays(booster)


def _arrays(booster: Any) -> Trees:
    grown = [tree.nodes for step in booster._predictors for tree in step]
    longest = max(len(nodes) for nodes in grown)

    def padded(name: str, kind: type, rest: float) -> np.ndarray:
        out: np.ndarray = np.full((len(grown), longest), rest, kind)
        for number, nodes in enumerate(grown):
            out[number, : len(nodes)] = nodes[name]
        return out

    nodes = {
        "feature": padded("feature_idx", np.int64, 0),
        "threshold": padded("num_threshold", np.float64, 0.0),
        "missing_left": padded("missing_go_to_left", bool, False),
        "left": padded("left", np.int64, 0),
        "right": padded("right", np.int64, 0),
        "leaf": padded("is_leaf", bool, True),
        "value": padded("value", np.float64, 0.0),
    }
    start = np.asarray(booster._baseline_prediction, np.float64).reshape(-1)
    return Trees(nodes, start)
