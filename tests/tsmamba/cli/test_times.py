import datetime as dt

import polars as pl
import pytest

from tsmamba.cli.times import parse_times, require_times
from tsmamba.errors import FrameError

NOON = dt.datetime(2024, 1, 31, 12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", NOON.date()),
        ("2024/01/31", NOON.date()),
        ("31.01.2024", NOON.date()),
        ("31/01/2024", NOON.date()),
        ("01/31/2024", NOON.date()),
        ("20240131", NOON.date()),
        ("2024-02", dt.date(2024, 2, 1)),
        ("2024-01-31 12:00", NOON),
        ("2024-01-31T12:00:00", NOON),
        (" 2024-01-31T12:00:00.000000 ", NOON),
        ("31.01.2024 12:00", NOON),
        ("1/31/2024 12:00:00 PM", NOON),
        ("2024-01-31T12:00Z", NOON.replace(tzinfo=dt.UTC)),
        ("2024-01-31 12:00:00 UTC", NOON.replace(tzinfo=dt.UTC)),
        ("2024-01-31 14:00:00+02:00", NOON.replace(tzinfo=dt.UTC)),
        ("2024-01-31 14:00:00+0200", NOON.replace(tzinfo=dt.UTC)),
    ],
)
def test_clear_formats_are_read(text: str, expected) -> None:
    assert require_times(pl.Series([text, None])).to_list() == [expected, None]


def test_fractions_of_a_second_may_be_absent_from_some() -> None:
    times = require_times(pl.Series(["2024-01-31 12:00:00", "2024-01-31 12:00:00.25"]))
    assert times.to_list() == [NOON, NOON + dt.timedelta(milliseconds=250)]


def test_one_late_value_decides_between_day_and_month() -> None:
    text = pl.Series(["01/02/2024"] * 500 + ["13/02/2024"])
    assert require_times(text)[0] == dt.date(2024, 2, 1)


def test_a_date_that_can_be_read_two_ways_is_refused() -> None:
    with pytest.raises(FrameError) as caught:
        parse_times(pl.Series("when", ["01/02/2024", "03/04/2024"]))
    assert str(caught.value) == (
        "column 'when' can be read in 2 ways: '01/02/2024' fits %d/%m/%Y and %m/%d/%Y; write dates "
        "in the ISO form, such as 2024-03-31"
    )


@pytest.mark.parametrize("text", ["pump", "1.5", "31.01.24", "2024-13-01", "12:00", "2024-W05"])
def test_other_text_is_no_time(text: str) -> None:
    assert parse_times(pl.Series([text])) is None


def test_the_refusal_shows_the_value_that_does_not_fit() -> None:
    text = pl.Series("when", ["2024-01-31"] * 300 + ["unknown"])
    with pytest.raises(FrameError) as caught:
        require_times(text)
    message = str(caught.value)
    assert message.startswith(
        "time column 'when' holds text that is no time stamp, such as 'unknown'; "
    )
    assert "2024-03-31 17:05:00" in message
