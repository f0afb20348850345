from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
import torch

from tsmamba.data.clock import Clock
from tsmamba.data.panel import read_panel

DAY, WEEK, YEAR = 86_400.0, 604_800.0, 31_556_952.0


def clock_of(start, every, length, *, zone=None, **kwargs):
    if every.endswith("mo"):
        ds = pl.date_range(start, start.replace(year=start.year + 50), every, eager=True)
    else:
        end = start + timedelta(days=40_000)
        ds = pl.datetime_range(start, end, every, eager=True, time_zone=zone)
    frame = pl.DataFrame({"ds": ds.head(length)}).with_columns(y=pl.int_range(pl.len()) % 7)
    return Clock.of(read_panel(frame), **kwargs)


def features(clock, *steps):
    return clock.features(torch.tensor([0]), torch.tensor([steps]))[0]


def periods(clock):
    return [period for period, _ in clock.cycles]


@pytest.mark.parametrize(
    ("every", "length", "expected"),
    [
        ("1h", 47, []),
        ("1h", 48, [DAY]),
        ("1h", 24 * 14 - 1, [DAY]),
        ("1h", 24 * 14, [DAY, WEEK]),
        ("1h", 24 * 731, [DAY, WEEK, YEAR]),
        ("12h", 28, [DAY, WEEK]),
        ("18h", 100, [WEEK]),
        ("1d", 13, []),
        ("1d", 14, [WEEK]),
        ("1d", 731, [WEEK, YEAR]),
        ("1w", 105, [YEAR]),
        ("1mo", 23, []),
        ("1mo", 24, [YEAR]),
    ],
)
def test_only_cycles_that_the_data_have_seen_twice_are_used(every, length, expected):
    start = date(2020, 1, 1) if every == "1mo" else datetime(2020, 1, 1)
    assert periods(clock_of(start, every, length)) == expected


def test_integer_stamps_have_no_calendar():
    clock = Clock.of(read_panel(pl.DataFrame({"ds": range(5000), "y": range(5000)})))
    assert clock.width == 0
    assert features(clock, 0, 1).shape == (2, 0)


def test_the_cycles_of_a_model_may_be_fixed():
    assert clock_of(datetime(2024, 1, 1), "1h", 5, cycles=((DAY, 2),)).width == 4
    assert clock_of(datetime(2024, 1, 1), "1h", 5000, cycles=()).width == 0


@pytest.mark.parametrize("hour", [0, 6, 23])
def test_hours_have_the_phase_of_the_day(hour):
    clock = clock_of(datetime(2024, 1, 1, hour), "1h", 48)
    got = features(clock, 0, 1, 24, 6)
    for row, shown in zip(got, (hour, hour + 1, hour, hour + 6), strict=True):
        angle = 2 * np.pi * shown / 24
        expected = [np.sin(angle), np.sin(2 * angle), np.cos(angle), np.cos(2 * angle)]
        np.testing.assert_allclose(row, expected, atol=1e-6)


def test_days_have_the_phase_of_the_week():
    monday, tuesday = (clock_of(datetime(2024, 1, day), "1d", 20) for day in (1, 2))
    assert torch.equal(features(monday, 1, 8), features(tuesday, 0, 7))
    torch.testing.assert_close(features(monday, 0), features(monday, 7))
    distinct = {tuple(row.tolist()) for row in features(monday, *range(7)).round(decimals=4)}
    assert len(distinct) == 7


def test_months_have_the_phase_of_the_year():
    clock = clock_of(date(2020, 1, 1), "1mo", 60)
    torch.testing.assert_close(features(clock, 3), features(clock, 15), atol=1e-4, rtol=0)
    assert (features(clock, 0) - features(clock, 6)).abs().max() > 0.5


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_zones_are_read_on_the_wall_clock(zone):
    plain = clock_of(datetime(2024, 1, 1, 9), "1h", 400)
    zoned = clock_of(datetime(2024, 1, 1, 9), "1h", 400, zone=zone)
    assert torch.equal(features(plain, 0, 5, 30), features(zoned, 0, 5, 30))


def test_each_series_has_its_own_start():
    starts = [datetime(2024, 1, 1), datetime(2024, 1, 1, 5)]
    frame = pl.concat(
        pl.DataFrame(
            {"ds": pl.datetime_range(start, start + timedelta(hours=47), "1h", eager=True)}
        ).with_columns(unique_id=pl.lit(str(number)), y=pl.int_range(pl.len()))
        for number, start in enumerate(starts)
    )
    clock = Clock.of(read_panel(frame))
    both = clock.features(torch.tensor([0, 1, 0]), torch.tensor([[5], [0], [0]]))
    assert torch.equal(both[0], both[1])
    assert not torch.equal(both[1], both[2])


def test_steps_may_lie_before_the_start_and_beyond_the_end():
    clock = clock_of(datetime(2024, 1, 1), "1h", 48)
    torch.testing.assert_close(features(clock, -24, 480), features(clock, 0, 0))


def test_the_phase_keeps_its_digits_after_millions_of_steps():
    clock = clock_of(datetime(2024, 1, 1), "1m", 3000)
    years = 20 * 365 * 1440
    torch.testing.assert_close(features(clock, years + 7), features(clock, 7), atol=1e-5, rtol=0)
