"""What must not change a forecast: order, names, units, and what comes later."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba.forecast.pretrained import pretrained_corrector

POINT = "MambaForecaster"
BANDS = [f"{POINT}-lo-90", f"{POINT}-hi-90"]
KEYS = ["unique_id", "ds"]


@pytest.fixture(params=["fast", "base"])
def make(request, fast, base, any_corrector):
    return fast if request.param == "fast" else base


@pytest.fixture(scope="module")
def pair(seasonal):
    return seasonal.filter(pl.int_range(pl.len()).over("unique_id") < 900)


def test_the_corrector_of_these_tests_changes_the_forecast(any_corrector, fast, pair):
    forecaster = fast().fit(pair)
    gap = forecaster.predict()[POINT] - forecaster.predict(base_only=True)[POINT]
    assert gap.abs().max() > 0.1


@pytest.mark.parametrize(("a", "b"), [(1000.0, 0.0), (0.001, 5.0), (1.0, 1e5)])
def test_forecasts_scale_with_the_values(make, pair, a, b):
    one = make(12).fit(pair).predict(quantiles=[0.5])
    other = make(12).fit(pair.with_columns(y=a * pl.col("y") + b)).predict(quantiles=[0.5])
    spread = a * pair["y"].std()
    np.testing.assert_allclose(other[POINT], a * one[POINT] + b, atol=2e-3 * spread, rtol=0)


def test_the_base_of_a_mirrored_series_is_the_mirrored_base(base, pair):
    one, other = (base().fit(pair.with_columns(y=a * pl.col("y"))).predict() for a in (1, -1))
    np.testing.assert_allclose(other[POINT], -one[POINT], atol=2e-3)


def test_the_order_of_series_is_irrelevant(make, pair):
    turned = pair.sort("unique_id", "ds", descending=[True, False])
    assert turned["unique_id"][0] != pair["unique_id"][0]
    one, other = (make().fit(x).predict().sort(KEYS) for x in (pair, turned))
    assert_frame_equal(one.drop(BANDS), other.drop(BANDS), abs_tol=1e-2)
    # Other windows are picked to calibrate on, so the bounds are equal up to chance.
    assert_frame_equal(one, other, abs_tol=0.3)


def test_interleaved_series_are_the_same_series(make, pair):
    one, other = make().fit(pair).predict(), make().fit(pair.sort("ds", "unique_id")).predict()
    assert_frame_equal(one.sort(KEYS), other.sort(KEYS), abs_tol=1e-2)


def test_names_of_columns_and_series_are_irrelevant(make, pair):
    names = {"unique_id": "meter", "ds": "when", "y": "load"}
    renamed = pair.rename(names).with_columns("other " + pl.col("meter"))
    plain = make().fit(pair).predict()
    out = make(id_col="meter", time_col="when", target_col="load").fit(renamed).predict()
    assert out.columns[:2] == ["meter", "when"]
    assert_frame_equal(
        out.drop("meter"), plain.drop("unique_id").rename({"ds": "when"}), check_exact=True
    )


def test_what_comes_after_an_origin_changes_no_forecast_from_it(make, pair):
    forecaster = make().fit(pair)
    rank = pl.int_range(pl.len(), 0, -1).over("unique_id")
    changed = pair.with_columns(y=pl.when(rank <= 24).then(1e3 - pl.col("y")).otherwise("y"))
    one, other = (forecaster.cross_validation(x, use_fitted=True) for x in (pair, changed))
    assert_frame_equal(one.drop("y"), other.drop("y"), check_exact=True)
    assert not np.allclose(one["y"], other["y"])


def test_forecasts_of_a_series_know_nothing_of_the_others(make, pair):
    forecaster = make().fit(pair)
    changed = pair.with_columns(
        y=pl.when(pl.col("unique_id") == pair["unique_id"][0]).then(pl.col("y") * 2).otherwise("y")
    )
    one, other = (forecaster.predict(x) for x in (pair, changed))
    kept = pl.col("unique_id") != pair["unique_id"][0]
    assert_frame_equal(one.filter(kept), other.filter(kept), abs_tol=1e-4)
    assert not np.allclose(one.filter(~kept)[POINT], other.filter(~kept)[POINT])


def test_the_kept_history_is_all_that_a_forecast_needs(make, pair):
    forecaster = make().fit(pair)
    assert_frame_equal(forecaster.predict(), forecaster.predict(pair), abs_tol=1e-3)


def test_the_kept_history_reaches_as_far_back_as_the_corrector(any_corrector, fast, pair):
    history = fast().fit(pair)._fitted.history
    kept = history.group_by("unique_id").len()["len"]
    assert kept.min() >= pretrained_corrector().config.history


def test_more_context_than_trained_is_read_where_there_is_some(fast, train, any_corrector):
    forecaster = fast().fit(train)
    usual = forecaster.predict(train)
    trained = any_corrector.config.history
    assert forecaster.predict(train, context_length=trained).equals(usual)
    point, longer = (
        x["MambaForecaster"] for x in (usual, forecaster.predict(train, context_length=2 * trained))
    )
    assert (point - longer).abs().max() > 1e-4
    base = forecaster.predict(train, base_only=True)
    assert forecaster.predict(train, context_length=48, base_only=True).equals(base)
