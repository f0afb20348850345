"""Times, ids and missing values in the forms that people send."""

from datetime import date, datetime, timedelta, timezone

import polars as pl
import pytest

from tsmamba.errors import FrameError
from tsmamba.serving.rows import tidy, without_zone

NOON = datetime(2024, 3, 31, 12)
STAMPS = pl.Datetime("us")


def times(values, like=STAMPS):
    rows = tidy(pl.DataFrame({"ds": pl.Series(values)}), "unique_id", "ds", like)
    return rows["ds"].to_list()


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-31T12:00:00",
        "2024-03-31 12:00",
        "2024-03-31T12:00:00.000",
        "2024-03-31T12:00:00Z",
        "2024-03-31T14:00:00+02:00",
        "2024-03-31T14:00:00+0200",
        "20240331T120000",
        " 2024-03-31T12:00 ",
    ],
)
def test_iso_text_is_read_and_offsets_are_brought_to_utc(text):
    assert times([text, None]) == [NOON, None]


def test_forms_of_iso_text_may_differ_from_row_to_row():
    assert times(["2024-03-31", "2024-03-31T12:00"]) == [datetime(2024, 3, 31), NOON]
    assert times(["2024-03-31T12:00Z", "2024-03-31T14:00+02:00"]) == [NOON, NOON]


def test_dates_and_stamps_of_any_unit_and_zone_are_one():
    zoned = NOON.replace(tzinfo=timezone(timedelta(hours=-3)))
    assert times([date(2024, 3, 31)]) == [datetime(2024, 3, 31)]
    assert times([date(2024, 3, 31)], like=pl.Date()) == [date(2024, 3, 31)]
    assert times([zoned]) == [NOON + timedelta(hours=3)]
    for unit in ("ms", "us", "ns"):
        assert times(pl.Series([NOON]).cast(pl.Datetime(unit))) == [NOON]


def test_times_are_brought_to_the_zone_of_the_model():
    berlin = pl.Datetime("us", "Europe/Berlin")
    rows = tidy(pl.DataFrame({"ds": ["2024-03-31T12:00Z"]}), "unique_id", "ds", berlin)
    assert rows["ds"].dtype == berlin
    assert rows["ds"].dt.hour().item() == 14
    assert without_zone(rows)["ds"].item() == NOON


def test_whole_numbers_are_times_of_a_model_of_steps():
    assert times([3, 4], like=pl.Int64()) == [3, 4]
    assert times([3.0, None], like=pl.Int64()) == [3, None]


@pytest.mark.parametrize("values", [[1.5], ["3"], [NOON]])
def test_a_model_of_steps_refuses_other_times(values):
    with pytest.raises(
        FrameError, match=r"'ds' is of type .* was fitted on whole numbers as times"
    ):
        times(values, like=pl.Int64())


@pytest.mark.parametrize("values", [[1_711_886_400_000], [1.7e9], [0]])
def test_epoch_numbers_are_refused_with_a_reason_and_the_repair(values):
    with pytest.raises(FrameError, match=r"does not say its unit and zone: give ISO text .*epoch"):
        times(values)


@pytest.mark.parametrize("text", ["yesterday", "31/03/2024", "2024-02-30", "2024-03-31T25:00", ""])
def test_text_that_is_no_time_is_named_with_its_row(text):
    with pytest.raises(FrameError, match=f"'ds' holds '{text}' in row 1, which is no time"):
        times(["2024-03-31T12:00", text])


def test_a_mixture_of_times_with_and_without_offsets_is_refused():
    with pytest.raises(FrameError, match="holds 1 times with an offset from UTC and 2 without"):
        times(["2024-03-31T12:00", "2024-03-31T12:00Z", "2024-03-31T13:00"])


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([7, 8], ["7", "8"]),
        ([7.0, 8.0], ["7", "8"]),
        (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "b"]),
        ([True, False], ["true", "false"]),
    ],
)
def test_ids_become_text(ids, text):
    assert tidy(pl.DataFrame({"id": pl.Series(ids)}), "id", "ds")["id"].to_list() == text


def test_nan_is_missing():
    assert tidy(pl.DataFrame({"y": [1.0, float("nan")]}), "id", "ds")["y"].to_list() == [1.0, None]


def test_digits_of_an_epoch_are_no_time_and_those_of_a_day_are_one():
    assert times(["20240331"]) == [datetime(2024, 3, 31)]
    for text in ("1712010112345", "1711886400"):
        with pytest.raises(FrameError, match=f"holds '{text}' in row 0, which is no time"):
            times([text])


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"])
def test_times_that_leave_the_calendar_in_utc_are_refused(text):
    for several in ([text], [text, "2024-01-01T00:00:00.5+01:00"], [text, "20240101T000000Z"]):
        with pytest.raises(FrameError, match="year"):
            times(several)
