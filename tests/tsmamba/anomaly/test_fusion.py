import numpy as np
import pytest

from tsmamba.anomaly.fusion import Standard, contributions, joined


def test_scores_are_measured_in_deviations_above_their_means(rng):
    blocks = rng.normal(3, 2, size=(500, 4, 2))
    standard = Standard.of(blocks)
    fused = standard.fuse(standard.mean + 5 * standard.deviation)
    np.testing.assert_allclose(fused, 5)
    np.testing.assert_array_equal(standard.fuse(standard.mean - standard.deviation), 0)


def test_one_block_alone_is_cut_but_not_silent(rng):
    standard = Standard.of(rng.normal(size=(500, 4, 1)))
    lone = standard.mean.copy()
    lone[2] += 1e9
    assert standard.fuse(lone) == pytest.approx(np.sqrt(30**2 / 4))


def test_a_block_that_never_changed_gives_finite_scores():
    standard = Standard.of(np.ones((50, 2, 1)))
    assert np.isfinite(standard.fuse(np.full((3, 2, 1), 7.0))).all()


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 12])
def test_contributions_add_up_to_the_mean_of_the_three_highest(rng, channels):
    fused = rng.exponential(size=(100, channels))
    shares = contributions(fused)
    expected = np.sort(fused, axis=1)[:, -3:].mean(axis=1)
    np.testing.assert_allclose(shares.sum(axis=1), expected)
    assert ((shares > 0).sum(axis=1) == min(3, channels)).all()


def test_contributions_follow_a_permutation_of_channels(rng):
    fused, order = rng.exponential(size=(50, 6)), rng.permutation(6)
    np.testing.assert_array_equal(contributions(fused)[:, order], contributions(fused[:, order]))


def test_joined_parts_add_up_to_the_weighted_root_mean_square(rng):
    parts, joint = contributions(rng.exponential(size=(50, 6))), rng.exponential(size=(50, 6))
    parts[3], parts[4], joint[4] = np.nan, 0, 0
    found = joined(parts, joint)
    own, whole = parts.sum(axis=1), joint.sum(axis=1)
    np.testing.assert_allclose(found.sum(axis=1), np.sqrt((2 * own**2 + whole**2) / 3))
    assert np.isnan(found[3]).all()
    assert not found[4].any()
    assert (found[5:] > 0).all()
