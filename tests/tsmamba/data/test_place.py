from datetime import date, datetime

import numpy as np
import polars as pl
import pytest

from tsmamba.data.panel import future_frame, read_panel
from tsmamba.data.place import place_rows
from tsmamba.errors import FrameError


@pytest.fixture(scope="module")
def frame(long_frame):
    return long_frame({"b": 5, "a": 3}).with_columns(row=pl.int_range(pl.len()))


def whole(df, panel, names=("row",)):
    return place_rows(df, panel, names, np.zeros_like(panel.lengths), panel.lengths)


def test_every_row_of_the_frame_has_its_step(frame):
    placed = whole(frame, read_panel(frame))
    assert placed.numbers.tolist() == [0] * 5 + [1] * 3
    assert placed.steps.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert placed.frame.columns == ["unique_id", "ds", "row"]


def test_other_ids_other_stamps_and_those_between_steps_are_left_out(frame):
    panel = read_panel(frame)
    other = frame.with_columns(unique_id=pl.lit("new"))
    between = frame.with_columns(pl.col("ds").dt.offset_by("5m"))
    later = frame.with_columns(pl.col("ds").dt.offset_by("5h"))
    earlier = frame.with_columns(pl.col("ds").dt.offset_by("-5h"))
    placed = whole(pl.concat([other, between, frame[::-1], later, earlier]), panel)
    assert placed.frame["row"].to_list() == list(range(8))[::-1]


def test_only_the_stretch_asked_for_is_found(frame):
    placed = place_rows(frame, read_panel(frame), ["row"], np.array([3, 0]), np.array([9, 1]))
    assert placed.frame["row"].to_list() == [3, 4, 5]


def test_the_series_of_a_wide_frame_count_as_one(frame):
    wide = frame.with_columns(z=pl.col("y"))
    placed = whole(wide, read_panel(wide, target_col=["y", "z"]))
    assert placed.numbers.tolist() == [0] * 5 + [1] * 3


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["x", "a", "b"]), pl.String])
@pytest.mark.parametrize("known", [pl.Categorical, pl.Enum(["b", "a"]), pl.String])
def test_ids_of_another_text_type_match(frame, known, dtype):
    panel = read_panel(frame.cast({"unique_id": known}))
    assert whole(frame.cast({"unique_id": dtype}), panel).frame["row"].to_list() == list(range(8))


def test_dates_match_midnights_and_units_do_not_matter():
    days = pl.DataFrame({"ds": [date(2024, 1, 1), date(2024, 1, 2)], "y": [1.0, 2.0]})
    panel = read_panel(days)
    for unit in ("ms", "us", "ns"):
        stamps = days.cast({"ds": pl.Datetime(unit)})
        assert whole(stamps, panel, ["y"]).steps.tolist() == [0, 1]
        assert whole(days, read_panel(stamps), ["y"]).steps.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("stamp", "kind"),
    [
        (pl.lit(1), "integers"),
        (
            pl.lit(datetime(2024, 1, 1)).dt.replace_time_zone("Asia/Tokyo"),
            "stamps with a time zone",
        ),
    ],
)
def test_stamps_of_another_kind_are_refused(frame, stamp, kind):
    message = f"'ds' is of type .*, {kind}, and in the history .*, stamps without a time zone; give"
    with pytest.raises(FrameError, match=message):
        whole(frame.with_columns(ds=stamp), read_panel(frame))


def test_a_frame_without_the_id_column_is_refused(frame):
    with pytest.raises(FrameError, match="the frame has no column 'unique_id', which names the"):
        whole(frame.drop("unique_id"), read_panel(frame))


@pytest.mark.parametrize("every", ["15m", "1h", "1d", "1w", "1mo", "1q"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/Santiago"])
@pytest.mark.parametrize("start", [datetime(2024, 2, 10), datetime(2023, 12, 31, 3, 30)])
def test_the_steps_that_the_calendar_lists_ahead_are_found(every, zone, start):
    ds = pl.Series([start]).dt.replace_time_zone(zone)
    panel = read_panel(pl.DataFrame({"ds": ds, "y": [1.0]}), freq=every)
    ahead = future_frame(panel, 400)
    placed = place_rows(ahead, panel, [], panel.lengths, panel.lengths + 400)
    assert placed.steps.tolist() == list(range(1, 401))


def test_a_frame_without_rows_has_none(frame):
    assert whole(frame.clear(), read_panel(frame)).steps.tolist() == []
