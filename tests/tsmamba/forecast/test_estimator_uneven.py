"""Forecasts in uneven time: what rows, gaps and units of time mean to them."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster, advise
from tsmamba.errors import CovariateError, FrameError, FrequencyError
from tsmamba.plotting import plot_forecast

POINT = "MambaForecaster"
KEYS = ["unique_id", "ds"]
HORIZON = 6


def walk(length, seed):
    """An Ornstein-Uhlenbeck process seen at random times, now densely and now seldom."""
    rng = np.random.default_rng(seed)
    pace = rng.choice([0.3, 3.0], size=length // 50 + 1).repeat(50)[:length]
    gaps = 1 + np.round(100 * pace * rng.exponential(size=length)).astype(np.int64)
    kept = np.exp(-gaps / 500)
    y = rng.normal(size=length)
    for step in range(1, length):
        y[step] = kept[step] * y[step - 1] + np.sqrt(1 - kept[step] ** 2) * y[step]
    return pl.DataFrame({"ds": gaps.cumsum(), "y": 50 + 10 * y})


@pytest.fixture(scope="module")
def events():
    parts = [walk(700, 0), walk(600, 1)]
    frames = [
        part.with_columns(unique_id=pl.lit(key)) for key, part in zip("ab", parts, strict=True)
    ]
    return pl.concat(frames).select(*KEYS, "y")


@pytest.fixture(params=["base", "fast", "full"])
def make(request, base, fast, small, any_training):
    kind = {"base": base, "fast": fast, "full": small}[request.param]

    def of(**kwargs):
        return kind(
            HORIZON, **{"freq": "uneven", "context_length": 48, "preset": "sensor"} | kwargs
        )

    return of


def clocked(events, unit=1):
    """The same with date-times for whole numbers."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    return events.with_columns(ds=start + unit * pl.duration(seconds=pl.col("ds")))


def end(events, steps):
    """The last rows of each series."""
    return events.filter(pl.int_range(pl.len(), 0, -1).over("unique_id") <= steps)


# What a forecast is


def test_the_forecast_goes_on_by_the_usual_gap(make, events):
    forecaster = make().fit(events)
    gap = events["ds"].diff().filter(events["unique_id"].rle_id().diff() == 0).median()
    assert forecaster.freq_.uneven
    assert forecaster.freq_.every == pytest.approx(gap, abs=1)
    assert forecaster.season_length_ == 1
    last = events.group_by("unique_id", maintain_order=True).agg(pl.col("ds").last())
    out = forecaster.predict()
    steps = np.tile(np.arange(1, HORIZON + 1), 2) * forecaster.freq_.every
    assert (out["ds"] - last["ds"].to_numpy().repeat(HORIZON)).to_list() == steps.tolist()
    assert_frame_equal(forecaster.make_future_frame(), out.select(KEYS))
    assert forecaster.predict(horizon=15).head(HORIZON).equals(out.head(HORIZON))


@pytest.mark.parametrize("kind", ["fast", "full"])
def test_the_same_values_at_other_times_have_another_forecast(
    kind, fast, small, any_training, events
):
    forecaster = {"fast": fast, "full": small}[kind](HORIZON, freq="uneven", preset="sensor")
    forecaster.fit(events)
    last = pl.col("ds").last().over("unique_id")
    slower = events.with_columns(ds=last - 3 * (last - pl.col("ds")))
    one, other = forecaster.predict(events), forecaster.predict(slower)
    assert one["ds"].equals(other["ds"])
    assert (one[POINT] - other[POINT]).abs().max() > 1e-4
    base = [forecaster.predict(df, base_only=True) for df in (events, slower)]
    assert base[0].equals(base[1])


