"""Beyond the horizon, and beyond the fitted history: nothing is fitted anew."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster
from tsmamba.errors import FrameError, HorizonError

POINT = "MambaForecaster"
KEYS = ["unique_id", "ds"]


@pytest.fixture(params=["fast", "base"])
def fitted(request, fast, base, any_corrector, train):
    make = fast if request.param == "fast" else base
    return make().fit(train)


def taken(forecast):
    """Rows as if the point forecast had come true."""
    return forecast.select("unique_id", "ds", y=POINT)


# Longer horizons


@pytest.mark.parametrize("horizon", [1, 10, 24])
def test_a_shorter_forecast_is_the_begin_of_the_whole_one(fitted, horizon):
    whole = fitted.predict().filter(pl.int_range(pl.len()).over("unique_id") < horizon)
    assert_frame_equal(fitted.predict(horizon=horizon), whole, check_exact=True)


def test_a_longer_forecast_is_made_from_forecasts(fitted):
    out = fitted.predict(horizon=60)
    rank = pl.int_range(pl.len()).over("unique_id")
    assert out.group_by("unique_id").len()["len"].to_list() == [60, 60]
    assert_frame_equal(out.filter(rank < 24), fitted.predict(), check_exact=True)
    for begin in (24, 48):
        next_one = fitted.update(taken(fitted.predict())).predict(horizon=min(24, 60 - begin))
        rest = out.filter(rank.is_between(begin, begin + 24, closed="left"))
        assert_frame_equal(rest.select(*KEYS, POINT), next_one.select(*KEYS, POINT), abs_tol=1e-3)


def test_bands_beyond_the_horizon_never_cross_and_widen_with_the_root_of_the_step(fitted):
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    out = fitted.predict(horizon=96, quantiles=levels)
    for _, part in out.group_by("unique_id"):
        bands = part.select(f"{POINT}_ql{q}" for q in levels).to_numpy()
        assert (np.diff(bands, axis=1) >= 0).all()
        widths = bands[:, -1] - bands[:, 0]
        expected = widths[23] * np.sqrt(np.arange(25, 97) / 24)
        np.testing.assert_allclose(widths[24:], expected, rtol=1e-3)


def test_covariates_are_needed_for_all_steps_of_a_longer_forecast(base, shop):
    forecaster = base(future_covariates=["heat"])
    rank = pl.int_range(pl.len(), 0, -1).over("unique_id")
    forecaster.fit(shop.filter(rank > 48))
    ahead = shop.filter(rank <= 48).drop("y")
    out = forecaster.predict(future=ahead, horizon=48)
    step = pl.int_range(pl.len()).over("unique_id")
    assert_frame_equal(out.filter(step < 24), forecaster.predict(future=ahead), check_exact=True)
    with pytest.raises(FrameError, match="future lacks 48 of 96 rows"):
        forecaster.predict(future=ahead.filter(step < 24), horizon=48)
    rows = ahead.filter(step < 24).join(out, on=KEYS).with_columns(y=POINT)
    next_one = forecaster.update(rows).predict(future=ahead)
    assert_frame_equal(
        out.filter(step >= 24).select(*KEYS, POINT), next_one.select(*KEYS, POINT), abs_tol=1e-2
    )


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, "24"])
def test_a_horizon_out_of_range_is_refused(linear, horizon):
    for call in (linear.predict, linear.make_future_frame):
        with pytest.raises(HorizonError, match=r"horizon=.*; pass a whole number of at least 1"):
            call(horizon=horizon)


# Rows ahead


def hourly_in_a_zone():
    start = datetime(2024, 3, 29, tzinfo=UTC)
    ds = pl.datetime_range(start, start + timedelta(hours=59), "1h", eager=True)
    return ds.dt.convert_time_zone("Europe/Berlin")


STAMPS = {
    "integers": pl.Series(range(0, 120, 2)),
    "days": pl.date_range(date(2024, 1, 1), date(2024, 2, 29), "1d", eager=True),
    "months": pl.date_range(date(2020, 1, 31), date(2024, 12, 31), "1mo", eager=True),
    "summer time": hourly_in_a_zone(),
}


@pytest.mark.parametrize("stamps", STAMPS)
def test_the_rows_ahead_are_those_that_a_forecast_needs(base, stamps):
    rng = np.random.default_rng(0)
    parts = [
        pl.DataFrame({"ds": STAMPS[stamps].tail(length)}).with_columns(unique_id=pl.lit(key))
        for key, length in (("b", 60), ("a", 40))
    ]
    frame = pl.concat(parts).with_columns(
        x=pl.Series(rng.normal(size=100)), y=pl.Series(rng.normal(size=100))
    )
    forecaster = base(6, future_covariates="x").fit(frame)
    for horizon in (None, 9):
        ahead = forecaster.make_future_frame(horizon=horizon)
        assert ahead.columns == KEYS
        assert ahead.schema["ds"] == frame.schema["ds"]
        future = ahead.sample(fraction=1, shuffle=True, seed=0).with_columns(x=pl.lit(0.5))
        out = forecaster.predict(future=future, horizon=horizon)
        assert_frame_equal(out.select(KEYS), ahead)


def test_the_rows_ahead_of_a_wide_frame_are_shared_by_its_targets(base, hourly):
    wide = hourly.with_columns(z=-pl.col("y"), x=pl.col("y"))
    forecaster = base(target_col=["y", "z"], future_covariates=["x"]).fit(wide)
    ahead = forecaster.make_future_frame()
    assert ahead.columns == ["ds"]
    out = forecaster.predict(future=ahead.with_columns(x=pl.lit(0.0)))
    assert out.filter(target="z")["ds"].to_list() == ahead["ds"].to_list()


def test_the_rows_ahead_follow_the_history_that_is_given(base, hourly):
    forecaster = base().fit(pd.DataFrame(hourly.head(300).to_dict(as_series=False)))
    assert isinstance(forecaster.make_future_frame(), pd.DataFrame)
    ahead = forecaster.make_future_frame(hourly)
    assert isinstance(ahead, pl.DataFrame)
    assert ahead["ds"][0] == hourly["ds"][-1] + timedelta(hours=1)


# Newer rows


@pytest.mark.parametrize("pieces", [1, 2, 48])
def test_updates_in_any_pieces_lead_to_the_forecast_of_the_whole(fitted, seasonal, test, pieces):
    whole = fitted.predict(seasonal)
    step = pl.int_range(pl.len()).over("unique_id")
    for piece in range(pieces):
        rows = test.filter(step * pieces // 48 == piece)
        assert fitted.update(rows) is fitted
    assert_frame_equal(fitted.predict(), whole, abs_tol=1e-3)


def test_the_order_of_newer_rows_is_irrelevant(fitted, seasonal, test):
    fitted.update(test.sample(fraction=1, shuffle=True, seed=0))
    assert_frame_equal(fitted.predict(), fitted.predict(seasonal), abs_tol=1e-3)


def test_an_update_with_known_rows_changes_nothing(fitted, train):
    before = fitted.predict()
    fitted.update(train.tail(30))
    assert_frame_equal(fitted.predict(), before, check_exact=True)


def test_newer_rows_of_one_series_leave_the_others(fitted, test):
    key = test["unique_id"][0]
    before = fitted.predict()
    fitted.update(test.filter(unique_id=key))
    after = fitted.predict()
    others = pl.col("unique_id") != key
    assert_frame_equal(after.filter(others), before.filter(others), abs_tol=1e-4)
    moved = after.filter(~others)["ds"] - before.filter(~others)["ds"]
    assert moved.unique().to_list() == [timedelta(hours=48)]


def test_corrected_rows_replace_the_known_ones(fitted, train):
    last = train.group_by("unique_id", maintain_order=True).tail(6)
    lifted = last.with_columns(y=pl.col("y") + 5)
    expected = fitted.predict(
        train.join(last, on=KEYS, how="anti", maintain_order="left").vstack(lifted).sort(KEYS)
    )
    assert_frame_equal(fitted.update(lifted).predict(), expected, abs_tol=1e-3)


def test_the_kept_history_does_not_grow(base, train, test):
    forecaster = base().fit(train)
    kept = forecaster._fitted.history.height
    assert kept < train.height / 2
    forecaster.update(test)
    assert forecaster._fitted.history.height == kept


def test_series_that_are_new_get_forecasts(fitted, train):
    new = train.filter(unique_id=train["unique_id"][0]).with_columns(unique_id=pl.lit("new"))
    out = fitted.update(new).predict()
    assert out["unique_id"].n_unique() == 3
    # Its scale is that of the rows that were kept, which moves values of 100 by less than a half.
    assert_frame_equal(out.filter(unique_id="new"), fitted.predict(new), abs_tol=0.5)


def test_an_updated_forecaster_is_saved_as_it_is(fitted, test, tmp_path):
    fitted.update(test.head(30)).save(tmp_path / "m.tsm")
    loaded = MambaForecaster.load(tmp_path / "m.tsm")
    assert_frame_equal(loaded.predict(), fitted.predict(), check_exact=True)
    assert_frame_equal(
        loaded.update(test).predict(), fitted.update(test).predict(), check_exact=True
    )


def test_updates_keep_the_covariates(base, shop):
    roles = {"future_covariates": ["heat", "sky"], "past_covariates": "flow"}
    forecaster = base(static_covariates=["site"], **roles)
    rank = pl.int_range(pl.len(), 0, -1).over("unique_id")
    forecaster.fit(shop.filter(rank > 48))
    ahead = shop.filter(rank <= 24)
    whole = forecaster.predict(shop.filter(rank > 24), future=ahead)
    out = forecaster.update(shop.filter(rank.is_between(25, 48))).predict(future=ahead)
    assert_frame_equal(out, whole, abs_tol=1e-2)


@pytest.mark.parametrize("dtype", [pl.Int64, pl.UInt8, pl.Float32], ids=str)
def test_newer_rows_keep_their_values_whatever_the_type_of_the_history(base, dtype):
    rng = np.random.default_rng(0)
    whole = pl.DataFrame({"ds": range(200), "y": rng.uniform(0, 9, 200).round()})
    rest = whole.tail(20).with_columns(y=pl.col("y") / 4 - 1)
    forecaster = base(6).fit(whole.head(180).cast({"y": dtype}))
    expected = forecaster.predict(whole.head(180).vstack(rest))
    assert_frame_equal(forecaster.update(rest).predict(), expected, abs_tol=1e-4)


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "lazy"])
def test_newer_rows_may_be_of_another_kind(base, train, test, seasonal, kind):
    make = {
        "pandas": lambda frame: pd.DataFrame(frame.to_dict(as_series=False)),
        "pyarrow": pl.DataFrame.to_arrow,
        "lazy": pl.DataFrame.lazy,
    }[kind]
    forecaster = base().fit(train).update(make(test))
    assert_frame_equal(forecaster.predict(), forecaster.predict(seasonal), abs_tol=1e-3)
    assert forecaster.predict().schema["ds"] == train.schema["ds"]


REFUSED = {
    "no target": (lambda rows: rows.drop("y"), "no column 'y', which the model was fitted with"),
    "no ids": (lambda rows: rows.drop("unique_id"), "column 'unique_id'"),
    "no stamps": (lambda rows: rows.drop("ds"), "no column 'ds'"),
    "infinite": (lambda rows: rows.with_columns(y=pl.lit(np.inf)), "is infinite"),
    "between the steps": (
        lambda rows: rows.with_columns(pl.col("ds").dt.offset_by("7m")),
        "no whole number of steps of '1h'",
    ),
    "text": (lambda rows: rows.cast({"y": pl.String}), "target column 'y' is of type String"),
    "in a zone": (
        lambda rows: rows.with_columns(pl.col("ds").dt.replace_time_zone("Europe/Berlin")),
        "time column 'ds' is of type .*, stamps with a time zone, and in the history",
    ),
    "no frame": (lambda rows: rows["y"].to_list(), "got list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_update_changes_nothing(base, train, test, case):
    change, message = REFUSED[case]
    forecaster = base().fit(train)
    before = forecaster.predict()
    with pytest.raises(FrameError, match=message):
        forecaster.update(change(test))
    assert_frame_equal(forecaster.predict(), before, check_exact=True)
