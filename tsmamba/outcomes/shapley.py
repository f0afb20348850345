"""Exact Shapley values of boosted trees between two readings of the same stays."""

import math
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from tsmamba.outcomes.boosting import Trees

__all__ = ["shapley_values"]


def shapley_values(
    trees: Trees,
    given: np.ndarray,
    usual: np.ndarray,
    owners: Sequence[int],
    n_owners: int,
    weights: np.ndarray,
) -> np.ndarray:
    """Share a difference of two answers out among groups of features.

    The share of a group is what it changes when its features turn from usual to given, averaged
    over all orders in which groups can do so. One reference makes that a closed form for each leaf
    (Lundberg et al. 2020, From local explanations to global understanding with explainable AI for
    trees, interventional values).

    Parameters
    ----------
    trees : Trees
        The model.
    given, usual : ndarray of shape (n, F)
        Summaries, NaN where missing.
    owners : sequence of int, of length F
        Group of each feature.
    n_owners : int
        How many groups there are.
    weights : ndarray of shape (K,)
        Of each output, whose sum is what is explained.

    Returns
    -------
    ndarray of shape (n, groups)
        Shares; over groups they add up to the difference, to rounding.

    Examples
    --------
    >>> from tsmamba.outcomes.boosting import grow_classes
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> trees = grow_classes(X, (X[:, 0] > 0).astype(int), seed=0)
    >>> shares = shapley_values(trees, X, np.zeros_like(X), [0, 1], 2, np.ones(1))
    >>> bool(abs(shares[:, 0]).mean() > 5 * abs(shares[:, 1]).mean())
    True
    """
    owner = np.asarray(owners)
    shares = np.zeros((len(given), n_owners))
    for number, split in enumerate(trees.nodes["feature"]):
        tree = {name: part[number] for name, part in trees.nodes.items()}
        left = np.stack([_goes_left(tree, given), _goes_left(tree, usual)])  # (2, n, nodes)
        weight = weights[number % len(trees.start)]
        for path, value in _leaves(tree, 0, ()):
            groups = sorted({int(owner[split[node]]) for node, _ in path})
            fits = np.ones((2, len(given), len(groups)), bool)
            for node, to_left in path:
                fits[..., groups.index(owner[split[node]])] &= left[..., node] == to_left
            shares[:, groups] += weight * value * _of_leaf(*fits)
    return shares


def _of_leaf(given: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Return the share of each group in reaching a leaf, from which of them fit, (n, groups).

    The leaf is reached when all groups that fit only if given have turned, and none of those
    that fit only if usual.
    """
    possible = (given | usual).all(1, keepdims=True)
    for_it, against = given & ~usual & possible, usual & ~given & possible
    table = _orders(given.shape[1] + 1)
    a, b = for_it.sum(1), against.sum(1)
    shares: np.ndarray = for_it * table[a, b][:, None] - against * table[b, a][:, None]
    return shares


@cache
def _orders(size: int) -> np.ndarray:
    """Return the share of orders in which one of `a` comes last of them and before all of `b`."""
    f = [math.factorial(count) for count in range(2 * size)]
    shares = [[f[a - 1] * f[b] / f[a + b] if a else 0.0 for b in range(size)] for a in range(size)]
    return np.array(shares)


def _goes_left(tree: dict[str, np.ndarray], X: np.ndarray) -> np.ndarray:
    """Say for each row and node whether the row would go left there, (n, nodes)."""
    x = X[:, tree["feature"]]
    left: np.ndarray = np.where(np.isnan(x), tree["missing_left"], x <= tree["threshold"])
    return left


def _leaves(
    tree: dict[str, np.ndarray], node: int, path: tuple[tuple[int, bool], ...]
) -> Iterator[tuple[tuple[tuple[int, bool], ...], float]]:
    """Yield nodes and directions on the way to each leaf, and its value."""
    if tree["leaf"][node]:
        yield path, tree["value"][node]
        return
    yield from _leaves(tree, tree["left"][node], (*path, (node, True)))
    yield from _leaves(tree, tree["right"][node], (*path, (node, False)))
