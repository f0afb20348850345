import json
import random

import pytest

from tsmamba.logs.scoring.gaps import Gaps, Silence

SECOND = 10**9
DAY = 86_400 * SECOND
LIMIT = 20.0


def restored(part):
    return type(part).from_dict(json.loads(json.dumps(part.to_dict())))


@pytest.fixture
def gaps():
    gaps, draw = Gaps(), random.Random(0)
    for _ in range(500):
        gaps.score(1, 2, draw.lognormvariate(0.0, 0.3))
    return gaps


def test_a_step_that_takes_too_long_is_found_and_a_usual_one_is_not(gaps):
    draw = random.Random(1)
    usual = [gaps.score(1, 2, draw.lognormvariate(0.0, 0.3)) for _ in range(500)]
    assert max(usual) < LIMIT
    assert gaps.score(1, 2, 60.0) > LIMIT
    # Once only: the next one is judged by what was usual before.
    assert gaps.score(1, 2, 1.0) < 1.0
    assert gaps.score(1, 2, 60.0) > LIMIT


def test_short_times_cost_nothing(gaps):
    assert gaps.score(1, 2, 0.0) == 0.0
    assert gaps.score(1, 2, 1e-9) == 0.0


def test_a_new_pair_is_silent():
    gaps = Gaps()
    assert all(gaps.score(1, 2, seconds) == 0.0 for seconds in [1.0] * 19 + [1e6])
    assert gaps.score(2, 1, 1e9) == 0.0


def test_a_leap_of_days_is_told_once_and_learned_no_further(gaps):
    assert gaps.score(1, 2, 5 * 86_400.0) > LIMIT
    assert gaps.score(1, 2, 1.0) < 1.0


def test_pairs_of_a_renamed_template_begin_anew(gaps):
    gaps.score(3, 4, 1.0)
    gaps.rename(2, 7)
    assert gaps.score(1, 2, 1e6) == 0.0
    assert len(gaps.to_dict()["pairs"]) == 2
    gaps.rename(4, 4)
    assert len(gaps.to_dict()["pairs"]) == 2


def test_the_pairs_are_bounded():
    gaps = Gaps(max_pairs=10)
    for i in range(1_000):
        gaps.score(1, 2, 1.0)
        gaps.score(i, i, 1.0)
    assert len(gaps.to_dict()["pairs"]) == 10
    assert gaps.score(1, 2, 60.0) > LIMIT


def test_saved_gaps_go_on_as_if_nothing_had_happened(gaps):
    other, draw = restored(gaps), random.Random(2)
    for _ in range(500):
        seconds = draw.lognormvariate(0.0, 0.5)
        before = draw.choice((1, 3))
        assert other.score(before, 2, seconds) == gaps.score(before, 2, seconds)
    assert other.to_dict() == gaps.to_dict()


def beating(period=10, count=100, start=0, **options):
    """Return what saw a line every `period` seconds, and the time of the last one."""
    silence = Silence(**options)
    for i in range(count):
        silence.beat("web", 7, start + i * period * SECOND)
        assert silence.overdue(start + i * period * SECOND, LIMIT) == []
    return silence, start + (count - 1) * period * SECOND


def test_a_regular_line_that_does_not_come_is_told_once():
    silence, last = beating()
    told = [late for s in range(1, 600) for late in silence.overdue(last + s * SECOND, LIMIT)]
    (late,) = told
    assert (late.stream, late.template) == ("web", 7)
    assert late.cost > LIMIT
    assert 20 < late.seconds < 60
    assert late.usual == pytest.approx(10.0)
    # When it comes after all, that was told already; then it can be missed again.
    assert silence.beat("web", 7, last + 700 * SECOND) == 0.0
    assert silence.beat("web", 7, last + 710 * SECOND) < 1.0
    for s in range(720, 900, 10):
        silence.beat("web", 7, last + s * SECOND)
    assert len(silence.overdue(last + 2_000 * SECOND, LIMIT)) == 1


def test_a_line_that_comes_too_late_costs_if_nobody_asked_before():
    silence, last = beating()
    assert silence.beat("web", 7, last + 300 * SECOND) > LIMIT


