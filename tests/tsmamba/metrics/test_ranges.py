import numpy as np
import pytest

from tsmamba.metrics.ranges import ranges_of, touched


@pytest.mark.parametrize(
    ("marks", "starts", "ends"),
    [
        ("0110", [1], [2]),
        ("1001", [0, 3], [0, 3]),
        ("1111", [0], [3]),
        ("0000", [], []),
        ("", [], []),
        ("10101", [0, 2, 4], [0, 2, 4]),
    ],
)
def test_runs_are_given_by_first_and_last_step(marks, starts, ends):
    ranges = ranges_of(np.array([mark == "1" for mark in marks], dtype=bool))
    assert ranges.starts.tolist() == starts
    assert ranges.ends.tolist() == ends


def test_a_range_is_touched_by_any_mark_inside(rng):
    marks, others = rng.random(300) < 0.3, rng.random(300) < 0.2
    ranges = ranges_of(marks)
    expected = [
        others[start : end + 1].any() for start, end in zip(ranges.starts, ranges.ends, strict=True)
    ]
    assert touched(ranges, others).tolist() == expected
    assert 0 < sum(expected) < len(expected)
