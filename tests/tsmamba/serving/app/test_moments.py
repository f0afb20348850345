from datetime import UTC, datetime

import pytest

from tsmamba.errors import ParameterError
from tsmamba.serving.app.moments import read_moment


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-31T15:05:00Z",
        "2026-03-31T15:05",
        "2026-03-31 15:05:00.000000",
        "2026-03-31T17:05:00+02:00",
        "2026-03-30T23:05:00-16:00",
    ],
)
def test_times_with_a_zone_or_without_are_utc(text):
    assert read_moment(text) == datetime(2026, 3, 31, 15, 5, tzinfo=UTC)


def test_integers_stay_as_they_are():
    assert read_moment(-3) == -3


@pytest.mark.parametrize(
    "value",
    [
        "1712010112345",  # in basic format this would be a minute of the year 1712
        "20260331",
        "31.3.2026",
        "2026-02-30T00:00:00",
        "0001-01-01T00:00:00+05:00",
        "",
        None,
        True,
        1.5,
        ["2026-03-31"],
    ],
)
def test_what_is_no_time_is_refused(value):
    with pytest.raises(ParameterError, match="no time; give ISO 8601 text such as '2026-03-31T17"):
        read_moment(value)


def test_an_integer_beyond_64_bits_is_refused():
    with pytest.raises(ParameterError, match="too large"):
        read_moment(2**63)
