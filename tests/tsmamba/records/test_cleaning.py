import json
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba.records.cleaning import Rules
from tsmamba.records.events import Repairs
from tsmamba.records.ranges import RANGES

RULES = Rules(24.0, frozenset(), frozenset(), frozenset(), frozenset())


@pytest.fixture
def cleaned_rows(read_frame):
    """Return a function from rows of events to those that are left, and what was said."""

    def clean(rows, rules=None):
        names = ["subject_id", "time", "code", "numeric_value"]
        events, _ = read_frame(pl.DataFrame(rows, names, orient="row", strict=False))
        repairs = Repairs()
        found = (rules or Rules.learn(events)).clean(events, repairs)
        return found.rows.rows(), list(repairs.lines())

    return clean


@pytest.mark.parametrize("code", [*RANGES, "anything"])
def test_one_value_is_mended_as_many_are(cleaned_rows, code):
    values = [-1.0, 0.0, *np.geomspace(1e-3, 1e5, 400).round(4)]
    rows, _ = cleaned_rows([(1, number / 100, code, v) for number, v in enumerate(values)], RULES)
    mended = [RULES.mend(code, value) for value in values]
    assert sorted(value for *_, value in rows) == sorted(v for v in mended if v is not None)


@pytest.mark.parametrize(
    ("code", "given", "mended", "line"),
    [
        ("Temp", 98.6, 37.0, "2 × Temp in degrees Fahrenheit (98.6)"),
        ("pH", 73.5, 7.35, "2 × pH in tenths (73.5)"),
        ("pH", 735.0, 7.35, "2 × pH in hundredths (735)"),
        ("FiO2", 40.0, 0.4, "2 × FiO2 in % (40)"),
        ("SaO2", 0.97, 97.0, "2 × SaO2 in a share (0.97)"),
        ("Height", 1.8, 180.0, "2 × Height in m (1.8)"),
        ("Albumin", 35.0, 3.5, "2 × Albumin in g/L (35)"),
    ],
)
def test_values_in_another_unit_are_converted_and_counted(cleaned_rows, code, given, mended, line):
    usual = [(1, time, code, mended) for time in (2.0, 3.0, 4.0)]
    rows, lines = cleaned_rows([(1, 0.0, code, given), (1, 1.0, code, given), *usual])
    assert [value for *_, value in rows] == pytest.approx([mended] * 5)
    assert lines == [line]


def test_a_whole_column_in_fahrenheit_is_one_in_celsius(cleaned_rows):
    rows, _ = cleaned_rows([(1, float(t), "Temp", 98 + t / 10) for t in range(20)])
    assert [value for *_, value in rows] == pytest.approx(
        [(98 + t / 10 - 32) / 1.8 for t in range(20)]
    )


def test_values_outside_their_range_are_set_aside_and_shown(cleaned_rows):
    usual = [(1, float(t), "HR", 80.0) for t in range(5)]
    rows, lines = cleaned_rows([*usual, (1, 9.0, "HR", 900.0), (1, 9.5, "HR", -1.0)])
    assert len(rows) == 5
    assert lines == ["2 × HR outside 5 to 350 1/min (900, -1)"]


def test_a_code_that_is_not_what_its_name_says_is_left_alone(cleaned_rows):
    given = [(1, float(t), "MAP", value) for t, value in enumerate([0.5, 0.7, 1.0, 40.0])]
    rows, lines = cleaned_rows(given)
    assert [value for *_, value in rows] == [0.5, 0.7, 1.0, 40.0]
    assert not lines


@pytest.mark.parametrize("subject", [7, "seven"])
def test_a_code_without_values_says_that_it_happened(cleaned_rows, subject):
    rows, lines = cleaned_rows([(subject, 1.0, "FALL", None), (subject, 2.0, "HR", 80.0)])
    assert rows == [(0, 1.0, "FALL", 1.0), (0, 2.0, "HR", 80.0)]
    assert not lines


def test_a_value_that_others_have_is_missed(cleaned_rows):
    rows, lines = cleaned_rows([(1, 1.0, "HR", None), (1, 2.0, "HR", 80.0)])
    assert rows == [(0, 2.0, "HR", 80.0)]
    assert lines == ["1 × no value (HR None)"]


@pytest.mark.parametrize("gap", [[], [(9, 3.0, "RecordID", None)]])
def test_the_id_of_the_stay_is_not_read(cleaned_rows, gap):
    given = [(i, 0.0, "RecordID", float(i)) for i in (7, 8, 9)]
    rows, _ = cleaned_rows([*given, *gap, (7, 1.0, "HR", 80.0), (8, 1.0, "HR", 8.0)])
    assert [code for _, _, code, _ in rows] == ["HR", "HR"]


