import numpy as np
import pytest

from tsmamba.anomaly.trail import Trail


def nearest(values, width):
    """Return the distance of the last patch to those that do not overlap it, one by one."""
    past = np.lib.stride_tricks.sliding_window_view(values[:-width], width)
    return np.sqrt(np.square(past - values[-width:]).sum(axis=1).min())


@pytest.mark.parametrize("level", [0.0, 1e4])
def test_novelty_is_the_distance_to_the_nearest_earlier_patch(rng, level):
    values, trail = level + rng.normal(size=230), Trail(50, width=4)
    for i, value in enumerate(values, start=1):
        trail.append(value)
        kept = values[max(0, i - 50) : i]
        assert len(trail) == len(kept)
        np.testing.assert_array_equal(trail.newest(10), kept[-10:])
        if i < 8:
            assert trail.novelty() is None
        else:
            assert trail.novelty() == pytest.approx(nearest(kept, 4), rel=1e-6)


def test_what_came_before_is_not_new(rng):
    values, trail = rng.normal(size=20), Trail(50, width=4)
    for value in [*values, *values]:
        trail.append(value)
    assert trail.novelty() == 0.0


def test_a_restored_trail_goes_on_bit_for_bit(rng):
    values, one = rng.normal(size=(2, 80)), Trail(50, width=4)
    for value in values[0]:
        one.append(value)
    other = Trail.restored(one.array(), width=4)
    for value in values[1]:
        one.append(value)
        other.append(value)
        assert one.novelty() == other.novelty()
    np.testing.assert_array_equal(one.array(), other.array())
    assert np.isnan(Trail(5, width=2).array()).all()