def test_an_irregular_line_is_never_missed():
    silence, draw, now = Silence(), random.Random(0), 0
    for _ in range(500):
        now += int(draw.lognormvariate(3.0, 1.5) * SECOND)
        silence.beat("web", 7, now)
        assert silence.overdue(now, LIMIT) == []
    assert silence.overdue(now + 30 * DAY, LIMIT) == []


def test_a_new_line_is_not_missed():
    silence, last = beating(count=20)
    assert silence.overdue(last + DAY, LIMIT) == []


def test_streams_are_missed_by_themselves():
    silence = Silence()
    for i in range(100):
        for stream in ("a", "b"):
            silence.beat(stream, 7, i * 10 * SECOND)
    for i in range(100, 150):
        silence.beat("a", 7, i * 10 * SECOND)
    assert [late.stream for late in silence.overdue(1_490 * SECOND, LIMIT)] == ["b"]


def test_a_clock_that_is_set_back_is_no_silence():
    silence, last = beating(start=DAY)
    for i in range(2_000):
        now = last - DAY + i * 10 * SECOND
        assert silence.beat("web", 7, now) < 1.0
        assert silence.overdue(now, LIMIT) == []
    # When the time comes that was there before, the line is as regular as ever.
    for i in range(200):
        assert silence.beat("web", 7, last + i * 10 * SECOND) < LIMIT or i == 0
    assert len(silence.overdue(last + DAY, LIMIT)) == 1


def test_lines_that_are_a_little_out_of_order_change_nothing():
    silence, last = beating()
    for i in range(1, 200):
        late = 5 if i % 2 else 0
        assert silence.beat("web", 7, last + (10 * i - late) * SECOND) < LIMIT
    silence.beat("web", 7, last + 900 * SECOND)
    assert silence.beat("web", 7, last + 2_000 * SECOND) < LIMIT


def test_a_clock_that_leaps_by_days_is_told_once():
    silence, last = beating()
    assert len(silence.overdue(last + 3 * DAY, LIMIT)) == 1
    for i in range(100):
        now = last + 3 * DAY + i * 10 * SECOND
        assert silence.beat("web", 7, now) < 1.0
        assert silence.overdue(now, LIMIT) == []


def test_times_can_be_moved():
    silence, last = beating()
    silence.shift(30 * DAY)
    assert silence.overdue(last + 30 * DAY + 10 * SECOND, LIMIT) == []
    assert silence.beat("web", 7, last + 30 * DAY + 10 * SECOND) < 1.0
    assert len(silence.overdue(last + 31 * DAY, LIMIT)) == 1


def test_a_renamed_template_is_not_missed():
    silence, last = beating()
    silence.rename(7, 7)
    assert len(silence.overdue(last + 60 * SECOND, LIMIT)) == 1
    silence, last = beating()
    silence.rename(7, 8)
    assert silence.overdue(last + DAY, LIMIT) == []


def test_beats_and_their_queue_are_bounded():
    silence = Silence(max_beats=10)
    now = 0
    for i in range(1_000):
        for _ in range(25):
            now += SECOND
            silence.beat("web", i, now)
        state = silence.to_dict()
        assert len(state["beats"]) <= 10
        assert len(silence._queue) <= 40
    # Only those that are still known can be missed.
    told = [late.template for late in silence.overdue(now + DAY, LIMIT)]
    assert sorted(told) == list(range(990, 1_000))


@pytest.mark.parametrize("seed", range(5))
def test_a_saved_silence_goes_on_as_if_nothing_had_happened(seed):
    draw = random.Random(seed)
    silence, now = Silence(max_beats=6), 0
    other = restored(silence)
    for turn in range(3_000):
        if turn % 300 == 299:
            other = restored(silence)
            assert other.to_dict() == silence.to_dict()
        now += draw.choice((1, 1, 1, 1, 2, 3)) * SECOND + (turn % 701 == 0) * 400 * SECOND
        key = turn % 5 if draw.random() < 0.95 else draw.randrange(12)
        assert other.beat("web", key, now) == silence.beat("web", key, now)
        assert other.overdue(now, LIMIT) == silence.overdue(now, LIMIT)
        if turn % 500 == 0:
            other.rename(turn % 5, 99)
            silence.rename(turn % 5, 99)
