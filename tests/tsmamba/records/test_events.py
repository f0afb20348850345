import warnings
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba.errors import FrameError, FrameWarning
from tsmamba.records.events import Repairs, read_time, read_times, tell, write_times

NOON = datetime(2024, 3, 1, 12)


def long(**columns):
    """Return a frame of two events of one stay, with other columns where given."""
    frame = {
        "subject_id": [7, 7],
        "time": [0.0, 1.5],
        "code": ["HR", "Temp"],
        "numeric_value": [80.0, 37.0],
    }
    return pl.DataFrame({**frame, **columns}, strict=False)


def test_events_are_numbered_by_the_first_event_of_each_stay(read_frame):
    events, repairs = read_frame(long(subject_id=["b", "a"]))
    assert events.ids.to_list() == ["b", "a"]
    assert events.rows.rows() == [(0, 0.0, "HR", 80.0), (1, 1.5, "Temp", 37.0)]
    assert not repairs.counts


def test_a_wide_frame_is_the_long_one(records, read_frame):
    wide = records.events.pivot(
        "code", index=["subject_id", "time"], values="numeric_value", sort_columns=True
    )
    (found, _), (expected, _) = read_frame(wide), read_frame(records.events)
    assert found.ids.to_list() == expected.ids.to_list()
    by = ["stay", "time", "code", "value"]
    assert_frame_equal(found.rows.sort(by), expected.rows.sort(by))


@pytest.mark.parametrize(
    "kind",
    [
        lambda frame: frame.lazy(),
        lambda frame: frame.to_arrow(),
        lambda frame: pd.DataFrame({name: frame[name].to_list() for name in frame.columns}),
    ],
    ids=["lazy", "arrow", "pandas"],
)
def test_every_kind_of_frame_is_read_alike(records, read_frame, kind):
    found, expected = read_frame(kind(records.events))[0], read_frame(records.events)[0]
    assert_frame_equal(found.rows, expected.rows)


@pytest.mark.parametrize(
    ("times", "hours", "from_zero"),
    [
        (pl.Series([0, 3]), [0, 3], True),
        (pl.Series([0, 3], dtype=pl.UInt8), [0, 3], True),
        (pl.Series(["0.5", "1.25"]).cast(pl.Decimal(6, 2)), [0.5, 1.25], True),
        (pl.Series([timedelta(0), timedelta(minutes=20)]), [0, 1 / 3], True),
        (pl.Series([timedelta(0), timedelta(hours=2)], dtype=pl.Duration("ms")), [0, 2], True),
        (pl.Series([NOON, NOON + timedelta(hours=2)]), [0, 2], False),
        (pl.Series([NOON, NOON + timedelta(hours=2)], dtype=pl.Datetime("ns")), [0, 2], False),
        (pl.Series([NOON] * 2).dt.replace_time_zone("Asia/Kolkata"), [0, 0], False),
        (pl.Series([date(2024, 3, 1), date(2024, 3, 2)]), [0, 24], False),
        (pl.Series([datetime(1900, 1, 1), datetime(9999, 12, 31)]), [0, 2_958_463 * 24], False),
        (pl.Series([None, None]), [None, None], True),
    ],
    ids=str,
)  # fmt: skip
def test_times_are_hours_or_numbers_as_they_are(read_frame, times, hours, from_zero):
    events, _ = read_frame(long(time=times))
    first = 0 if from_zero else events.rows["time"][0]
    found = [None if time is None else time - first for time in events.rows["time"]]
    assert found == hours
    assert events.from_zero == from_zero


@pytest.mark.parametrize(
    "time", [0, 2.5, timedelta(minutes=7), NOON, date(2024, 3, 1), np.float32(0.5), np.int64(3)]
)
def test_one_time_is_read_as_a_column_of_them(read_frame, time):
    events, _ = read_frame(long(time=[time] * 2))
    assert read_time(time) == (events.rows["time"][0], events.from_zero)


@pytest.mark.parametrize("time", [None, float("nan"), float("inf"), -float("inf")])
def test_what_is_no_time_is_refused(time):
    with pytest.raises(FrameError, match="is not a time; pass a stamp, a duration or a finite"):
        read_time(time)


