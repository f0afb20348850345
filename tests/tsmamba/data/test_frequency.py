import json
import re
from datetime import date, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from tsmamba.data.frequency import Frequency
from tsmamba.data.infer import infer_frequency
from tsmamba.errors import FrequencyError, ParameterError

ONE = np.array([0])


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("60m", "1h"),
        ("24h", "24h"),
        ("90s", "90s"),
        ("1000us", "1ms"),
        ("7d", "1w"),
        ("2w", "2w"),
        ("12mo", "1y"),
        ("3mo", "1q"),
        ("2q", "6mo"),
        ("4q", "1y"),
        (3, 3),
        (np.int32(3), 3),
    ],
)
def test_a_written_frequency_takes_its_shortest_form(written, canonical):
    assert Frequency.of(written).every == canonical
    assert Frequency.of(Frequency.of(written)) == Frequency.of(written)


@pytest.mark.parametrize(
    ("written", "fragment"),
    [
        ("D", "write '1d'"),
        ("MS", "write '1mo'"),
        ("h", "write '1h'"),
        ("1 hour", r"give a number and a unit out of ns, us, ms, s, m, h, d, w, mo, q, y"),
        ("0h", "is not a frequency"),
        ("1h30m", "is not a frequency"),
        (0, "freq=0 is not a step"),
        (1.5, "freq=1.5 is not a frequency"),
        (True, "freq=True is not a frequency"),
    ],
)
def test_what_is_no_frequency_is_refused(written, fragment):
    with pytest.raises(ParameterError, match=fragment):
        Frequency.of(written)


@pytest.mark.parametrize(
    "every", ["1ns", "5us", "250ms", "1s", "15m", "1h", "6h", "1d", "2d", "1w", "1mo", "1q", "1y"]
)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "Australia/Lord_Howe"])
def test_polars_offsets_are_recognised_and_continued(every, zone):
    count, unit = re.fullmatch(r"(\d+)(\w+)", every).groups()
    start = pl.Series("ds", [datetime(2023, 1, 2, 3, 30)], dtype=pl.Datetime("ns"))
    start = start.dt.replace_time_zone(zone)
    full = pl.concat([start.dt.offset_by(f"{int(count) * k}{unit}") for k in range(40)])
    past, coming = full[:30], full[30:]
    found = infer_frequency(past, ONE)
    assert found.every == every
    assert_series_equal(found.future(past[-1:], len(coming)), coming)
    assert found.steps_between(past[:1], full[-1:]).to_list() == [39]
    assert_series_equal(found.shift(coming, -len(coming)), full[20:30])


@pytest.mark.parametrize("every", ["1d", "3d", "1w", "1mo", "1q", "1y"])
def test_dates_are_recognised_and_continued(every):
    full = pl.date_range(date(2020, 1, 6), date(2060, 1, 1), every, eager=True).alias("ds")[:36]
    found = infer_frequency(full[:30], ONE)
    assert found.every == every
    assert_series_equal(found.future(full[29:30], 6), full[30:])


@pytest.mark.parametrize(("every", "months"), [("1mo", 1), ("1q", 3), ("1y", 12)])
def test_month_ends_stay_month_ends(every, months):
    full = pl.date_range(date(2020, 1, 1), date(2060, 1, 1), f"{months}mo", eager=True)
    full = full[:20].dt.month_end().alias("ds")
    found = infer_frequency(full[:14], ONE)
    assert found == Frequency(every, month_end=True)
    assert_series_equal(found.future(full[13:14], 6), full[14:])
    zoned = full.cast(pl.Datetime("ms")).dt.replace_time_zone("America/New_York")
    assert_series_equal(infer_frequency(zoned[:14], ONE).future(zoned[13:14], 6), zoned[14:])


def test_days_run_on_the_wall_clock_and_24_hours_do_not():
    days = pl.datetime_range(
        datetime(2024, 3, 28), datetime(2024, 4, 4), "1d", time_zone="Europe/Berlin", eager=True
    )
    assert infer_frequency(days, ONE).every == "1d"
    hours = pl.datetime_range(
        datetime(2024, 3, 28), datetime(2024, 4, 4), "24h", time_zone="Europe/Berlin", eager=True
    )
    assert hours[-1].hour == 1
    assert infer_frequency(hours, ONE).every == "24h"


