import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from tsmamba.outcomes.boosting import _arrays, grow_classes


def table(rng, n=300, n_classes=2):
    """Return features, some missing, and classes that depend on them and on what is missing."""
    X = rng.normal(size=(n, 6))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [0.0, 1.0][: n_classes - 1])
    X[:, 3] = np.round(X[:, 3])
    X[rng.random(X.shape) < 0.3] = np.nan
    X[y == 1, 4] = np.where(rng.random((y == 1).sum()) < 0.7, np.nan, X[y == 1, 4])
    return X, y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_log_odds_are_those_of_scikit_learn(rng, n_classes):
    X, y = table(rng, n_classes=n_classes)
    booster = HistGradientBoostingClassifier(
        max_iter=40, min_samples_leaf=5, early_stopping=False, random_state=0
    ).fit(X, y)
    new, _ = table(rng)
    new[:3] = np.nan
    new[3:5] = [[1e9], [-1e9]]
    expected = booster.decision_function(new).reshape(len(new), -1)
    found = _arrays(booster).sums(new)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.ptp(found, 0).min() > 0.5


@pytest.fixture(scope="module")
def grown():
    """Return features, classes and trees grown on them."""
    X, y = table(np.random.default_rng(0), n=120)
    return X, y, grow_classes(X, y, seed=0)


def test_trees_of_unequal_size_are_padded(grown):
    *_, trees = grown
    assert len({int((~leaf).sum()) for leaf in trees.nodes["leaf"]}) > 1
    assert all(part.shape == trees.nodes["leaf"].shape for part in trees.nodes.values())


def test_trees_tell_classes_apart_and_repeat(grown):
    X, y, trees = grown
    log_odds = trees.sums(X)
    assert ((log_odds[:, 0] > 0) == y).mean() > 0.8
    again, other = (grow_classes(X, y, seed=seed).sums(X) for seed in (0, 1))
    np.testing.assert_array_equal(log_odds, again)
    assert not np.array_equal(log_odds, other)


def test_trees_tell_three_classes_apart(rng):
    X, y = table(rng, n=120, n_classes=3)
    assert (grow_classes(X, y, seed=0).sums(X).argmax(1) == y).mean() > 0.8


def test_rows_are_answered_alone(grown):
    X, _, trees = grown
    np.testing.assert_array_equal(trees.sums(X[::-1])[::-1], trees.sums(X))
    np.testing.assert_array_equal(trees.sums(X[5:6]), trees.sums(X)[5:6])
    assert trees.sums(X[:0]).shape == (0, 1)


@pytest.mark.parametrize("n", [4, 9])
def test_few_rows_are_enough(n):
    y = np.arange(n) % 2
    assert np.isfinite(grow_classes(y[:, None] + 0.0, y, seed=0).sums(np.ones((1, 1)))).all()