def test_a_text_is_no_time():
    with pytest.raises(FrameError, match=r"is of type String; pass stamps, durations or numbers"):
        read_time("noon")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_events_of_nobody_are_counted(read_frame, missing):
    events, repairs = read_frame(long(subject_id=[missing, 7.0]))
    assert events.ids.to_list() == [7.0]
    assert repairs.counts == {"nothing in 'subject_id'": 1}


@pytest.mark.parametrize(
    "codes",
    [
        pl.Series(["HR", "Temp"], dtype=pl.Categorical),
        pl.Series(["HR", "Temp"], dtype=pl.Enum(["Temp", "HR"])),
        pl.Series([220045, 223761]),
    ],
    ids=["categorical", "enum", "integer"],
)
def test_codes_become_text(read_frame, codes):
    events, _ = read_frame(long(code=codes))
    assert events.rows["code"].to_list() == [str(code) for code in codes]


@pytest.mark.parametrize("code", [None, ""])
def test_events_without_a_code_are_counted(read_frame, code):
    events, repairs = read_frame(long(code=["HR", code]))
    assert events.rows["code"].to_list() == ["HR"]
    assert repairs.counts == {"nothing in 'code'": 1}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pl.Series([1, 2]), [1.0, 2.0]),
        (pl.Series([True, False]), [1.0, 0.0]),
        (pl.Series([Decimal("1.5"), Decimal(2)]), [1.5, 2.0]),
        (pl.Series(["1.5", " 2e1 "]), [1.5, 20.0]),
        (pl.Series([float("nan"), 2.0]), [None, 2.0]),
        (pl.Series(["NaN", None]), [None, None]),
        (pl.Series([None, None]), [None, None]),
    ],
    ids=str,
)
def test_values_become_numbers(read_frame, values, expected):
    events, repairs = read_frame(long(numeric_value=values))
    assert events.rows["value"].to_list() == expected
    assert not repairs.counts


def test_text_in_place_of_a_number_is_counted_and_shown(read_frame):
    events, repairs = read_frame(long(numeric_value=["80", "<0.5"]))
    assert events.rows["value"].to_list() == [80.0]
    assert list(repairs.lines()) == ["1 × text in place of a number (Temp <0.5)"]


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e39])
def test_infinite_values_are_counted(read_frame, value):
    events, repairs = read_frame(long(numeric_value=[80.0, value]))
    assert events.rows["value"].to_list() == [80.0]
    assert repairs.counts == {"an infinite value": 1}


def test_numbers_among_text_of_pandas_are_refused_with_the_column(read_frame):
    frame = pd.DataFrame(
        {"subject_id": [1, 1], "time": [0, 1], "code": ["a", "b"], "numeric_value": [80.0, "error"]}
    )
    with pytest.raises(FrameError, match="column 'numeric_value' of dtype object cannot be read"):
        read_frame(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (long().drop("subject_id"), "the frame has no column 'subject_id', but 'time', 'code'"),
        (long().drop("time"), "no column 'time'.*name it: id_col=, time_col="),
        (long().drop("numeric_value"), "no values in 'numeric_value'; name their column"),
        (long().clear(), "the frame has no rows; pass at least one event"),
        (long(time=["noon", "one"]), r"column 'time' is of type String; .*str.to_datetime"),
        (long(numeric_value=[[1.0], [2.0]]), r"'numeric_value' is of type List.*pass numbers"),
        (long(numeric_value=[NOON, NOON]), "column 'numeric_value' is of type Datetime"),
        (
            pl.DataFrame({"subject_id": [1], "time": [0], "ward": ["icu"]}),
            "column 'ward' is of type String; turn it into numbers or drop it.*'code'",
        ),
        ([1, 2], "expected a polars DataFrame"),
    ],
    ids=range(9),
)  # fmt: skip
def test_frames_that_cannot_be_read_are_refused(read_frame, frame, message):
    with pytest.raises(FrameError, match=message):
        read_frame(frame)


@pytest.mark.parametrize("code", ["stay", "value", "id", "number", "numeric_value"])
def test_a_code_of_a_wide_frame_may_have_any_name(read_frame, code):
    events, _ = read_frame(pl.DataFrame({"subject_id": [1], "time": [2], code: [3]}))
    assert events.rows.rows() == [(0, 2.0, code, 3.0)]


