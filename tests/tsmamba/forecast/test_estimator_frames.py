"""Every kind of frame a user may bring, and shapes of data at the edge of the usual."""

import warnings
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster
from tsmamba.errors import FrameWarning

POINT = "MambaForecaster"


def to_pandas(frame):
    return pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


KINDS = {
    "polars": (lambda frame: frame, pl.DataFrame),
    "lazy": (lambda frame: frame.lazy(), pl.DataFrame),
    "pandas": (to_pandas, pd.DataFrame),
    "pyarrow": (lambda frame: frame.to_arrow(), pa.Table),
}


def days(length, dtype=pl.Date):
    stamps = pl.date_range(date(2020, 1, 1), date(2035, 1, 1), "1d", eager=True).head(length)
    return stamps.cast(dtype)


def weekly(ds, **columns):
    """A series of a week's season at given stamps."""
    noise = np.random.default_rng(0).normal(size=len(ds))
    y = 10 + 3 * np.sin(2 * np.pi * np.arange(len(ds)) / 7) + 0.3 * noise
    return pl.DataFrame({"ds": ds, "y": y, **columns})


@pytest.fixture(scope="module")
def forecast(base):
    """Fit the base on a frame and predict a week."""

    def run(frame, **kwargs):
        return base(7, **kwargs).fit(frame).predict()

    return run


# Libraries


@pytest.mark.parametrize("kind", KINDS)
def test_answers_come_back_in_kind(base, seasonal, kind):
    make, expected = KINDS[kind]
    history = seasonal.filter(pl.int_range(pl.len()).over("unique_id") < 300)
    given = make(history)
    forecaster = base().fit(given)
    answers = {
        "predict": forecaster.predict(),
        "other": forecaster.predict(given),
        "backtest": forecaster.cross_validation(given, use_fitted=True),
    }
    plain = base().fit(history)
    for answer in answers.values():
        assert type(answer) is expected
    np.testing.assert_array_equal(np.asarray(answers["predict"][POINT]), plain.predict()[POINT])
    assert pl.DataFrame(answers["predict"]).columns == plain.predict().columns
    assert pl.DataFrame(answers["backtest"])["cutoff"].dtype.is_temporal()
    assert forecaster.score(make(seasonal)) == pytest.approx(plain.score(seasonal))


def test_a_frame_may_be_of_another_kind_than_the_fitted_one(base, hourly):
    forecaster = base().fit(hourly)
    assert isinstance(forecaster.predict(to_pandas(hourly)), pd.DataFrame)
    assert isinstance(forecaster.predict(), pl.DataFrame)


def test_a_loaded_forecaster_answers_in_the_kind_it_was_fitted_on(base, hourly, tmp_path):
    base().fit(to_pandas(hourly)).save(tmp_path / "m")
    assert isinstance(MambaForecaster.load(tmp_path / "m").predict(), pd.DataFrame)


# Columns


def test_columns_may_have_any_name(base, hourly):
    renamed = hourly.rename({"ds": "when", "y": "load"})
    out = base(time_col="when", target_col="load").fit(renamed).predict()
    assert out.columns[:2] == ["when", POINT]


def test_other_columns_are_ignored(forecast):
    plain, more = weekly(days(90)), weekly(days(90), note=["a"] * 90, z=[None] * 90)
    assert_frame_equal(forecast(plain), forecast(more), check_exact=True)


def test_a_wide_frame_is_a_series_for_each_target(forecast):
    frame = weekly(days(90)).with_columns(a=pl.col("y"), b=pl.col("y") * 2 + 100)
    out = forecast(frame, target_col=["a", "b"])
    assert out.columns[:3] == ["ds", "target", POINT]
    a, b = (out.filter(target=name)[POINT].to_numpy() for name in "ab")
    assert len(a) == 7
    np.testing.assert_allclose(b, 2 * a + 100, rtol=1e-4)


def test_a_wide_frame_can_be_judged(base):
    frame = weekly(days(120)).with_columns(a=pl.col("y"), b=pl.col("y") * 2 + 100).drop("y")
    forecaster = base(7, target_col=["a", "b"]).fit(frame.head(100))
    assert -1 < forecaster.score(frame.tail(20)) < 0
    out = forecaster.cross_validation(frame, n_windows=2)
    assert out.columns[:5] == ["ds", "cutoff", "target", "y", POINT]
    assert out.height == 2 * 2 * 7
    true = frame.unpivot(index="ds", variable_name="target", value_name="true")
    joined = out.join(true, on=["ds", "target"])
    np.testing.assert_allclose(joined["y"], joined["true"], rtol=1e-5)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Categorical, pl.Enum(["1", "2"])])
