import numpy as np
import pytest

from tsmamba.anomaly.pace import Pace


def test_rows_without_gaps_are_numbered_one_by_one():
    times = np.arange(0, 700, 7)
    assert Pace.of(times, stamps=False).step == 7
    np.testing.assert_array_equal(Pace.of(times, stamps=False).places(times), np.arange(100))


def test_rows_left_out_keep_their_places():
    times = np.delete(np.arange(0, 500, 5), [3, 4, 50])
    np.testing.assert_array_equal(Pace.of(times, stamps=False).places(times), times // 5)


def test_jitter_and_equal_times_give_no_two_rows_one_place(rng):
    times = np.sort(1_000 * np.arange(50) + rng.integers(-200, 200, 50))
    np.testing.assert_array_equal(Pace.of(times, stamps=True).places(times), np.arange(50))
    same = np.array([0, 10, 10, 20])
    assert (np.diff(Pace.of(same, stamps=False).places(same)) > 0).all()


def test_only_stamps_know_days():
    minute = 60 * 10**6
    times = np.arange(5) * minute
    assert Pace.of(times, stamps=True).steps_per_day == pytest.approx(1_440)
    assert Pace.of(times, stamps=False).steps_per_day is None
    assert Pace.of(times[:1], stamps=False).step == 1
