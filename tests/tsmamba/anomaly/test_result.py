from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from tsmamba.anomaly.result import number_of
from tsmamba.errors import ParameterError


def test_times_keep_their_distances():
    start = datetime(2024, 2, 28, 23, 59, 59, 999_999)
    later = start + timedelta(days=400, microseconds=1)
    assert number_of(later) - number_of(start) == timedelta(days=400, microseconds=1) // timedelta(
        microseconds=1
    )
    assert number_of(np.int32(7)) == number_of(7) == 7


def test_a_moment_is_the_same_in_every_zone():
    moment = datetime(2024, 1, 1, 12, tzinfo=UTC)
    assert number_of(moment) == number_of(moment.astimezone(timezone(timedelta(hours=9))))


@pytest.mark.parametrize("t", [True, 1.0, "2024-01-01", date(2024, 1, 1), np.datetime64("2024")])
def test_what_is_neither_an_integer_nor_a_datetime_is_refused(t):
    with pytest.raises(ParameterError, match="pass an integer or a datetime, or leave it out"):
        number_of(t)


@pytest.mark.parametrize(
    ("t", "stamps", "wanted"), [(5, True, "datetimes"), (datetime(2024, 1, 1), False, "integers")]
)
def test_times_of_the_other_kind_are_refused(t, stamps, wanted):
    with pytest.raises(ParameterError, match=f"fitted on {wanted}; pass such times"):
        number_of(t, stamps)
