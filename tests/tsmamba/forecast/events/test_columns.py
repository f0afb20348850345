import polars as pl
import pytest

from tsmamba.errors import FrameError
from tsmamba.forecast.events.columns import event_columns


def columns_of(names, id_col="unique_id", time_col="ds", targets=("y",)):
    frame = pl.DataFrame({name: [0] for name in names})
    found = event_columns(frame, id_col, time_col, targets)
    return None if found is None else (found.id_col, found.time_col)


MEDS = ["subject_id", "time", "code", "numeric_value"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (MEDS, ("subject_id", "time")),
        (["subject_id", "time", "HR", "Temp"], ("subject_id", "time")),
        (["unique_id", "ds", "code", "numeric_value"], ("unique_id", "ds")),
        ([*MEDS, "unique_id", "ds"], ("unique_id", "ds")),
        (["unique_id", "ds", "y"], None),
        (["ds", "y"], None),
        ([*MEDS, "ds", "y"], None),
        (["unique_id", "ds", "HR"], None),
        (["a", "b"], None),
    ],
)
def test_frames_of_events_are_told_from_series(names, expected):
    assert columns_of(names) == expected


def test_columns_of_the_forecaster_count_where_they_are_there():
    assert columns_of(["stay", "hour", *MEDS], "stay", "hour") == ("stay", "hour")
    assert columns_of(MEDS, "stay", "hour") == ("subject_id", "time")
    assert columns_of(["subject_id", "time", "y"], "subject_id", "time") is None
    wide = ["subject_id", "time", "load", "HR"]
    assert columns_of(wide, "subject_id", "time", ("load", "heat")) == ("subject_id", "time")


def test_after_a_fit_on_events_every_frame_is_one():
    assert columns_of(["subject_id", "time", "y"], targets=None) == ("subject_id", "time")


def test_codes_without_values_are_refused():
    with pytest.raises(FrameError, match="codes in 'code' but no column 'numeric_value'"):
        columns_of(["subject_id", "time", "code", "value"])