def test_a_skipped_midnight_is_still_a_day():
    zone = "America/Santiago"
    wall = pl.datetime_range(datetime(2024, 9, 5), datetime(2024, 9, 12), "1d", eager=True)
    wall = wall.set(wall == datetime(2024, 9, 8), datetime(2024, 9, 8, 1))
    days = wall.dt.replace_time_zone(zone).alias("ds")
    found = infer_frequency(days, ONE)
    assert found.every == "1d"
    assert found.steps_between(days[:-1], days[1:]).to_list() == [1] * 7
    assert_series_equal(found.future(days[:1], 7), days[1:])


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Kolkata"])
def test_unit_zone_and_name_are_kept(unit, zone):
    series = pl.Series("when", [datetime(2024, 1, 31)]).cast(pl.Datetime(unit))
    series = series.dt.replace_time_zone(zone)
    for every in ("1h", "1d", "1mo"):
        coming = Frequency(every).future(series, 2)
        assert coming.dtype == pl.Datetime(unit, zone)
        assert coming.name == "when"


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
)
def test_integers_keep_their_type(dtype):
    series = pl.Series("ds", [3, 5, 7, 11], dtype=dtype)
    found = infer_frequency(series, ONE)
    assert found == Frequency(2)
    assert_series_equal(found.future(series[-1:], 2), pl.Series("ds", [13, 15], dtype=dtype))


def test_an_integer_type_that_is_full_is_refused():
    with pytest.raises(FrequencyError, match="type UInt8 in column 'ds' cannot hold 256; cast"):
        Frequency(1).future(pl.Series("ds", [254], dtype=pl.UInt8), 2)


def test_the_most_common_step_wins_and_the_smallest_of_equals():
    assert infer_frequency(pl.Series([0, 1, 2, 5]), ONE).every == 1
    assert infer_frequency(pl.Series([0, 1, 3]), ONE).every == 1
    two = infer_frequency(pl.Series([0, 2, 100, 102, 105]), np.array([0, 2]))
    assert two.every == 2


def test_stray_stamps_do_not_hide_calendar_months():
    months = pl.date_range(date(2020, 1, 1), date(2022, 1, 1), "1mo", eager=True).to_list()
    months[5] = date(2020, 6, 2)
    assert infer_frequency(pl.Series(months), ONE).every == "1mo"


def test_four_weeks_are_no_month():
    weeks = pl.date_range(date(2024, 1, 3), date(2025, 1, 3), "4w", eager=True)
    assert infer_frequency(weeks, ONE).every == "4w"


def test_single_stamps_have_no_frequency():
    with pytest.raises(
        FrequencyError, match=r"no series has two stamps in column 'ds'.*pass freq="
    ):
        infer_frequency(pl.Series("ds", [1, 2]), np.array([0, 1]))


@pytest.mark.parametrize(
    ("every", "dtype", "fragment"),
    [
        ("1h", pl.Int64(), r"freq='1h' does not fit integer stamps \(Int64\); pass .* freq=1"),
        (1, pl.Date(), r"freq=1 does not fit temporal stamps \(Date\); pass .* freq='1h'"),
        ("1h", pl.Date(), r"freq='1h' is finer than the stamps \(Date\) can tell"),
        ("5us", pl.Datetime("ms"), "freq='5us' is finer than the stamps"),
    ],
)
def test_a_frequency_of_another_kind_is_refused(every, dtype, fragment):
    with pytest.raises(FrequencyError, match=fragment):
        Frequency(every).step_length(dtype)


@pytest.mark.parametrize(
    ("every", "seconds"),
    [("15m", 900.0), ("1d", 86400.0), ("1w", 604800.0), ("1y", 31556952.0), ("1ns", 1e-9)],
)
def test_nominal_seconds(every, seconds):
    assert Frequency(every).seconds == pytest.approx(seconds)


def test_integer_steps_have_no_seconds():
    assert Frequency(1).seconds is None


@pytest.mark.parametrize(
    "freq",
    [
        Frequency(3),
        Frequency("1h"),
        Frequency("1mo", month_end=True),
        Frequency("1234us", uneven=True),
    ],
)
def test_json_round_trip(freq):
    assert Frequency.from_dict(json.loads(json.dumps(freq.to_dict()))) == freq


@pytest.mark.parametrize("fields", [{}, None, {"every": "x", "month_end": False, "uneven": False}])
def test_damaged_json_is_refused(fields):
    with pytest.raises(ParameterError):
        Frequency.from_dict(fields)


@settings(deadline=None)
@given(
    st.sampled_from(["1s", "7m", "1h", "1d", "1w", "1mo", "1q", "1y"]),
    st.sampled_from([None, "Europe/Berlin", "America/Santiago", "Asia/Kathmandu"]),
    st.datetimes(datetime(1980, 1, 1), datetime(2050, 1, 1)),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_shifts_add_up_and_are_counted(every, zone, start, one, two):
    # Below the 29th and away from the hours at which clocks change, every shift can be undone.
    start = start.replace(day=min(start.day, 28), hour=12, minute=0, second=0, microsecond=0)
    series = pl.Series("ds", [start]).dt.replace_time_zone(zone)
    freq = Frequency(every)
    there = freq.shift(series, one)
    assert_series_equal(freq.shift(there, two), freq.shift(series, one + two))
    assert_series_equal(freq.shift(there, -one), series)
    assert freq.steps_between(series, there).to_list() == [one]