def test_dates_and_integers_and_any_zone_will_do(make, events):
    plain = make().fit(events).predict()
    dates = events.with_columns(ds=date(2024, 1, 1) + pl.duration(days=pl.col("ds") // 10))
    dates = dates.unique(KEYS, maintain_order=True)
    assert make().fit(dates).predict()["ds"].dtype == pl.Date
    out = make(calendar=False).fit(clocked(events)).predict()
    assert out["ds"].dtype == pl.Datetime("us", "UTC")
    np.testing.assert_allclose(out[POINT], plain[POINT], rtol=1e-5)


def test_the_calendar_is_that_of_the_true_stamps(small, any_training, events):
    hours = clocked(events, unit=60)
    forecaster = small(HORIZON, freq="uneven", preset="sensor").fit(hours)
    assert forecaster._fitted.model.cycles
    later = hours.with_columns(pl.col("ds") + timedelta(hours=9))
    one, other = forecaster.predict(hours), forecaster.predict(later)
    assert (one[POINT] - other[POINT]).abs().max() > 0.01


# Laws


def test_rows_without_a_value_are_nothing_but_time(make, events):
    missing = pl.int_range(pl.len()) % 7 == 3
    holes = events.with_columns(y=pl.when(~missing).then("y"))
    one, other = (make().fit(df).predict() for df in (holes, events.filter(~missing)))
    assert_frame_equal(one, other, check_exact=True)


def test_the_time_of_a_row_passes_in_a_wide_frame_too(make, events):
    """Rows without any value are left out; where one column has none, its step is missing."""
    step = pl.int_range(pl.len())
    wide = events.filter(pl.col("unique_id") == "a").select(
        "ds",
        y=pl.when(~step.is_between(500, 600) & (step % 5 != 0)).then("y"),
        z=pl.when(step % 5 != 0).then(pl.col("y").shift(3)),
    )
    rows = wide.filter(pl.any_horizontal(pl.col("y", "z").is_not_null()))
    assert rows.height < wide.height
    one, other = (make(target_col=["y", "z"]).fit(df).predict() for df in (wide, rows))
    assert one["target"].to_list() == ["y"] * HORIZON + ["z"] * HORIZON
    assert_frame_equal(one, other, check_exact=True)


@pytest.mark.parametrize("factor", [7, 1000])
def test_the_unit_of_time_changes_nothing_but_the_stamps(make, events, factor):
    one, other = (make().fit(events.with_columns(pl.col("ds") * c)) for c in (1, factor))
    assert other.freq_.every == factor * one.freq_.every
    plain = one.predict()
    assert_frame_equal(other.predict(), plain.with_columns(pl.col("ds") * factor), abs_tol=1e-3)


@pytest.mark.parametrize("kind", ["base", "fast"])
def test_a_regular_frame_is_an_uneven_one(kind, base, fast, any_corrector, events):
    make = {"base": base, "fast": fast}[kind]
    rows = events.with_columns(ds=2 * pl.int_range(pl.len()).over("unique_id"))
    one, other = (make(HORIZON, season_length=1, freq=freq).fit(rows) for freq in (2, "uneven"))
    assert_frame_equal(one.predict(), other.predict(), abs_tol=0 if kind == "base" else 1e-3)


def test_the_order_of_series_is_irrelevant(base, fast, any_corrector, events):
    for kind in (base, fast):
        forecaster = kind(HORIZON, freq="uneven", preset="sensor")
        turned = events.sort("unique_id", "ds", descending=[True, False])
        one, other = (forecaster.fit(df).predict().sort(KEYS) for df in (events, turned))
        assert forecaster.freq_.uneven
        assert_frame_equal(one.select(*KEYS, POINT), other.select(*KEYS, POINT), abs_tol=1e-2)


def test_a_saved_forecaster_keeps_the_usual_gap(make, events, tmp_path):
    forecaster = make().fit(events)
    forecaster.save(tmp_path / "model.tsm")
    loaded = MambaForecaster.load(tmp_path / "model.tsm")
    assert loaded.freq_ == forecaster.freq_
    assert_frame_equal(loaded.predict(), forecaster.predict(), check_exact=True)
    denser = events.with_columns(pl.col("ds") // 2 + pl.int_range(pl.len()))
    assert_frame_equal(loaded.predict(denser), forecaster.predict(denser), check_exact=True)
    assert loaded.predict(denser)["ds"].diff()[1] == forecaster.freq_.every


def test_newer_rows_are_taken_in_as_if_they_had_always_been_there(make, events):
    newer = end(events, 40)
    forecaster = make().fit(events.join(newer, on=KEYS, how="anti"))
    whole = forecaster.predict(events)
    assert_frame_equal(forecaster.update(newer).predict(), whole, abs_tol=1e-3)


def test_newer_rows_without_a_value_change_nothing(make, events):
    forecaster = make().fit(events)
    before = forecaster.predict()
    ahead = forecaster.make_future_frame().with_columns(y=pl.lit(None, pl.Float64))
    assert_frame_equal(forecaster.update(ahead).predict(), before, abs_tol=1e-4)


# Rolling origins


def test_an_origin_knows_nothing_of_the_stamps_and_values_after_it(make, events):
    forecaster = make().fit(events)
    one = forecaster.cross_validation(events, use_fitted=True)
    before = events.join(end(events, HORIZON), on=KEYS, how="anti")
    expected = forecaster.predict(before)
    assert_frame_equal(one.select(POINT), expected.select(POINT), abs_tol=1e-3)
    rows = one.select(*KEYS, "y").join(events, on=KEYS)
    assert rows.height == one.height  # at their true stamps, beside their true values
    np.testing.assert_allclose(rows["y"], rows["y_right"], rtol=1e-5)
    last = before.group_by("unique_id", maintain_order=True).agg(pl.col("ds").last())
    assert one["cutoff"].unique(maintain_order=True).to_list() == last["ds"].to_list()


@pytest.mark.parametrize("refit", [False, True])
def test_every_origin_is_fitted_in_uneven_time(base, events, refit):
    out = base(HORIZON, freq="uneven").cross_validation(events, n_windows=3, refit=refit)
    assert out.height == 3 * HORIZON * 2
    assert out[POINT].is_finite().all()
    assert out["ds"].is_in(events["ds"].implode()).all()


def test_rows_after_the_history_are_scored(make, events):
    newer = end(events, 30)
    forecaster = make().fit(events.join(newer, on=KEYS, how="anti"))
    assert forecaster.score(newer) == pytest.approx(forecaster.score(end(events, 60)), rel=1e-3)
    out = forecaster.cross_validation(events, n_windows=5, use_fitted=True)
    error = (out["y"] - out[POINT]).abs().mean()
    assert forecaster.score(newer, metric="mae") == pytest.approx(-error, rel=1e-3)
    with pytest.raises(FrameError, match="has no row after"):
        forecaster.score(events.join(newer, on=KEYS, how="anti"))


# Covariates, weights, and what looks at frames


def test_covariates_and_weights_stand_beside_their_rows(base, events):
    heat = np.random.default_rng(2).normal(size=events.height)
    columns = {"heat": heat, "w": 1.0 + (heat > 0)}
    shop = events.with_columns(
        pl.col("y") + 20 * heat, **{k: pl.Series(v) for k, v in columns.items()}
    )
    forecaster = base(HORIZON, freq="uneven", future_covariates=["heat"], weight_col="w")
    forecaster.fit(shop)
    assert forecaster.report_["effects"].startswith("used")
    ahead = forecaster.make_future_frame()
    cold, hot = (forecaster.predict(future=ahead.with_columns(heat=pl.lit(x))) for x in (-1.0, 1.0))
    assert (hot[POINT] - cold[POINT]).min() > 20
    moved = ahead.with_columns(pl.col("ds") + 1, heat=pl.lit(0.0))
    with pytest.raises(CovariateError, match="future lacks 12 of 12 rows: series 'a' at ds="):
        forecaster.predict(future=moved)


def test_a_picture_and_an_advice_take_uneven_stamps(make, events):
    forecast = make().fit(events).predict()
    titles = [axes.get_title(loc="left") for axes in plot_forecast(events, forecast).axes]
    assert titles == ["a, 6 steps ahead", "b, 6 steps ahead"]
    facts = advise(events, freq="uneven").facts
    assert (facts.season, facts.missing_share) == (1, 0.0)
    assert facts.step.endswith("(uneven)")


def test_without_the_word_uneven_stamps_are_refused(base, events):
    with pytest.raises(FrequencyError, match="pass freq='uneven' to take each row as a step"):
        base(HORIZON).fit(clocked(events, unit=60).with_columns(pl.col("ds").dt.offset_by("1s")))
