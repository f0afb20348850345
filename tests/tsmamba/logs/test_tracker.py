import json

import pytest

from tsmamba.logs.record import Line
from tsmamba.logs.tracker import Tracker

SECOND = 10**9
DAY = 86_400 * SECOND


class Log:
    """Adds lines to a tracker, one a second unless told otherwise."""

    def __init__(self, tracker):
        self.tracker = tracker
        self.number = 0

    def add(self, name, template=0, time=None, seconds=None):
        self.number += 1
        line = Line("app.log", "f1", self.number, self.number * 10, self.number * 10 + 10, b"")
        time = time if seconds is None else int(seconds * SECOND)
        return [session.name for session in self.tracker.add(name, template, line, time)]


def restored(tracker):
    return Tracker.from_dict(json.loads(json.dumps(tracker.to_dict())))


def test_a_session_is_over_when_no_line_came_for_long_enough():
    log = Log(Tracker(timeout=60.0))
    assert log.add("a", 1, seconds=0) == []
    assert log.add("b", 2, seconds=30) == []
    assert log.add("b", 3, seconds=60) == []
    assert log.add("b", 4, seconds=60.5) == ["a"]
    assert log.add("c", 5, seconds=1_000) == ["b"]
    (last,) = log.tracker.close()
    assert (last.name, last.templates, last.line_no, last.origin) == ("c", [5], 5, "f1:50")
    assert last.time == 1_000 * SECOND
    assert len(log.tracker) == 0


def test_those_that_are_over_at_once_come_in_the_order_of_their_last_lines():
    log = Log(Tracker(timeout=60.0))
    for name in ("a", "b", "c", "a"):
        log.add(name, seconds=log.number)
    assert log.add("d", seconds=500) == ["b", "c", "a"]
    for name in ("z", "y"):
        log.add(name, seconds=500)
    assert [session.name for session in log.tracker.close()] == ["d", "z", "y"]


def test_the_same_name_again_is_another_session():
    log = Log(Tracker(timeout=60.0))
    log.add("a", 1, seconds=0)
    assert log.add("a", 2, seconds=100) == ["a"]
    (last,) = log.tracker.close()
    assert last.templates == [2]


def test_without_a_timeout_or_times_it_waits_for_the_end():
    for timeout, seconds in ((None, 1e6), (60.0, None)):
        log = Log(Tracker(timeout=timeout))
        log.add("a", seconds=0 if seconds else None)
        assert log.add("b", seconds=seconds) == []
        assert [session.name for session in log.tracker.close()] == ["a", "b"]


def test_lines_without_a_time_come_with_the_time_before():
    log = Log(Tracker(timeout=60.0))
    log.add("a")
    log.add("b", seconds=100)
    log.add("c")
    assert log.add("d", seconds=165) == ["a", "b", "c"]


def test_too_many_lines_or_sessions_end_one():
    log = Log(Tracker(timeout=None, max_events=3, max_sessions=2))
    assert [log.add("a"), log.add("a"), log.add("a")] == [[], [], ["a"]]
    assert log.add("b") + log.add("c") + log.add("b") == []
    assert log.add("d") == ["c"]
    assert len(log.tracker) == 2


def test_a_clock_that_goes_back_a_little_changes_nothing():
    log = Log(Tracker(timeout=60.0))
    log.add("a", seconds=100)
    log.add("b", seconds=30)
    assert log.add("c", seconds=130) == []
    assert log.add("c", seconds=170) == ["a", "b"]


def test_a_wrong_stamp_does_not_keep_sessions_open_for_ever():
    log = Log(Tracker(timeout=60.0))
    log.add("a", seconds=0)
    assert log.add("wrong", time=30_000 * DAY) == ["a"]
    log.add("b", seconds=10)
    assert log.add("c", seconds=100) == ["wrong", "b"]
    assert log.add("d", seconds=200) == ["c"]


def test_a_renamed_template_is_renamed_in_sessions_under_way():
    log = Log(Tracker(timeout=None))
    log.add("a", 1)
    log.add("a", 2)
    log.tracker.rename(2, 1)
    (session,) = log.tracker.close()
    assert session.templates == [1, 1]


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_saved_one_goes_on_as_if_nothing_had_happened(cut):
    lines = [(f"s{i * 7 % 5}", i % 4, (i + (i % 9 == 0) * 50) * SECOND) for i in range(100)]
    log = Log(Tracker(timeout=8.0, max_events=5, max_sessions=3))
    for name, template, time in lines[:cut]:
        log.add(name, template, time)
    other = Log(restored(log.tracker))
    other.number = log.number
    for name, template, time in lines[cut:]:
        assert other.add(name, template, time) == log.add(name, template, time)
    assert other.tracker.to_dict() == log.tracker.to_dict()
    assert other.tracker.close() == log.tracker.close()


def test_what_was_saved_is_a_copy():
    log = Log(Tracker(timeout=None))
    log.add("a", 1)
    state = log.tracker.to_dict()
    before = json.dumps(state)
    for tracker in (log.tracker, Tracker.from_dict(state)):
        Log(tracker).add("a", 2)
    assert json.dumps(state) == before


def test_gaps_are_kept_where_they_are_asked_for_and_times_are_known():
    log = Log(Tracker(timeout=60.0, keep_gaps=True))
    log.add("a", 1, seconds=0)
    log.add("b", 1)
    for template, seconds in ((2, 1.2344), (3, 1.0)):
        log.add("a", template, seconds=seconds)
    log.tracker = restored(log.tracker)
    log.add("a", 4)
    log.add("a", 5, seconds=3)
    log.add("b", 2, seconds=3)
    log.add("b", 3, seconds=4.5)
    a, b = log.tracker.close()
    assert a.gaps == [-1.0, 1.234, 0.0, -1.0, -1.0]
    assert b.gaps == [-1.0, -1.0, 1.5]
    assert [len(s.gaps) for s in (a, b)] == [len(s.templates) for s in (a, b)]
    without = Log(Tracker(timeout=60.0))
    without.add("a", 1, seconds=0)
    assert without.tracker.close()[0].gaps == []
