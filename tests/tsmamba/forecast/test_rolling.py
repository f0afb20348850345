"""Forecasts from origins inside the data, and what they are worth."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from utilsforecast.evaluation import evaluate
from utilsforecast.losses import mae

from tsmamba.errors import ParameterError
from tsmamba.metrics import mase, naive_scale

POINT = "MambaForecaster"
BANDS = [f"{POINT}-lo-90", f"{POINT}-hi-90"]


def values(frame, name=POINT):
    return frame[name].to_numpy()


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


METRICS = {
    "mae": lambda y, f: np.abs(y - f).mean(),
    "mse": lambda y, f: ((y - f) ** 2).mean(),
    "rmse": lambda y, f: np.sqrt(((y - f) ** 2).mean()),
    "smape": lambda y, f: (2 * np.abs(y - f) / (np.abs(y) + np.abs(f))).mean(),
}


@pytest.mark.parametrize("metric", METRICS)
def test_a_score_is_minus_the_error_of_the_backtest_averaged_over_series(linear, test, metric):
    history = linear.cross_validation(
        pl.concat([linear._fitted.history, test]).sort("unique_id", "ds"),
        n_windows=2,
        use_fitted=True,
    )
    errors = [METRICS[metric](values(x, "y"), values(x)) for _, x in history.group_by("unique_id")]
    assert linear.score(test, metric=metric) == pytest.approx(-np.mean(errors), rel=1e-4)


def test_an_unknown_metric_is_refused_before_the_frame_is_read(linear):
    with pytest.raises(ParameterError, match="metric='mape'; pass one of 'mase', 'mae'"):
        linear.score(object(), metric="mape")


def test_scores_of_series_of_unequal_size_are_averaged_not_pooled(base, train, test):
    """Squared errors of a series of large values outweigh the others no more than it counts."""
    first = train["unique_id"][0]
    factor = pl.when(pl.col("unique_id") == first).then(1e3).otherwise(1.0)
    larger = [x.with_columns(y=pl.col("y") * factor) for x in (train, test)]
    score = base().fit(larger[0]).score(larger[1])
    assert score == pytest.approx(base().fit(train).score(test), rel=1e-2)


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
