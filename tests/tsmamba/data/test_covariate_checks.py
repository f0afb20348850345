import numpy as np
import pandas as pd
import polars as pl
import pytest

from tsmamba.data.covariates import Roles, extend_covariates, read_covariates
from tsmamba.data.panel import read_panel
from tsmamba.errors import CovariateError, FrameError

PRICE = Roles(future=("price",))


@pytest.fixture(scope="module")
def frame():
    return pl.DataFrame(
        {
            "unique_id": ["a", "a", "a", "b", "b"],
            "ds": [1, 2, 3, 1, 2],
            "y": [1.0, 2.0, 3.0, 4.0, 5.0],
            "price": [1.0, 3.0, 2.0, 1.0, 3.0],
            "site": ["north", "north", "north", "south", "south"],
        }
    )


@pytest.fixture(scope="module")
def future():
    """Two steps ahead of the frame."""
    return pl.DataFrame(
        {"unique_id": ["a", "a", "b", "b"], "ds": [4, 5, 3, 4], "price": [1.0, 2.0, 3.0, 4.0]}
    )


def refused(df, roles, error=CovariateError, target_col="y", **kwargs):
    panel = read_panel(df, target_col=target_col)
    with pytest.raises(error) as caught:
        read_covariates(df, panel, roles, **kwargs)
    return str(caught.value)


# Roles and columns


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (Roles(past=("y",)), "column 'y' was named as a past covariate and is a target column"),
        (Roles(static=("unique_id",)), "'unique_id' was named as a static covariate and is the id"),
        (Roles(future=("ds",)), "column 'ds' was named as a future covariate and is the time"),
        (Roles(("price",), ("price",)), "as a future covariate and is a past covariate already"),
        (Roles(past=("site", "site")), "as a past covariate and is a past covariate already"),
        (Roles(past=(3,)), "3 was named as a past covariate; names of columns are accepted"),
    ],
)
def test_a_column_has_one_role(frame, roles, message):
    assert message in refused(frame, roles)


def test_every_target_of_a_wide_frame_is_taken(frame):
    assert "is a target column" in refused(frame, PRICE, target_col=["y", "price"])


def test_an_absent_column_names_those_near_or_those_there_are(frame):
    assert refused(frame, Roles(past=("Prices",))) == (
        "the frame has no column 'Prices', which was named as a past covariate; near by "
        "name: 'price'"
    )
    shouted = frame.rename({"price": "PRICE"})
    assert refused(shouted, PRICE).endswith("near by name: 'PRICE'")
    assert refused(frame, Roles(static=("wind",))).endswith(
        "it has 'unique_id', 'ds', 'y', 'price', 'site'"
    )


def test_static_covariates_may_not_change_within_a_series(frame):
    moved = frame.with_columns(site=pl.Series(["north", None, "north", "south", "east"]))
    assert refused(moved, Roles(static=("site",))) == (
        "column 'site' of series 'b' holds 'south' and 'east', and was named as a static "
        "covariate; one value for each series is accepted: correct it, or name it as a past or "
        "future covariate"
    )
    single = moved.filter(pl.col("unique_id") == "b").drop("unique_id")
    assert "column 'site' of the series holds" in refused(single, Roles(static=("site",)))
    wide = moved.with_columns(z=pl.col("y"))
    assert "of series 'b' holds" in refused(wide, Roles(static=("site",)), target_col=["y", "z"])


@pytest.mark.parametrize("role", ["past", "future", "static"])
def test_infinite_values_name_series_and_stamp(frame, role):
    infinite = frame.with_columns(price=pl.Series([1.0, 1.0, 1.0, -np.inf, -np.inf]))
    message = refused(infinite, Roles(**{role: ("price",)}), FrameError)
    assert message.startswith("column 'price' of series 'b' at ds=1 is infinite (2 such values")


@pytest.mark.parametrize("role", ["past", "future", "static"])
def test_columns_of_another_type_are_refused(frame, role):
    dated = frame.with_columns(price=pl.col("ds").cast(pl.Date))
    assert "'price' is of type Date" in refused(dated, Roles(**{role: ("price",)}))


