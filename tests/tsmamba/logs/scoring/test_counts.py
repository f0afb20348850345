import json
import random

import numpy as np
import pytest

from tsmamba.logs.scoring.counts import NearestCounts


@pytest.fixture
def sessions():
    draw = random.Random(0)
    return [[draw.randrange(6) for _ in range(draw.randrange(1, 12))] for _ in range(200)]


def test_the_distance_is_that_of_the_log_counts_to_the_nearest(sessions):
    seen = NearestCounts()
    for session in sessions[:100]:
        seen.add(session)
    for session in sessions[100:]:
        counts = np.log1p(np.bincount(session, minlength=6))
        others = [np.log1p(np.bincount(other, minlength=6)) for other in sessions[:100]]
        nearest = min(np.abs(counts - other).sum() for other in others)
        assert seen.distance(session) == pytest.approx(nearest, abs=1e-5)
        assert seen.distance(sorted(session)) == seen.distance(session)


def test_what_was_never_seen_is_far_away(sessions):
    seen = NearestCounts()
    assert seen.distance([1, 2]) == 0.0
    seen.add([1, 1, 2])
    assert seen.distance([1, 1, 2, 9]) == pytest.approx(np.log(2.0))


def test_a_renamed_template_counts_as_if_it_had_always_had_that_name(sessions):
    renamed, from_start = NearestCounts(), NearestCounts()
    for session in sessions[:100]:
        renamed.add(session)
        from_start.add([1 if template == 4 else template for template in session])
    renamed.distance([1])
    renamed.rename(4, 1)
    for session in sessions:
        assert renamed.distance(session) == pytest.approx(from_start.distance(session))


def test_the_kinds_are_bounded_and_a_saved_one_goes_on(sessions):
    seen = NearestCounts(max_sessions=50)
    for session in sessions:
        seen.add(session)
    other = NearestCounts.from_dict(json.loads(json.dumps(seen.to_dict())))
    assert len(other.to_dict()["kinds"]) == 50
    assert [other.distance(s) for s in sessions] == [seen.distance(s) for s in sessions]
