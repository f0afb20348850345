import numpy as np
import pytest

from tsmamba.anomaly.memory import PatchMemory, evenly


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