def test_another_kind_than_the_fitted_one_is_refused(frame):
    roles = Roles(static=("site",), past=("price",))
    _, encoding = read_covariates(frame, read_panel(frame), roles)
    for name, fitted in (("site", "categories"), ("price", "numbers")):
        other = frame.with_columns(pl.lit("7" if name == "price" else 7).alias(name))
        assert f"{name!r} is of type" in refused(other, roles, encoding=encoding)
        assert f"was fitted as {fitted}" in refused(other, roles, encoding=encoding)


# Steps ahead


def test_a_forecast_without_a_future_is_refused(frame):
    assert refused(frame, PRICE, horizon=2) == (
        "the model uses future covariates ('price') and no future was given; pass future=, a frame "
        "with the columns 'unique_id', 'ds', 'price' at each of the 2 steps ahead: "
        "forecaster.make_future_frame() lists its rows"
    )


def test_missing_rows_are_counted_and_written_out(frame, future):
    assert refused(frame, PRICE, future=future[[0, 3]], horizon=2) == (
        "future lacks 2 of 4 rows: series 'a' at ds=5, series 'b' at ds=3; one for each series and "
        "each of the 2 steps ahead is needed: forecaster.make_future_frame() lists them all"
    )
    message = refused(frame, PRICE, future=future, horizon=6)
    assert message.startswith(
        "future lacks 8 of 12 rows: series 'a' at ds=6, series 'a' at ds=7, series 'a' at ds=8, "
        "series 'a' at ds=9, series 'b' at ds=5 and 3 more; one"
    )
    assert "lacks 4 of 4 rows" in refused(frame, PRICE, future=future.clear(), horizon=2)


def test_rows_at_other_stamps_are_missing(frame, future):
    late = future.with_columns(pl.col("ds") + 1)
    assert "lacks 2 of 4 rows: series 'a' at ds=4, series 'b' at ds=3;" in refused(
        frame, PRICE, future=late, horizon=2
    )


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_values_ahead_name_series_stamp_and_column(frame, future, missing):
    holed = future.with_columns(price=pl.Series([1.0, 2.0, missing, missing]))
    assert refused(frame, PRICE, future=holed, horizon=2) == (
        "future has no value of 'price' for series 'b' at ds=3 (2 such rows in all); a future "
        "covariate needs a value at every step ahead: fill it, or name it as a past covariate"
    )
    assert "(1 such rows in all)" in refused(frame, PRICE, future=holed, horizon=1)


def test_repeated_rows_ahead_are_refused(frame, future):
    twice = pl.concat([future, future[[1]]])
    assert refused(frame, PRICE, future=twice, horizon=2) == (
        "future has more than one row for series 'a' at ds=5; one for each series and stamp is "
        "accepted: future.unique(subset=['unique_id', 'ds']), in pandas "
        "future.drop_duplicates(['unique_id', 'ds'])"
    )
    panel = read_panel(frame)
    covariates, _ = read_covariates(frame, panel, PRICE, future=twice, horizon=1)
    assert covariates.steps_ahead == 1


def test_a_future_without_its_columns_is_refused(frame, future):
    message = refused(frame, PRICE, future=future.rename({"price": "prize"}), horizon=2)
    assert message == (
        "future has no column 'price', which was named as a future covariate; near by name: 'prize'"
    )
    without = future.drop("unique_id")
    assert "no column 'unique_id'" in refused(frame, PRICE, FrameError, future=without, horizon=2)
    indexed = pd.DataFrame(future.to_dict(as_series=False)).set_index("ds")
    message = refused(frame, PRICE, FrameError, future=indexed, horizon=2)
    assert "'ds' is in the index: call df.reset_index()" in message


def test_values_ahead_are_checked_as_those_of_the_history(frame, future):
    infinite = future.with_columns(price=pl.Series([1.0, 2.0, np.inf, 4.0]))
    message = refused(frame, PRICE, FrameError, future=infinite, horizon=2)
    assert message.startswith("column 'price' of series 'b' at ds=3 is infinite (1 such")
    text = future.with_columns(price=pl.lit("cheap"))
    assert "'price' is of type String and was fitted as numbers" in refused(
        frame, PRICE, future=text, horizon=2
    )


def test_extending_refuses_the_same(frame, future):
    panel = read_panel(frame)
    covariates, encoding = read_covariates(frame, panel, PRICE)
    for given, message in ((None, "no future was given"), (future[1:], "lacks 1 of 4 rows")):
        with pytest.raises(CovariateError, match=message):
            extend_covariates(covariates, panel, PRICE, encoding, given, 2)
