import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from tsmamba.cli.columns import Wanted, choose_columns
from tsmamba.errors import FrameError

FILE = Path("load.csv")
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]


def chosen(frame: pl.DataFrame, **wanted):
    return choose_columns(frame, Wanted(**wanted), FILE)


def refusal(frame: pl.DataFrame, **wanted) -> str:
    with pytest.raises(FrameError) as caught:
        chosen(frame, **wanted)
    return str(caught.value)


def test_usual_names_need_no_note() -> None:
    frame = pl.DataFrame({"unique_id": ["a", "a"], "ds": DAYS, "y": [1, 2], "z": [3, 4]})
    found = chosen(frame)
    assert (found.id_col, found.time_col, found.target_col) == ("unique_id", "ds", "y")
    assert found.notes == []


def test_flags_win_over_usual_names() -> None:
    frame = pl.DataFrame({"ds": DAYS, "when": DAYS, "y": [1, 2], "z": [3, 4]})
    found = chosen(frame, time_col="when", targets=("z",))
    assert (found.time_col, found.target_col) == ("when", "z")


def test_several_targets_make_a_wide_frame() -> None:
    frame = pl.DataFrame({"ds": DAYS, "y": [1, 2], "z": [3, 4]})
    assert chosen(frame, targets=("y", "z")).target_col == ["y", "z"]


def test_a_named_time_column_of_text_is_parsed() -> None:
    frame = pl.DataFrame({"when": ["2024-01-01", "2024-01-02"], "y": [1, 2]})
    assert chosen(frame, time_col="when").frame["when"].to_list() == DAYS
    assert "holds text that is no time stamp, such as 'soon'" in refusal(
        frame.with_columns(when=pl.lit("soon")), time_col="when"
    )


def test_two_possible_columns_are_an_error_that_lists_them() -> None:
    frame = pl.DataFrame({"ds": DAYS, "load": [1, 2], "heat": [3.0, 4.0]})
    assert refusal(frame) == (
        "load.csv has no column 'y', and 2 of its columns can hold the values; name the right one "
        "with --target; columns: ds (Date), load (Int64), heat (Float64)"
    )


def test_no_possible_time_column_is_an_error() -> None:
    assert "and none of its columns can hold the time; name the right one with --time-col" in (
        refusal(pl.DataFrame({"step": [1, 2], "y": [1, 2]}))
    )


@pytest.mark.parametrize(
    ("wanted", "flag"),
    [
        ({"id_col": "x"}, "--id-col"),
        ({"time_col": "x"}, "--time-col"),
        ({"targets": ("y", "x")}, "--target"),
        ({"past": ("x",)}, "--past-covariate"),
        ({"future": ("y", "x")}, "--future-covariate"),
        ({"static": ("x",)}, "--static-covariate"),
        ({"weight": "x"}, "--weight"),
    ],
)
def test_a_named_column_that_is_absent_is_an_error(wanted: dict, flag: str) -> None:
    message = refusal(pl.DataFrame({"ds": DAYS, "y": [1, 2]}), **wanted)
    assert message.startswith(f"load.csv has no column 'x', which {flag} names; columns: ")


def test_covariates_and_weights_are_neither_ids_nor_values() -> None:
    frame = pl.DataFrame(
        {
            "site": ["a", "a", "b", "b"],
            "sky": ["blue", "grey", "blue", "grey"],
            "ds": DAYS * 2,
            "load": [1, 2, 3, 4],
            "heat": [5, 6, 7, 8],
            "w": [1, 1, 1, 0],
        }
    )
    found = chosen(frame, future=("sky", "heat"), weight="w")
    assert (found.id_col, found.target_col) == ("site", "load")
    assert found.frame.equals(frame)


def test_the_one_text_column_tells_series_apart() -> None:
    frame = pl.DataFrame({"site": ["a", "a", "b", "b"], "ds": DAYS * 2, "y": [1, 2, 3, 4]})
    found = chosen(frame)
    assert found.id_col == "site"
    assert found.notes == ["stamps in load.csv repeat: taking 'site' as the series ids"]


def test_stamps_that_repeat_without_such_a_column_are_an_error() -> None:
    frame = pl.DataFrame({"ds": DAYS * 2, "y": [1, 2, 3, 4]})
    assert "stamps repeat in 'ds'; name the column that tells the series apart with --id-col" in (
        refusal(frame)
    )