def test_a_code_may_be_called_time_where_the_time_is_not(read_frame):
    frame = pl.DataFrame({"subject_id": [1], "charttime": [2], "time": [3]})
    events, _ = read_frame(frame, time_col="charttime")
    assert events.rows.rows() == [(0, 2.0, "time", 3.0)]


@pytest.mark.parametrize("name", ["stay", "id", "code", "value", "stay_id"])
def test_the_column_of_ids_may_have_any_name(read_frame, name):
    wide = pl.DataFrame({name: [5, 5], "time": [0, 1], "HR": [80, None]})
    events, _ = read_frame(wide, id_col=name)
    assert (events.ids.to_list(), events.rows.rows()) == ([5], [(0, 0.0, "HR", 80.0)])


def test_labels_in_a_wide_frame_are_no_code(read_frame):
    wide = pl.DataFrame({"subject_id": [5], "time": [0], "HR": [80], "label": [1]})
    assert read_frame(wide, label_col="label")[0].rows["code"].to_list() == ["HR"]


def test_a_wide_frame_without_codes_has_stays_without_events(read_frame):
    events, _ = read_frame(pl.DataFrame({"subject_id": [5], "time": [0]}))
    assert (len(events.ids), len(events.rows)) == (1, 0)


def test_stays_can_be_chosen(records, read_frame):
    events, _ = read_frame(records.events)
    keep = np.arange(len(events.ids)) % 3 == 0
    ids = events.ids.filter(pl.Series(keep))
    expected, _ = read_frame(records.events.filter(pl.col("subject_id").is_in(ids.implode())))
    found = events.only(keep)
    assert found.ids.to_list() == expected.ids.to_list()
    assert_frame_equal(found.rows, expected.rows)


def test_what_is_told_of_repairs_is_bounded_and_leaves_no_row_out():
    repairs = Repairs()
    for number in range(30):
        repairs.note(f"thing {number}", number, "example")
    lines = list(repairs.lines())
    assert lines[0] == "29 × thing 29 (example)"
    assert len(lines) == 9
    assert sum(int(line.split()[0]) for line in lines) == sum(range(30))
    assert "thing 0" not in repairs.counts


def test_long_texts_are_cut(read_frame):
    _, repairs = read_frame(long(numeric_value=["80", "note " * 1_000]))
    [line] = repairs.lines()
    assert len(line) < 100


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("time", [0.5, None, 2.25]),
        pl.Series("time", [timedelta(hours=1), None, timedelta(microseconds=7)]),
        pl.Series("time", [NOON, None, NOON + timedelta(microseconds=7)]),
        pl.Series("time", [NOON, None, NOON]).dt.replace_time_zone("Europe/Berlin"),
        pl.Series("time", [NOON.date(), None, NOON.date()]),
    ],
    ids=["numbers", "durations", "stamps", "zoned", "dates"],
)
def test_times_are_written_as_they_were_read(column):
    written = write_times(read_times(column).fill_null(np.nan).to_numpy(), column.dtype)
    assert written.is_null().to_list() == [False, True, False]
    assert read_times(written).to_list() == read_times(column).to_list()
    if column.dtype != pl.Date:
        assert written.dtype == column.dtype


def test_all_that_was_mended_is_told_at_once():
    repairs = Repairs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell(repairs, stacklevel=1)
    repairs.note("no time", 2)
    repairs.note("no value", 1, "HR None")
    with pytest.warns(FrameWarning) as told:
        tell(repairs, stacklevel=1)
    message = "events were mended or set aside: 2 × no time; 1 × no value (HR None)"
    assert [str(each.message) for each in told] == [message]
    assert told[0].filename == __file__


def test_what_is_grave_is_told_first_and_not_among_the_rest():
    repairs = Repairs()
    for number in range(20):
        repairs.note(f"kind {number}", 100)
    repairs.note("no answer", 1, "p7", grave=True)
    first, *_, last = repairs.lines()
    assert first == "1 × no answer (p7)"
    assert last.endswith("other things")
