from itertools import permutations

import numpy as np
import pytest

from tsmamba.outcomes.boosting import grow_classes
from tsmamba.outcomes.shapley import shapley_values

OWNERS = [0, 0, 1, 2, 2]


def by_definition(trees, given, usual, owners, n_owners, weights):
    """Turn groups from usual to given in every order and average what each changes."""
    shares = np.zeros((len(given), n_owners))
    orders = list(permutations(range(n_owners)))
    for order in orders:
        x = usual.copy()
        before = trees.sums(x) @ weights
        for group in order:
            turned = [feature for feature, owner in enumerate(owners) if owner == group]
            x[:, turned] = given[:, turned]
            after = trees.sums(x) @ weights
            shares[:, group] += (after - before) / len(orders)
            before = after
    return shares


@pytest.fixture
def stays(rng):
    """Return summaries and usual ones, of which some are missing."""
    given = rng.normal(size=(300, len(OWNERS)))
    given[rng.random(given.shape) < 0.2] = np.nan
    usual = np.where(np.isnan(given), np.nan, 0.1)
    usual[:20, 1] = np.nan
    return given, usual


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_are_the_shapley_values_of_groups(stays, rng, n_classes):
    given, usual = stays
    truth = np.nan_to_num(given[:, 0] * given[:, 2] + given[:, 3]) + rng.normal(size=300) / 3
    y = np.digitize(truth, np.quantile(truth, np.arange(1, n_classes) / n_classes))
    trees = grow_classes(given, y, seed=0)
    weights = rng.normal(size=len(trees.start))
    shares = shapley_values(trees, given[:20], usual[:20], OWNERS, 3, weights)
    expected = by_definition(trees, given[:20], usual[:20], OWNERS, 3, weights)
    assert abs(expected).max() > 0.1
    np.testing.assert_allclose(shares, expected, rtol=0, atol=1e-12)


def test_groups_without_a_feature_have_no_share(stays):
    given, usual = stays
    trees = grow_classes(given, (np.nan_to_num(given[:, 2]) > 0).astype(int), seed=0)
    shares = shapley_values(trees, given, usual, [4, 4, 2, 0, 0], 6, np.ones(1))
    assert not shares[:, [1, 3, 5]].any()
    assert shares[:, 2].any()


def test_a_summary_that_no_stay_has_is_no_obstacle_and_has_no_share(stays):
    given, usual = stays
    given[:, 2] = usual[:, 2] = np.nan
    trees = grow_classes(given, (np.nan_to_num(given[:, 0]) > 0).astype(int), seed=0)
    shares = shapley_values(trees, given, usual, OWNERS, 3, np.ones(1))
    assert not shares[:, 1].any()
    np.testing.assert_allclose(
        shares.sum(1), (trees.sums(given) - trees.sums(usual))[:, 0], rtol=0, atol=1e-12
    )
