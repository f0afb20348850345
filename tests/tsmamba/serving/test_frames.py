"""One way from a frame as people send it to an answer, whatever the model."""

import warnings
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.exceptions import NotFittedError

from tsmamba import MambaDetector, MambaForecaster
from tsmamba.errors import (
    CovariateError,
    FrameError,
    HorizonError,
    ParameterError,
    SeriesTooShortError,
)
from tsmamba.serving.frames import score_frame
from tsmamba_datasets import make_seasonal

KEYS = ["unique_id", "ds"]


def shuffled(rows, seed=0):
    return rows.sample(fraction=1.0, shuffle=True, seed=seed)


def iso(rows, form="%Y-%m-%dT%H:%M:%S"):
    return rows.with_columns(pl.col("ds").dt.to_string(form))


def test_a_forecast_is_that_of_predict(forecaster, history):
    expected = forecaster.predict(history)
    assert_frame_equal(score_frame(forecaster, history), expected.sort(KEYS))


def test_the_order_of_rows_does_not_matter_and_no_warning_comes_of_it(forecaster, history):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = score_frame(forecaster, shuffled(history))
    assert_frame_equal(answer, score_frame(forecaster, history))


def test_a_series_is_forecast_as_it_is_by_itself(forecaster, history):
    both = score_frame(forecaster, history)
    for name in ("s0", "s1"):
        alone = score_frame(forecaster, history.filter(unique_id=name))
        assert_frame_equal(alone, both.filter(unique_id=name), rel_tol=1e-5)


