from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba.errors import FrameError
from tsmamba.records import moments as module
from tsmamba.records.events import EventColumns, Events, Repairs, read_events
from tsmamba.records.moments import Moments, prefixes, read_moments

NAMES = EventColumns("subject_id", "time", "code", "numeric_value")


@pytest.fixture(scope="module")
def asked(cleaned):
    """Return moments in no order, some at the time of an event and some before any."""
    rng = np.random.default_rng(0)
    stay = rng.integers(len(cleaned.ids), size=200)
    time = np.where(rng.random(200) < 0.5, rng.integers(0, 100, 200) / 4, rng.uniform(0, 25, 200))
    time[:3] = 0.0, np.inf, 1e-9
    return Moments(stay, time)


def cut(events, asked):
    """Return the events of each moment, from a filter for each."""
    return [
        events.rows.filter((pl.col("stay") == stay) & (pl.col("time") <= time)).drop("stay")
        for stay, time in zip(asked.stay, asked.time, strict=True)
    ]


@pytest.mark.parametrize("most", [1, 100, 1_000_000])
def test_each_moment_has_the_events_up_to_and_with_its_time(cleaned, asked, monkeypatch, most):
    monkeypatch.setattr(module, "_MOST", most)
    found = list(prefixes(cleaned, asked))
    assert (len(found) == 1) == (most == 1_000_000)
    ids = pl.concat([part.ids for part in found])
    assert ids.to_list() == cleaned.ids.gather(asked.stay).to_list()
    each = [
        part.rows.filter(pl.col("stay") == number).drop("stay")
        for part in found
        for number in range(len(part.ids))
    ]
    for one, expected in zip(each, cut(cleaned, asked), strict=True):
        assert_frame_equal(one, expected)


def test_the_ends_are_the_stays_themselves(cleaned):
    (whole,) = prefixes(cleaned, Moments.ends(cleaned))
    assert_frame_equal(whole.rows, cleaned.rows)
    assert whole.ids.to_list() == cleaned.ids.to_list()
    assert not Moments.ends(cleaned).cut


def test_of_no_moments_there_are_no_prefixes(cleaned):
    none = np.zeros(0, int)
    assert list(prefixes(cleaned, Moments(none, none.astype(float)))) == []


def test_memory_is_bounded_by_chunks(cleaned, asked, monkeypatch):
    monkeypatch.setattr(module, "_MOST", 100)
    longest = cleaned.rows.group_by("stay").len()["len"].max()
    assert max(len(part.rows) for part in prefixes(cleaned, asked)) <= 100 + longest


def test_measured_by_a_moment_is_what_its_prefix_holds(reader, cleaned, asked):
    found = reader.measured(cleaned, asked)
    (parts,) = prefixes(cleaned, asked)
    assert 0 < found.sum() < len(found)
    np.testing.assert_array_equal(found, reader.measured(parts))


def test_what_is_known_at_moments_does_not_depend_on_chunks(reader, cleaned, asked, monkeypatch):
    (whole,) = reader.stays_at(cleaned, asked, summaries=True)
    monkeypatch.setattr(module, "_MOST", 100)
    joined = type(whole).joined(reader.stays_at(cleaned, asked, summaries=True))
    np.testing.assert_array_equal(joined.summaries, whole.summaries)
    for name, part in vars(whole.tokens).items():
        np.testing.assert_array_equal(getattr(joined.tokens, name), part)


# How frames of times are read


def read(at, times=(0.0, 2.0, 1.0), ids=(7, 7, 9), starts=(0.0, 0.0)):
    frame = pl.DataFrame({"subject_id": ids, "time": times, "code": "HR", "numeric_value": 80.0})
    given = read_events(frame, NAMES, Repairs())
    return read_moments(at, given, pl.Series(starts), NAMES, frame.schema["time"])


def at(ids, times, **types):
    return pl.DataFrame({"subject_id": ids, "time": times}, schema_overrides=types, strict=False)


def test_rows_are_read_in_their_order():
    frame, found = read(at([9, 7, 9], [5, 1, 0]))
    assert frame["subject_id"].to_list() == [9, 7, 9]
    assert found.stay.tolist() == [1, 0, 1]
    assert found.time.tolist() == [5.0, 1.0, 0.0]
    assert found.cut


def test_stamps_count_from_the_start_of_their_stay():
    start = datetime(2030, 1, 1)
    stamps = [start + timedelta(hours=hour) for hour in (0, 2, 1)]
    hours = pl.Series(stamps[::2]).dt.epoch("us") / 3.6e9
    _, found = read(at([9, 7], stamps[1:2] * 2), times=stamps, starts=hours)
    assert found.time.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (at([7], [0.0]).drop("time"), "frame of times has no column 'time', but 'subject_id'; re"),
        (at([7], [0.0]).drop("subject_id"), "no column 'subject_id'.*id_col=, time_col="),
        (at([7, 8, 5], [1.0] * 3), "2 of 3 rows are of stays without events: 8 at 1.0, 5 at 1.0;"),
        (at([None, 7], [1.0] * 2), "1 of 2 rows are of stays without events: None at 1.0; leave"),
        (at([7, 9, 9], [1.0, None, np.nan]), "2 of 3 rows have no time: 9 at None, 9 at nan; drop"),
        (at([7], [None]), "1 of 1 rows have no time"),
        (at([7, 9], [-1.0, 0.0]), "1 of 2 rows are before the start of their stay, which is zero"),
        (at([7], ["noon"]), "column 'time' is of type String; pass stamps"),
        (at(["a"], [1.0]), "ids are of type Int64 in the events and String in the frame of"),
        (at([7], [timedelta(hours=1)]), "numbers in the events and durations in the frame of ti"),
        (at([7], [datetime(2030, 1, 1)]), "numbers in the events and stamps in the frame"),
        ([7, 1.0], "expected a polars DataFrame"),
    ],
    ids=range(12),
)
def test_frames_of_times_that_cannot_be_used_are_refused(frame, message):
    with pytest.raises(FrameError, match=message):
        read(frame)


def test_stamps_before_the_first_event_or_of_another_zone_are_refused():
    stamps = [datetime(2030, 1, 1, hour) for hour in (1, 2, 3)]
    starts = (pl.Series(stamps).dt.epoch("us") / 3.6e9)[[0, 2]]
    with pytest.raises(FrameError, match="which is its first event: 7 at 2030-01-01 00:00:00; ask"):
        read(at([7], [datetime(2030, 1, 1)]), times=stamps, starts=starts)
    zoned = at([7], stamps[:1]).with_columns(pl.col("time").dt.replace_time_zone("UTC"))
    with pytest.raises(FrameError, match="stamps in the events and stamps with a time zone in"):
        read(zoned, times=stamps, starts=starts)


def test_a_stay_that_no_time_is_known_of_stands_at_its_start():
    rows = pl.DataFrame({"stay": pl.Series([0], dtype=pl.UInt32), "time": [None], "code": ["Age"]})
    given = Events(pl.Series([7]), rows.with_columns(value=50.0), from_zero=False)
    start = pl.Series([None], dtype=pl.Float64)
    stamps = at([7], [datetime(2030, 1, 1)])
    _, found = read_moments(stamps, given, start, NAMES, pl.Datetime("us"))
    assert found.time.tolist() == [0.0]