def test_impossible_times_are_set_aside_and_counted(cleaned_rows):
    usual = [(i, 24.0, "HR", 80.0) for i in range(98)]
    rows, lines = cleaned_rows(
        [*usual, (0, -0.1, "HR", 81.0), (1, 2400.5, "HR", 82.0), (1, float("inf"), "Temp", 37.0)]
    )
    assert len(rows) == 98
    assert lines == [
        "2 × a time over 100 usual stays after the start (HR 82.0, Temp 37.0)",
        "1 × a time before zero, which is the start of a stay (HR 81.0)",
    ]


def test_codes_that_come_without_a_time_stand_at_the_start(cleaned_rows):
    given = [(1, None, "GENDER//F", None), (1, None, "AGE", 60.0), (1, 2.0, "HR", 80.0)]
    rows, lines = cleaned_rows(given)
    assert rows == [(0, 0.0, "AGE", 60.0), (0, 0.0, "GENDER//F", 1.0), (0, 2.0, "HR", 80.0)]
    assert not lines


def test_a_time_that_others_have_is_missed(cleaned_rows):
    usual = [(1, 2.0, "HR", 80.0), (1, 3.0, "HR", 81.0)]
    rows, lines = cleaned_rows([*usual, (1, None, "HR", 90.0), (1, float("nan"), "HR", 91.0)])
    assert rows == [(0, 2.0, "HR", 80.0), (0, 3.0, "HR", 81.0)]
    assert lines == ["2 × no time (HR 90.0, HR 91.0)"]


def test_an_event_that_comes_twice_counts_once(cleaned_rows):
    given = [
        (1, 1.0, "HR", 80.0),
        (1, 1.0, "HR", 81.0),
        (2, 1.0, "HR", 80.0),
        (1, 1.0, "Temp", 37.0),
    ]
    rows, lines = cleaned_rows([*given, *given[:2], given[0]])
    assert rows == [
        (0, 1.0, "HR", 80.0),
        (0, 1.0, "HR", 81.0),
        (0, 1.0, "Temp", 37.0),
        (1, 1.0, "HR", 80.0),
    ]
    assert lines == ["3 × the same event twice"]  # fmt: skip


def test_the_order_of_rows_does_not_matter(records, read_frame, reader):
    first = records.events.unique("subject_id", maintain_order=True)
    shuffled = pl.concat([first, records.events.sample(fraction=1, shuffle=True, seed=3)])
    (given, _), (mixed, _) = read_frame(records.events), read_frame(shuffled)
    assert given.ids.to_list() == mixed.ids.to_list()
    found, expected = (reader.rules.clean(each, Repairs()).rows for each in (mixed, given))
    assert_frame_equal(found, expected)
    assert Rules.learn(mixed) == Rules.learn(given)


@pytest.mark.parametrize("shift", [timedelta(0), timedelta(days=20_000, minutes=7, microseconds=1)])
def test_a_shift_of_the_clock_changes_nothing(records, read_frame, shift):
    """Charted at quarters of an hour and every 20 minutes, whose hours are no finite fractions."""
    numbers = records.events.with_columns(pl.col("time") * 4 / 3)
    since = pl.duration(microseconds=(pl.col("time") * 3.6e9).round().cast(pl.Int64))
    odd = pl.col("subject_id") % 2 == 1
    start = pl.when(odd).then(pl.lit(datetime(2001, 1, 1))).otherwise(datetime(2001, 1, 1) + shift)
    stamps = numbers.with_columns((start + since).alias("time"))
    found, expected = (read_frame(frame)[0] for frame in (stamps, numbers))
    rules = Rules.learn(expected)
    assert Rules.learn(found) == replace(rules, span=pytest.approx(rules.span, rel=1e-9))
    rows = [rules.clean(events, Repairs()).rows for events in (found, expected)]
    assert_frame_equal(*rows, check_exact=True)


def test_the_usual_stay_is_that_which_most_do_not_exceed(read_frame):
    times = [*map(float, range(100)), float("inf")]
    frame = pl.DataFrame({"subject_id": range(101), "time": times, "code": "a", "numeric_value": 1})
    assert Rules.learn(read_frame(frame)[0]).span == pytest.approx(97, abs=1)
    assert Rules.learn(read_frame(frame.with_columns(time=0.0))[0]).span == 1.0


def test_rules_come_back_from_json():
    rules = Rules(1 / 3, *(frozenset(part) for part in (["a"], ["b", "c"], ["MAP"], ["id"])))
    assert Rules.from_dict(json.loads(json.dumps(rules.to_dict()))) == rules
