"""Forecasts from origins inside the data, and what they are worth."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from utilsforecast.evaluation import evaluate
from utilsforecast.losses import mae

from tsmamba.metrics import mase, naive_scale

POINT = "MambaForecaster"
BANDS = [f"{POINT}-lo-90", f"{POINT}-hi-90"]


def values(frame, name=POINT):
    return frame[name].to_numpy()


# Judging


def test_the_score_is_minus_the_scaled_error_of_rolling_forecasts(linear, train, test):
    errors = []
    for key in train["unique_id"].unique():
        history, following = (x.filter(unique_id=key)["y"] for x in (train, test))
        frame = train.filter(unique_id=key)
        forecast = np.r_[
            values(linear.predict(frame)),
            values(linear.predict(pl.concat([frame, test.filter(unique_id=key).head(24)]))),
        ]
        errors.append(mase(following, forecast, naive_scale(history, 24)))
    assert linear.score(test) == pytest.approx(-np.mean(errors), rel=1e-3)


def test_the_score_does_not_mind_rows_of_the_history(linear, seasonal, test):
    assert linear.score(seasonal) == pytest.approx(linear.score(test), rel=1e-6)


def test_the_score_of_a_single_series_works_without_ids(base, hourly):
    forecaster = base().fit(hourly.head(350))
    assert -1 < forecaster.score(hourly.tail(50)) < 0


def test_a_score_of_rows_without_values_is_refused(base, hourly):
    forecaster = base().fit(hourly.head(350))
    empty = hourly.tail(60).with_columns(y=pl.when(pl.int_range(pl.len()) < 10).then("y"))
    with pytest.raises(ValueError, match="no value after the history"):
        forecaster.score(empty)


@pytest.mark.parametrize("refit", [False, True])
def test_cross_validation_forecasts_the_end_from_rolling_origins(base, seasonal, refit):
    out = base().cross_validation(seasonal, n_windows=2, step_size=12, refit=refit)
    assert out.columns == ["unique_id", "ds", "cutoff", "y", POINT, *BANDS]
    assert out.height == 2 * 2 * 24
    for key, part in out.group_by("unique_id"):
        ends = seasonal.filter(unique_id=key[0])["ds"].max()
        assert part["cutoff"].unique().sort().to_list() == [
            ends - timedelta(hours=36),
            ends - timedelta(hours=24),
        ]
    assert (out["ds"] > out["cutoff"]).all()
    joined = out.join(seasonal, on=["unique_id", "ds"], maintain_order="left")
    np.testing.assert_allclose(joined["y"], joined["y_right"], rtol=1e-5)


def test_cross_validation_fits_before_the_first_origin_only(base, seasonal, train):
    """The last origin of a refit has seen what the first has not."""
    once = base().cross_validation(seasonal, n_windows=2)
    anew = base().cross_validation(seasonal, n_windows=2, refit=True)
    keys = ["unique_id", "cutoff", "ds"]
    both = once.join(anew, on=keys).sort(keys)
    first = pl.col("cutoff") == pl.col("cutoff").min().over("unique_id")
    gap = (pl.col(POINT) - pl.col(f"{POINT}_right")).abs().max()
    assert both.filter(first).select(gap).item() < 1e-3
    assert both.filter(~first).select(gap).item() > 1e-2
    alone = base().fit(train).predict()
    joined = anew.filter(first).join(alone, on=["unique_id", "ds"])
    np.testing.assert_allclose(values(joined), values(joined, f"{POINT}_right"), atol=1e-3)


def test_cross_validation_can_use_the_fitted_model(full, train, seasonal):
    before = full.predict()
    out = full.cross_validation(seasonal, n_windows=2, use_fitted=True)
    first = pl.col("cutoff") == pl.col("cutoff").min().over("unique_id")
    joined = out.filter(first).join(full.predict(train), on=["unique_id", "ds"])
    assert joined.height == 48
    np.testing.assert_allclose(values(joined), values(joined, f"{POINT}_right"), atol=1e-3)
    assert_frame_equal(before, full.predict(), check_exact=True)


def test_cross_validation_leaves_a_fitted_estimator_alone(linear, seasonal):
    before = linear.predict()
    linear.cross_validation(seasonal)
    assert_frame_equal(before, linear.predict(), check_exact=True)


def test_a_backtest_goes_to_utilsforecast_as_it_is(base, seasonal):
    out = base().cross_validation(seasonal, n_windows=2, level=[80])
    table = evaluate(out.drop("cutoff"), metrics=[mae], models=[POINT])
    expected = out.group_by("unique_id").agg(e=(pl.col("y") - pl.col(POINT)).abs().mean())
    joined = table.join(expected, on="unique_id")
    np.testing.assert_allclose(joined[POINT], joined["e"])


