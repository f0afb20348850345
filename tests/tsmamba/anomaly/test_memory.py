import numpy as np
import pytest

from tsmamba.anomaly.memory import PatchMemory, evenly


def memory(make_waves, n=300, size=20, offset=0):
    return PatchMemory.of(make_waves(n, 2, seed=offset), width=10, size=size, offset=offset)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (1, 9), (10, 3), (10, 10), (10, 50), (1_000, 17)])
def test_evenly_chosen_numbers_rise_and_hold_both_ends(n, size):
    chosen = evenly(n, size)
    assert chosen[0] == 0
    assert len(chosen) == min(n, size)
    assert size == 1 or chosen[-1] == n - 1
    gaps = np.diff(chosen)
    assert len(gaps) == 0 or 0 < gaps.max() <= gaps.min() + 1


def test_patches_are_the_rows_before_their_ends(make_waves):
    x = make_waves(300, 2)
    found = PatchMemory.of(x, width=10, size=20)
    assert (len(found), found.width, found.ends[0], found.ends[-1]) == (20, 10, 9, 299)
    for patch, end in zip(found.patches.swapaxes(0, 1), found.ends, strict=True):
        np.testing.assert_array_equal(patch, x[end - 9 : end + 1].T.astype(np.float32))
    np.testing.assert_array_equal(found.newest(3), found.patches[..., 7:])


def test_thinned_keeps_patches_of_before_with_the_first_and_the_last(make_waves):
    whole = memory(make_waves)
    thin = whole.thinned(7)
    assert (len(thin), thin.size) == (7, 7)
    assert thin.ends[0] == whole.ends[0]
    assert thin.ends[-1] == whole.ends[-1]
    places = np.searchsorted(whole.ends, thin.ends)
    np.testing.assert_array_equal(thin.ends, whole.ends[places])
    np.testing.assert_array_equal(thin.patches, whole.patches[:, places])
    assert len(whole) == 20


def test_merged_stays_within_the_bound_and_in_order(make_waves):
    first, second = memory(make_waves), memory(make_waves, n=100, size=12, offset=300)
    both = first.merged(second)
    assert (len(both), both.size) == (20, 20)
    assert (np.diff(both.ends) > 0).all()
    assert set(both.ends) <= {*first.ends, *second.ends}
    shares = (both.ends < 300).sum() / 20
    assert shares == pytest.approx(20 / 32, abs=0.05)


def test_merged_keeps_all_where_there_is_room(make_waves):
    first, second = memory(make_waves).thinned(5), memory(make_waves, n=50, size=3, offset=300)
    roomy = PatchMemory(first.patches, first.ends, 8)
    both = roomy.merged(second)
    np.testing.assert_array_equal(both.ends, [*first.ends, *second.ends])
    np.testing.assert_array_equal(both.patches[:, 5:], second.patches)


def test_forgetting_drops_what_ended_before_and_never_all(make_waves):
    whole = memory(make_waves)
    rest = whole.forgetting(150)
    np.testing.assert_array_equal(rest.ends, whole.ends[whole.ends >= 150])
    assert rest.size == whole.size
    assert len(whole.forgetting(0)) == len(whole)
    np.testing.assert_array_equal(whole.forgetting(10**6).ends, whole.ends[-1:])