FORMS = {
    "text": iso,
    "text with offsets": lambda rows: iso(
        rows.with_columns(pl.col("ds") + timedelta(hours=2)), "%Y-%m-%dT%H:%M:%S+02:00"
    ),
    "zoned": lambda rows: rows.with_columns(pl.col("ds").dt.replace_time_zone("UTC")),
    "nanoseconds": lambda rows: rows.cast({"ds": pl.Datetime("ns")}),
    "pandas": lambda rows: rows.to_pandas(),
    "pandas, seconds": lambda rows: rows.to_pandas().astype({"ds": "datetime64[s]"}),
    "pandas, zoned": lambda rows: rows.to_pandas().assign(
        ds=lambda frame: frame["ds"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    ),
    "pandas, objects": lambda rows: rows.to_pandas().assign(
        ds=pd.Series(rows["ds"].to_list(), dtype=object)
    ),
    "pandas, categories": lambda rows: rows.to_pandas().astype({"unique_id": "category"}),
    "arrow": lambda rows: rows.to_arrow(),
    "other columns": lambda rows: rows.with_columns(note=pl.lit("x")),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_rows_has_the_same_answer_in_its_kind(forecaster, history, form):
    rows = FORMS[form](history)
    answer = score_frame(forecaster, rows)
    assert type(answer) is type(rows)
    answer = answer if isinstance(answer, pl.DataFrame) else pl.DataFrame(answer)
    expected = score_frame(forecaster, history)
    assert_frame_equal(answer, expected.cast({"ds": answer.schema["ds"]}))


@pytest.mark.parametrize("dtype", ["Int64", "float64", "Float64", "object", "int32"])
def test_values_may_be_of_any_type_of_number(forecaster, history, dtype):
    whole = history.with_columns(pl.col("y").round().cast(pl.Int64)).to_pandas()
    answer = score_frame(forecaster, whole.astype({"y": dtype}))
    pd.testing.assert_frame_equal(answer, score_frame(forecaster, whole))


def test_null_and_nan_are_missing_alike(forecaster, history):
    rows = history.to_pandas()
    rows["y"] = rows["y"].round()
    gaps = rows["y"].mask(rows.index % 7 == 3)
    expected = score_frame(forecaster, rows.assign(y=gaps))
    assert not expected.equals(score_frame(forecaster, rows))
    for column in (gaps.astype("Int64"), gaps.astype(object).where(gaps.notna(), None)):
        pd.testing.assert_frame_equal(score_frame(forecaster, rows.assign(y=column)), expected)


def test_numbers_and_gaps_in_an_object_column_are_numbers(forecaster, history):
    rows = history.to_pandas()
    mixed = [float(y) if i % 3 else int(y) for i, y in enumerate(rows["y"])]
    expected = score_frame(forecaster, rows.assign(y=mixed))
    for kind in (float, np.float32, np.float64):
        objects = [kind(y) if i % 3 else int(y) for i, y in enumerate(rows["y"])]
        answer = score_frame(forecaster, rows.assign(y=pd.Series(objects, dtype=object)))
        pd.testing.assert_frame_equal(answer, expected, rtol=1e-5)


def test_ids_of_integers_are_found_in_a_model_of_integers_and_of_text():
    rows = make_seasonal(n_series=2, length=200).with_columns(
        unique_id=pl.col("unique_id").str.tail(1).cast(pl.Int64), y=pl.col("y") * 1_000
    )
    model = MambaForecaster(6, mode="base").fit(rows)
    expected = model.predict(rows).cast({"unique_id": pl.String})
    assert_frame_equal(score_frame(model, rows), expected)
    text = rows.cast({"unique_id": pl.String})
    assert_frame_equal(score_frame(MambaForecaster(6, mode="base").fit(text), rows), expected)


def test_a_model_of_steps_takes_steps(by_step):
    model, rows = by_step
    assert_frame_equal(score_frame(model, rows), model.predict(rows))
    assert_frame_equal(score_frame(model, rows.cast({"ds": pl.Float64})), model.predict(rows))
    with pytest.raises(FrameError, match="was fitted on whole numbers"):
        score_frame(model, rows.with_columns(ds=pl.lit("2024-01-01")))


def test_a_model_of_a_zone_answers_in_utc():
    rows = make_seasonal(length=24 * 40, seed=5).drop("unique_id")
    days = rows.gather_every(24).with_columns(
        pl.col("ds").dt.cast_time_unit("us").dt.replace_time_zone("Europe/Berlin")
    )
    model = MambaForecaster(3, mode="base").fit(days)
    in_utc = days.with_columns(pl.col("ds").dt.convert_time_zone("UTC"))
    answer = score_frame(model, in_utc)
    own = pl.col("ds").dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    assert_frame_equal(answer, model.predict(days).with_columns(own))
    assert_frame_equal(score_frame(model, iso(in_utc, "%Y-%m-%dT%H:%M:%S%:z")), answer)


def test_quantiles_have_columns_without_dots(forecaster, history):
    answer = score_frame(forecaster, history, horizon=3, quantiles=[0.5, 0.025])
    assert answer.columns[2:] == ["MambaForecaster", "MambaForecaster_q2_5", "MambaForecaster_q50"]
    expected = forecaster.predict(history, horizon=3, quantiles=[0.025, 0.5])
    assert answer.rows() == expected.rows()
    assert score_frame(forecaster, history, quantiles=[]).columns[2:] == ["MambaForecaster"]


def test_quantiles_of_the_model_are_the_default(history):
    model = MambaForecaster(3, mode="base", quantiles=[0.1, 0.9]).fit(history)
    assert score_frame(model, history).columns[3:] == ["MambaForecaster_q10", "MambaForecaster_q90"]


def test_a_horizon_may_go_beyond_the_fit_within_limits(forecaster, history):
    most = 16 * forecaster.horizon_
    assert score_frame(forecaster, history, horizon=most).height == 2 * most
    with pytest.raises(HorizonError, match=f"horizon={most + 1} .* {most} at most are accepted"):
        score_frame(forecaster, history, horizon=most + 1)


def with_future(rows, steps):
    """Leave the values of the last steps of each series empty."""
    row = pl.int_range(pl.len())
    known = row.over("unique_id") < pl.len().over("unique_id") - steps
    return rows.with_columns(pl.when(known).then("y"))


def test_rows_after_the_last_value_are_what_is_known_ahead(shop):
    model, rows = shop
    sent = with_future(rows, 12)
    expected = model.predict(
        sent.filter(pl.col("y").is_not_null()), future=sent.filter(pl.col("y").is_null())
    )
    assert_frame_equal(score_frame(model, shuffled(sent)), expected)
    assert score_frame(model, iso(sent).to_pandas()).equals(expected.to_pandas())


def test_what_is_known_ahead_must_be_there(shop):
    model, rows = shop
    with pytest.raises(
        CovariateError, match=r"no row follows .* add the 12 rows ahead .* 'y' left"
    ):
        score_frame(model, rows)
    with pytest.raises(CovariateError, match="lacks 8 of 24 rows: series 's0'"):
        score_frame(model, with_future(rows, 8))
    assert score_frame(model, with_future(rows, 8), horizon=8).height == 16


def test_a_column_of_text_without_any_value_is_not_a_column_of_numbers(shop):
    model, rows = shop
    with pytest.raises(CovariateError, match="future has no value of 'kind'"):
        score_frame(model, with_future(rows, 12).with_columns(kind=pl.lit(None)))


REFUSED = {
    "no rows": (lambda rows: rows.clear(), "has no rows"),
    "no time": (lambda rows: rows.drop("ds"), "no column 'ds'"),
    "no values": (lambda rows: rows.drop("y"), "no column 'y'"),
    "text as values": (lambda rows: rows.cast({"y": pl.String}), "'y' is of type String"),
    "epoch": (lambda rows: rows.with_columns(pl.col("ds").dt.epoch("ms")), "give ISO text"),
    "infinite": (lambda rows: rows.with_columns(y=pl.lit(np.inf)), "'y' of series 's0' .*infinite"),
    "twice": (lambda rows: pl.concat([rows, rows]), "series 's0' has more than one row"),
    "off the grid": (
        lambda rows: rows.with_columns(pl.col("ds") + pl.duration(minutes=pl.int_range(pl.len()))),
        "series 's0'",
    ),
    "no id": (lambda rows: rows.with_columns(unique_id=pl.lit(None)), "no id in column"),
    "nothing but gaps": (lambda rows: rows.with_columns(y=pl.lit(None)), "missing values only"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_a_reason(forecaster, history, case):
    spoil, reason = REFUSED[case]
    with pytest.raises(FrameError, match=reason):
        score_frame(forecaster, spoil(history))
    with pytest.raises(FrameError, match=reason):
        score_frame(forecaster, spoil(history).to_pandas())


def test_series_of_less_than_a_season_are_refused(forecaster, history):
    short = history.group_by("unique_id", maintain_order=True).tail(forecaster.season_length_ - 1)
    with pytest.raises(SeriesTooShortError, match=r"series 's0' is too short \(2 such .*: 23 rows"):
        score_frame(forecaster, short)


@pytest.mark.parametrize(
    "options", [{"horizon": 0}, {"horizon": 2.5}, {"quantiles": [1.5]}, {"quantiles": ["a"]}]
)
def test_options_are_checked_before_rows_are_read(forecaster, options):
    rows = pl.DataFrame({"unique_id": ["a"], "ds": ["yesterday"], "y": [1.0]})
    with pytest.raises(ParameterError, match=next(iter(options))):
        score_frame(forecaster, rows, **options)


def test_rows_of_a_detector_are_scored_series_by_series(detector, history):
    answer = score_frame(detector, shuffled(history))
    assert answer.columns == [*KEYS, "score", "p_value", "is_anomaly", "status"]
    assert_frame_equal(answer.select(KEYS), history.select(KEYS).sort(KEYS))
    for (name,), rows in history.group_by("unique_id"):
        one = answer.filter(unique_id=name)
        assert np.array_equal(one["score"], detector.anomaly_score(rows))
        assert np.array_equal(one["p_value"], detector.p_value(rows))
        assert np.array_equal(one["is_anomaly"], detector.predict(rows) == -1)


def test_a_row_without_a_score_says_why(history):
    rows = history.filter(unique_id="s0")
    delayed = MambaDetector(mode="streaming", delay=3, memory_size=48).fit(rows)
    row = pl.int_range(pl.len())
    gap = rows.with_columns(y=pl.when(~row.is_between(200, 250)).then("y"))
    answer = score_frame(delayed, gap)
    assert answer["status"].tail(3).to_list() == ["delayed"] * 3
    assert answer["status"][0] == "warmup"
    assert answer["status"][220] == "missing"
    unscored = answer["score"].is_null()
    assert answer.filter(unscored)["status"].is_in(["delayed", "warmup", "missing"]).all()
    assert answer.filter(~unscored)["status"].is_in(["ok", "drift"]).all()
    assert not answer.filter(unscored)["is_anomaly"].any()


def test_a_detector_of_an_array_takes_rows_without_names_times_and_ids(rng):
    detector = MambaDetector("tiny").fit(rng.normal(size=(200, 2)))
    rows = pl.DataFrame({"a": [0.0, 9.0], "b": [0.0, None]})
    answer = score_frame(detector, rows)
    assert answer.columns == ["score", "p_value", "is_anomaly", "status"]
    assert answer["is_anomaly"].to_list() == [False, True]


def test_a_detector_names_series_and_column_of_what_it_refuses(detector, history):
    infinite = history.with_columns(
        y=pl.when(pl.col("unique_id") == "s1").then(pl.lit(np.inf)).otherwise("y")
    )
    with pytest.raises(FrameError, match="series 's1': column 'y' holds infinity"):
        score_frame(detector, infinite)
    with pytest.raises(FrameError, match="lacks"):
        score_frame(detector, history.rename({"y": "z"}))
    with pytest.raises(FrameError, match="300 of 600 rows have nothing in column 'unique_id'"):
        score_frame(
            detector, history.with_columns(unique_id=pl.col("unique_id").replace({"s1": None}))
        )
    with pytest.raises(FrameError, match="was fitted on dates or stamps"):
        score_frame(detector, history.with_columns(pl.col("ds").dt.epoch("ms")))


def test_lines_of_a_log_get_their_records(log_detector):
    lines = ["job 7 done in 22 ms", "disk failed", "job 8 done in 23 ms"]
    expected = log_detector.score(lines)
    answer = score_frame(log_detector, pl.DataFrame({"line": lines}))
    told = ["score", "is_anomaly", "reason", "template", "message"]
    assert_frame_equal(answer.select(told), expected.select(told))
    assert score_frame(log_detector, pd.DataFrame({"line": lines}))["score"].tolist() == (
        expected["score"].to_list()
    )


def test_times_of_a_log_may_be_text_with_an_offset(log_detector):
    rows = pl.DataFrame({"message": ["job 1 done in 22 ms"], "time": ["2024-01-01T01:00+01:00"]})
    assert str(score_frame(log_detector, rows)["time"].item()) == "2024-01-01 00:00:00"


def test_only_forecasts_take_options(detector, log_detector, history):
    for model in (detector, log_detector):
        with pytest.raises(ParameterError, match="horizon=3 is for forecasts, and the model is a"):
            score_frame(model, history, horizon=3)


def test_other_models_other_frames_and_unfitted_models_are_refused(forecaster, history):
    with pytest.raises(ParameterError, match="a model of type str"):
        score_frame("model", history)
    with pytest.raises(FrameError, match="got list"):
        score_frame(forecaster, [1, 2])
    with pytest.raises(NotFittedError):
        score_frame(MambaForecaster(), history)


def test_no_answer_holds_a_nan_or_an_infinity(forecaster, history, monkeypatch):
    predict = MambaForecaster.predict

    def broken(*args, **options):
        bound = pl.Series([np.nan, np.inf, -np.inf] * 8)
        return predict(*args, **options).with_columns(bound.alias("MambaForecaster-lo-90"))

    monkeypatch.setattr(MambaForecaster, "predict", broken)
    answer = score_frame(forecaster, history)
    assert answer["MambaForecaster-lo-90"].null_count() == 24
    assert answer["MambaForecaster"].null_count() == 0
