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
    times = np.sort(1_000 * np.arange(900) + rng.integers(-300, 300, 900))
    assert np.diff(times).max() > 1_500
    np.testing.assert_array_equal(Pace.of(times, stamps=True).places(times), np.arange(900))
    same = np.array([0, 10, 10, 20])
    assert (np.diff(Pace.of(same, stamps=False).places(same)) > 0).all()


def test_a_step_that_is_slightly_off_makes_no_gap_however_long_the_series():
    times = 1_004 * np.arange(5_000)
    np.testing.assert_array_equal(Pace(1_000, stamps=True).places(times), np.arange(5_000))


def test_a_gap_has_at_least_one_and_a_half_steps(rng):
    pace = Pace(100, stamps=False)
    steps = rng.integers(0, 150, 2_000)
    assert (pace.rows(steps)[0] == 1).all()
    assert (pace.rows(rng.integers(200, 900, 2_000))[0] > 1).all()


def test_rows_in_parts_are_the_rows_in_one(rng):
    pace, steps = Pace(100, stamps=False), rng.integers(0, 400, 300)
    steps[:100] = 100  # counted without a clock
    whole, late = pace.rows(steps)
    parts, after = [], 0.0
    for part in np.split(steps, [1, 40, 180]):
        rows, after = pace.rows(part, after)
        parts.append(rows)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert after == late


def test_rows_one_by_one_are_the_rows_in_one(rng):
    pace, steps = Pace(100, stamps=False), rng.integers(0, 400, 300)
    late, found = 0.0, []
    for step in steps.tolist():
        rows, late = pace.next(step, late, 3)
        found.append(rows)
    expected, after = pace.rows(steps, most=3)
    assert (found, late) == (expected.tolist(), after)
    assert max(found) == 3


def test_only_stamps_know_days():
    minute = 60 * 10**6
    times = np.arange(5) * minute
    assert Pace.of(times, stamps=True).steps_per_day == pytest.approx(1_440)
    assert Pace.of(times, stamps=False).steps_per_day is None
    assert Pace.of(times[:1], stamps=False).step == 1