def test_ids_keep_their_type(base, dtype):
    frame = pl.concat(
        weekly(days(length)).with_columns(unique_id=pl.lit(key))
        for key, length in (("2", 90), ("1", 60))
    ).cast({"unique_id": dtype})
    forecaster = base(7).fit(frame.filter(pl.col("ds") < date(2020, 2, 20)))
    out = forecaster.predict()
    assert out["unique_id"].dtype == dtype
    assert out["unique_id"].cast(pl.String).unique(maintain_order=True).to_list() == ["2", "1"]
    assert forecaster.predict(frame)["unique_id"].dtype == dtype
    assert np.isfinite(forecaster.score(frame))


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Date,
        pl.Datetime("ms"),
        pl.Datetime("us"),
        pl.Datetime("ns"),
        pl.Datetime("us", "Europe/Berlin"),
        pl.Int8,
        pl.Int16,
        pl.Int32,
        pl.Int64,
        pl.UInt8,
        pl.UInt16,
        pl.UInt32,
        pl.UInt64,
    ],
    ids=str,
)
def test_stamps_keep_their_type(base, dtype):
    if dtype.is_integer():
        ds = pl.Series("ds", range(20, 120), dtype=dtype)
    elif dtype == pl.Date:
        ds = days(100)
    else:
        ds = days(100, pl.Datetime(dtype.time_unit)).dt.replace_time_zone(dtype.time_zone)
    forecaster = base(7, season_length=7).fit(weekly(ds[:90]))
    out = forecaster.predict()
    assert out["ds"].dtype == ds.dtype
    assert out["ds"].to_list() == ds[90:97].to_list()
    backtest = forecaster.cross_validation(weekly(ds), n_windows=2)
    assert backtest["cutoff"].dtype == backtest["ds"].dtype == ds.dtype
    assert np.isfinite(forecaster.score(weekly(ds)))


@pytest.mark.parametrize(
    "convert",
    [
        pl.col("y").cast(pl.Float32),
        pl.col("y").cast(pl.Int16),
        pl.col("y").cast(pl.UInt8),
        pl.col("y").cast(pl.Decimal(18, 6)),
    ],
    ids=["Float32", "Int16", "UInt8", "Decimal"],
)
def test_targets_may_be_any_numbers(forecast, convert):
    out = forecast(weekly(days(90)).with_columns(convert))
    assert out[POINT].dtype == pl.Float64
    expected = forecast(weekly(days(90)))[POINT]
    np.testing.assert_allclose(out[POINT], expected, atol=1.5)


def test_decimals_of_pandas_are_numbers(forecast):
    frame = to_pandas(weekly(days(90)))
    frame["y"] = [Decimal(f"{y:.6f}") for y in frame["y"]]
    np.testing.assert_allclose(forecast(frame)[POINT], forecast(weekly(days(90)))[POINT], atol=1e-3)


# Shapes


def test_series_may_be_of_any_length(base):
    frame = pl.concat(
        weekly(days(length)).with_columns(unique_id=pl.lit(f"s{length}"))
        for length in (400, 1, 2, 40, 150)
    )
    out = base(7).fit(frame).predict()
    assert out.height == 5 * 7
    assert out[POINT].is_finite().all()
    lengths = out.group_by("unique_id", maintain_order=True).len()
    assert lengths["unique_id"].to_list() == ["s400", "s1", "s2", "s40", "s150"]


def test_many_series_of_unequal_lengths(base):
    rng = np.random.default_rng(0)
    lengths = rng.integers(30, 120, size=200)
    frame = pl.concat(
        weekly(days(int(length))).with_columns(unique_id=pl.lit(number))
        for number, length in enumerate(lengths)
    )
    rank = pl.int_range(pl.len(), 0, -1).over("unique_id")
    forecaster = base(7).fit(frame.filter(rank > 7))
    assert forecaster.predict().height == 200 * 7
    assert -1 < forecaster.score(frame) < 0


def test_a_series_shorter_than_the_context_is_forecast(base, hourly):
    forecaster = base(context_length=300).fit(hourly)
    out = forecaster.predict(hourly.tail(10))
    assert out[POINT].is_finite().all()


@pytest.mark.parametrize("length", [5, 6, 8, 12])
def test_the_shortest_series_are_forecast(forecast, length):
    out = MambaForecaster(mode="base").fit(weekly(days(length))).predict()
    assert out[POINT].is_finite().all()


@pytest.mark.parametrize("value", [0.0, 7.5, -1e6])
def test_a_constant_series_stays_constant(forecast, value):
    out = forecast(weekly(days(60)).with_columns(y=pl.lit(value)))
    for name in out.columns[1:]:
        np.testing.assert_allclose(out[name], value, rtol=1e-3, atol=1e-3)


