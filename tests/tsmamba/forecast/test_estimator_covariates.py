"""What covariates do to forecasts, and what they must not do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from utilsforecast.evaluation import evaluate
from utilsforecast.losses import mae

from tsmamba import MambaForecaster
from tsmamba.errors import CovariateError

POINT = "MambaForecaster"
KEYS = ["unique_id", "ds"]
ALL = {
    "future_covariates": ["heat", "sky"],
    "past_covariates": ["flow"],
    "static_covariates": ["site"],
}
# Steps from the end of its series, from 1 on.
FROM_END = pl.int_range(pl.len(), 0, -1).over("unique_id")
LAST = FROM_END <= 24


def error_of(frame):
    return (frame["y"] - frame[POINT]).abs().mean()


@pytest.fixture(scope="module")
def known(shop):
    """All but the last day of each series."""
    return shop.filter(~LAST)


@pytest.fixture(scope="module")
def ahead(shop):
    return shop.filter(LAST).drop("y")


@pytest.fixture(scope="module")
def explained(base, known):
    return base(future_covariates=["heat", "sky"]).fit(known)


@pytest.fixture
def corrected(small, any_training, known):
    """One whose corrector sees covariates of every role."""
    return small(**ALL).fit(known)


# What they are worth


@pytest.mark.parametrize("mode", ["fast", "base"])
def test_covariates_that_explain_lower_the_error(fast, base, shop, mode):
    make = fast if mode == "fast" else base
    without = make().cross_validation(shop, n_windows=3)
    with_them = make(future_covariates=["heat", "sky"]).cross_validation(shop, n_windows=3)
    assert error_of(with_them) < 0.7 * error_of(without)


def test_the_report_says_what_they_gained(explained, base, known):
    assert explained.report_["effects"].startswith("used: error of the base ")
    assert "effects" not in base().fit(known).report_


def test_noise_leaves_forecasts_about_as_they_were(base, known, ahead):
    plain = base().fit(known).predict()
    noisy = base(future_covariates=["noise"]).fit(known)
    moved = noisy.predict(future=ahead)[POINT] - plain[POINT]
    assert moved.abs().max() < 0.1 * known["y"].std()


@pytest.mark.parametrize("name", ["heat", "sky"])
def test_a_forecast_follows_what_is_known_ahead(explained, ahead, name):
    other = {"heat": pl.lit(3.0), "sky": pl.lit("dark")}[name]
    one, two = (
        explained.predict(future=x)[POINT] for x in (ahead, ahead.with_columns(other.alias(name)))
    )
    assert (one - two).abs().max() > 3


@pytest.mark.parametrize(
    ("name", "other"), [("flow", pl.lit(5.0)), ("site", pl.lit("north a")), ("heat", pl.lit(2.0))]
)
def test_every_role_reaches_a_corrector_that_is_trained(corrected, known, ahead, name, other):
    changed = known.with_columns(other.alias(name))
    one, two = (corrected.predict(x, future=ahead) for x in (known, changed))
    moved = (one[POINT] - two[POINT]).abs()
    assert moved.filter(one["unique_id"] == "b").max() > 1e-3


@pytest.mark.parametrize("name", ["flow", "site"])
def test_the_base_looks_at_what_is_known_ahead_only(base, known, ahead, name):
    forecaster = base(**ALL).fit(known)
    changed = known.with_columns(pl.lit({"flow": 5.0, "site": "north a"}[name]).alias(name))
    one, two = (forecaster.predict(x, future=ahead) for x in (known, changed))
    assert_frame_equal(one, two, check_exact=True)


# Causality


@pytest.mark.parametrize("name", ["y", "flow"])
def test_what_is_not_known_ahead_changes_no_forecast_made_before(corrected, shop, name):
    changed = shop.with_columns(pl.when(LAST).then(1e3 - pl.col(name)).otherwise(name).alias(name))
    one, two = (corrected.cross_validation(x, use_fitted=True) for x in (shop, changed))
    assert_frame_equal(one.drop("y"), two.drop("y"), check_exact=True)


@pytest.mark.parametrize("step", [0, 7, 23])
def test_a_covariate_changes_no_step_before_its_own(explained, ahead, step):
    place = pl.int_range(pl.len()).over("unique_id")
    changed = ahead.with_columns(heat=pl.when(place == step).then(4.0).otherwise("heat"))
    one, two = (explained.predict(future=x) for x in (ahead, changed))
    assert_frame_equal(one.filter(place < step), two.filter(place < step), check_exact=True)
    moved = (one.filter(place == step)[POINT] - two.filter(place == step)[POINT]).abs()
    assert (moved > 1).all()


def test_what_lies_beyond_the_horizon_is_not_looked_at(explained, ahead):
    beyond = ahead.with_columns(pl.col("ds").dt.offset_by("24h"), heat=pl.lit(1e6))
    more = pl.concat([beyond, ahead])
    assert_frame_equal(
        explained.predict(future=ahead), explained.predict(future=more), check_exact=True
    )


# Kinds of values and frames


def test_an_unknown_category_is_no_category(explained, ahead):
    odd, none = (ahead.with_columns(sky=pl.lit(name)) for name in ("green", "violet"))
    out = explained.predict(future=odd)
    assert out[POINT].is_finite().all()
    assert_frame_equal(out, explained.predict(future=none), check_exact=True)


def test_order_and_further_columns_of_the_rows_ahead_are_irrelevant(explained, ahead):
    mixed = ahead.sample(fraction=1, shuffle=True, seed=0).select("sky", "noise", *KEYS, "heat")
    assert_frame_equal(
        explained.predict(future=mixed), explained.predict(future=ahead), check_exact=True
    )


def test_the_order_in_which_covariates_are_named_is_irrelevant(base, known, ahead, explained):
    turned = base(future_covariates=["sky", "heat"]).fit(known)
    assert_frame_equal(turned.predict(future=ahead), explained.predict(future=ahead), abs_tol=1e-2)


def test_units_of_a_covariate_are_irrelevant(base, known, ahead, explained):
    scaled = pl.col("heat") * 1e4 - 3e5
    forecaster = base(future_covariates=["heat", "sky"]).fit(known.with_columns(scaled))
    assert_frame_equal(
        forecaster.predict(future=ahead.with_columns(scaled)),
        explained.predict(future=ahead),
        abs_tol=0.1,
    )


def test_pandas_in_is_pandas_out(base, known, ahead, explained):
    frames = [pd.DataFrame(x.to_dict(as_series=False)) for x in (known, ahead)]
    forecaster = base(future_covariates=["heat", "sky"]).fit(frames[0])
    out = forecaster.predict(future=frames[1])
    assert isinstance(out, pd.DataFrame)
    np.testing.assert_allclose(out[POINT], explained.predict(future=ahead)[POINT], rtol=1e-6)
    assert isinstance(forecaster.make_future_frame(), pd.DataFrame)


def test_the_targets_of_a_wide_frame_share_their_covariates(base, known, ahead, explained):
    wide = known.with_columns(half=pl.col("y") / 2 - 7)
    forecaster = base(target_col=["y", "half"], future_covariates=["heat", "sky"]).fit(wide)
    out = forecaster.predict(future=ahead)
    assert out.columns[:4] == [*KEYS, "target", POINT]
    y, half = (out.filter(target=name)[POINT] for name in ("y", "half"))
    np.testing.assert_allclose(half, y / 2 - 7, rtol=1e-4)
    np.testing.assert_allclose(y, explained.predict(future=ahead)[POINT], rtol=0.02)


def test_a_series_without_ids_has_covariates(base, shop):
    single = shop.filter(unique_id="a").drop("unique_id")
    forecaster = base(future_covariates="heat").fit(single.head(-24))
    out = forecaster.predict(future=single.tail(24))
    assert out.columns[:2] == ["ds", POINT]
    assert forecaster.score(single) > base().fit(single.head(-24)).score(single)


def test_a_loaded_forecaster_knows_its_covariates(corrected, ahead, tmp_path):
    corrected.save(tmp_path / "m")
    loaded = MambaForecaster.load(tmp_path / "m")
    assert_frame_equal(
        loaded.predict(future=ahead), corrected.predict(future=ahead), check_exact=True
    )


# Backtests


@pytest.mark.parametrize("how", [{}, {"refit": True}, {"use_fitted": True}], ids=str)
def test_a_backtest_takes_covariates_from_its_frame(explained, shop, how):
    out = explained.cross_validation(shop, n_windows=2, **how)
    assert out.columns == [*KEYS, "cutoff", "y", POINT, f"{POINT}-lo-90", f"{POINT}-hi-90"]
    assert out.height == 2 * 2 * 24
    table = evaluate(out.drop("cutoff"), metrics=[mae], models=[POINT])
    assert table[POINT].mean() < 8


def test_the_last_window_of_a_backtest_is_the_forecast_from_there(explained, shop, ahead):
    out = explained.cross_validation(shop, use_fitted=True).drop("cutoff", "y")
    assert_frame_equal(out, explained.predict(future=ahead), abs_tol=1e-3)


# What is refused


def test_a_forecast_without_what_is_known_ahead_is_refused(explained):
    with pytest.raises(CovariateError) as error:
        explained.predict()
    assert str(error.value) == (
        "the model uses future covariates ('heat', 'sky') and no future was given; pass future=, "
        "a frame with the columns 'unique_id', 'ds', 'heat', 'sky' at each of the 24 steps ahead: "
        "forecaster.make_future_frame() lists its rows"
    )


def test_missing_rows_ahead_are_named(explained, ahead):
    place = pl.int_range(pl.len()).over("unique_id")
    lacking = ahead.filter((pl.col("unique_id") != "b") | ~place.is_in([3, 4]))
    with pytest.raises(CovariateError) as error:
        explained.predict(future=lacking)
    assert str(error.value).startswith(
        "future lacks 2 of 48 rows: series 'b' at ds=2024-02-02 11:00:00, "
        "series 'b' at ds=2024-02-02 12:00:00; "
    )


def test_a_missing_value_ahead_is_named(explained, ahead):
    place = pl.int_range(pl.len()).over("unique_id")
    holed = ahead.with_columns(heat=pl.when(place != 5).then("heat"))
    with pytest.raises(CovariateError, match=r"no value of 'heat' for series 'a' at ds=.*2 such"):
        explained.predict(future=holed)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"future_covariates": ["wind"]}, "no column 'wind', .* as a future covariate"),
        ({"past_covariates": ["heat"], "future_covariates": ["heat"]}, "a column has one role"),
        ({"past_covariates": ["y"]}, "is a target column already"),
        ({"static_covariates": ["flow"]}, "'flow' of series 'a' holds .* static covariate"),
    ],
    ids=str,
)
def test_covariates_that_do_not_fit_are_refused(base, explained, known, ahead, roles, message):
    forecaster = base(**roles)
    for call in (forecaster.fit, forecaster.cross_validation):
        with pytest.raises(CovariateError, match=message):
            call(known)
    before = explained.predict(future=ahead)
    kept = explained.get_params(deep=False)
    explained.set_params(**{"future_covariates": None} | roles)
    with pytest.raises(CovariateError, match=message):
        explained.fit(known)
    explained.set_params(**kept)
    assert_frame_equal(explained.predict(future=ahead), before, check_exact=True)


def test_a_history_without_its_covariates_is_refused(explained, known, ahead):
    for call in (lambda df: explained.predict(df, future=ahead), explained.update):
        with pytest.raises(ValueError, match="no column 'heat'"):
            call(known.drop("heat"))
