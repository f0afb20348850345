import numpy as np
import pytest

from tsmamba.anomaly.ranks import Ranks


def p_value(past, value, two_sided):
    """Return the share of values as far out, the value itself among them."""
    above, below = np.sum(past >= value) + 1, np.sum(past <= value) + 1
    return min(1.0, (2 * min(above, below) if two_sided else above) / (len(past) + 1))


@pytest.mark.parametrize("two_sided", [False, True])
def test_a_surprise_is_the_rank_among_the_values_before(rng, two_sided):
    values = np.round(rng.normal(size=400), 1).astype(np.float32)
    ranks = Ranks(150)
    for i, value in enumerate(values):
        p = p_value(values[max(0, i - 150) : i], value, two_sided)
        assert ranks.surprise(float(value), two_sided) == pytest.approx(-np.log10(p), abs=1e-12)
    np.testing.assert_array_equal(ranks.values(), values[-150:])


def test_one_made_of_the_values_of_another_goes_on_as_that(rng):
    values = rng.normal(size=(2, 130))
    one = Ranks(100)
    for value in values[0]:
        one.surprise(value)
    other = Ranks(100, one.values())
    for value in values[1]:
        assert one.surprise(value) == other.surprise(value)
    np.testing.assert_array_equal(one.values(), other.values())


def test_what_single_precision_cannot_tell_apart_is_equal():
    ranks = Ranks(10, [0.1] * 9)
    assert ranks.surprise(0.1 + 1e-12) == 0.0