def test_a_constant_series_among_others_stays_constant(base):
    moving = weekly(days(90)).with_columns(unique_id=pl.lit("a"))
    still = moving.with_columns(unique_id=pl.lit("b"), y=pl.lit(4.0))
    out = base(7).fit(pl.concat([moving, still])).predict()
    np.testing.assert_allclose(out.filter(unique_id="b")[POINT], 4, rtol=0.02)


def test_missing_values_and_missing_rows_are_the_same_gaps(forecast):
    frame = weekly(days(200))
    gap = pl.int_range(pl.len()).is_in([5, 40, 41, 42, 43, 120, 150])
    absent = forecast(frame.filter(~gap))
    for missing in (None, float("nan")):
        holed = frame.with_columns(y=pl.when(gap).then(pl.lit(missing, pl.Float64)).otherwise("y"))
        assert_frame_equal(forecast(holed), absent, check_exact=True)
    np.testing.assert_allclose(absent[POINT], forecast(frame)[POINT], atol=0.5)


def test_a_long_gap_does_no_harm(forecast):
    frame = weekly(days(300))
    holed = frame.filter(~pl.int_range(pl.len()).is_between(150, 220))
    np.testing.assert_allclose(forecast(holed)[POINT], forecast(frame)[POINT], atol=1)


@pytest.mark.parametrize("missing", ["rows", "values"])
def test_a_series_that_was_silent_for_long_is_forecast_from_what_it_has(base, missing):
    frame = weekly(days(600))
    silent = pl.int_range(pl.len()).is_between(400, 590)
    if missing == "rows":
        holed = frame.filter(~silent)
    else:
        holed = frame.with_columns(y=pl.when(~silent).then("y"))
    forecaster = base(7, context_length=28).fit(holed)
    assert_frame_equal(forecaster.predict(), forecaster.predict(holed), abs_tol=1e-3)


def test_a_series_that_fell_silent_is_forecast(base):
    speaking = weekly(days(600)).with_columns(unique_id=pl.lit("a"))
    silent = speaking.with_columns(
        unique_id=pl.lit("b"), y=pl.when(pl.col("ds") < date(2021, 1, 1)).then("y")
    )
    frame = pl.concat([speaking, silent])
    forecaster = base(7, context_length=28).fit(frame)
    assert_frame_equal(forecaster.predict(), forecaster.predict(frame), abs_tol=1e-3)


def test_unsorted_rows_are_sorted_with_one_warning(base):
    frame = weekly(days(90))
    mixed = frame.sample(fraction=1, shuffle=True, seed=0)
    sorted_first = base(7).fit(frame)
    with pytest.warns(FrameWarning, match="rows were not in order of 'ds'") as caught:
        forecaster = base(7).fit(mixed)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_frame_equal(forecaster.predict(), sorted_first.predict(), check_exact=True)
    with pytest.warns(FrameWarning) as caught:
        base(7).cross_validation(mixed, n_windows=3, refit=True)
    assert len(caught) == 1


def test_the_calendar_is_used_where_there_is_one(small, seasonal):
    history = seasonal.filter(pl.int_range(pl.len()).over("unique_id") < 700)
    assert small().fit(history)._fitted.model.cycles
    assert not small(calendar=False).fit(history)._fitted.model.cycles


def test_the_frequency_may_be_given(base):
    sparse = weekly(days(200)).filter(pl.int_range(pl.len()) % 2 == 0)
    out = base(4, freq="1d").fit(sparse).predict()
    assert out["ds"].diff().drop_nulls().unique().dt.total_days().to_list() == [1]


def test_month_ends_stay_month_ends(base):
    ends = [
        d
        for d in pl.date_range(date(2015, 1, 31), date(2022, 12, 31), "1d", eager=True)
        if d.month != date.fromordinal(d.toordinal() + 1).month
    ]
    frame = pl.DataFrame({"ds": ends}).with_columns(y=pl.col("ds").dt.month().cast(pl.Float64))
    forecaster = base(3).fit(frame.head(80))
    assert forecaster.season_length_ == 12
    assert forecaster.predict()["ds"].to_list() == ends[80:83]
    assert forecaster.cross_validation(frame, n_windows=2)["ds"].to_list()[-3:] == ends[-3:]


def test_summer_time_does_not_break_the_day(base):
    ds = pl.datetime_range(
        datetime(2024, 3, 1), datetime(2024, 4, 30), "1d", eager=True, time_zone="Europe/Berlin"
    )
    out = base(7).fit(weekly(ds[:29])).predict()
    assert out["ds"].to_list() == ds[29:36].to_list()
