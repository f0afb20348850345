import warnings
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.base import clone

from tsmamba import MambaForecaster
from tsmamba.errors import FrameWarning

POINT, LOW, HIGH = (
    "MambaForecaster", "MambaForecaster-lo-90", "MambaForecaster-hi-90"
)  # fmt: skip
CODES = ["HR", "Lactate", "Temp"]


def to_pandas(frame):
    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


@pytest.fixture(scope="module")
def answers(fitted, others):
    return fitted.predict(others.events)


def times_after(answers, subject):
    return answers.filter(subject_id=subject)["time"].unique().sort().to_list()


# What it answers


def test_every_code_is_told_at_the_end_of_each_bin(fitted, answers, others):
    assert answers.columns == ["subject_id", "time", "code", POINT, LOW, HIGH]
    assert len(answers) == 40 * 3 * 3
    assert answers["subject_id"].unique(maintain_order=True).to_list() == list(range(1_000, 1_040))
    assert answers["code"].head(3).to_list() == fitted.codes_ == CODES
    width = fitted.report_["bin"]
    last = others.of(1_000)["time"].max()
    first, second, third = times_after(answers, 1_000)
    assert last < first <= last + 2 * width
    assert (second - first, third - second) == (pytest.approx(width), pytest.approx(width))
    assert answers[POINT].null_count() == 0


def test_forecasts_lie_in_their_intervals_and_in_what_was_seen(fitted, answers, others):
    assert (answers[LOW] <= answers[POINT]).all() and (answers[POINT] <= answers[HIGH]).all()
    assert (answers[LOW] < answers[HIGH]).all()
    for code in CODES:
        scale = fitted._events.reader.vocabulary.codes[code]
        told = answers.filter(code=code)
        assert told[LOW].min() >= scale.low and told[HIGH].max() <= scale.high


def test_the_named_rows_are_those_of_all(fitted, answers, others):
    wanted = answers.select("subject_id", "time", "code").sample(50, seed=1)
    found = fitted.predict(others.events, X_df=wanted)
    expected = wanted.join(answers, on=["subject_id", "time", "code"], maintain_order="left")
    assert_frame_equal(found, expected)


def test_without_codes_all_are_told_in_their_order(fitted, answers, others):
    wanted = answers.select("subject_id", "time").unique(maintain_order=True)
    assert_frame_equal(fitted.predict(others.events, X_df=wanted), answers)


def test_any_time_in_a_bin_is_answered_alike(fitted, answers, others):
    end = times_after(answers, 1_003)[1]
    at = pl.DataFrame({"subject_id": 1_003, "time": [end - 0.5 * fitted.report_["bin"], end]})
    told = fitted.predict(others.events, X_df=at)
    np.testing.assert_array_equal(told[POINT][:3], told[POINT][3:])


def test_what_is_left_of_the_last_bin_is_told_as_the_next(fitted, others):
    stay = pl.DataFrame({"subject_id": 1, "time": [0.0, 3.05], "HR": [80.0, 90.0]})
    soon = pl.DataFrame({"subject_id": 1, "time": [3.06, 3.05 + fitted.report_["bin"]]})
    told = fitted.predict(stay, X_df=soon)
    np.testing.assert_array_equal(told[POINT][:3], told[POINT][3:])


def test_quantiles_and_levels_are_columns(fitted, answers, others):
    told = fitted.predict(others.events, quantiles=[0.05, 0.5])
    assert told.columns[3:] == [POINT, "MambaForecaster_ql0.05", "MambaForecaster_ql0.5"]
    np.testing.assert_allclose(told["MambaForecaster_ql0.05"], answers[LOW])
    wider = fitted.predict(others.events, level=[50, 95])
    assert (wider["MambaForecaster-lo-95"] <= wider["MambaForecaster-lo-50"]).all()


def test_a_shorter_horizon_has_the_first_bins(fitted, answers, others):
    shorter = fitted.predict(others.events, horizon=1)
    first = answers.group_by("subject_id", maintain_order=True).head(3)
    assert_frame_equal(shorter, first)


# Laws


def test_a_stay_is_forecast_alike_alone_and_among_others(fitted, answers, others):
    for subject in (1_000, 1_013, 1_039):
        alone = fitted.predict(others.of(subject))
        assert_frame_equal(alone, answers.filter(subject_id=subject), abs_tol=1e-4)


def test_the_order_of_rows_does_not_matter(fitted, answers, others):
    mixed = fitted.predict(others.events.sample(fraction=1, shuffle=True, seed=5))
    order = ["subject_id", "time", "code"]
    assert_frame_equal(mixed.sort(order), answers.sort(order), abs_tol=1e-4)


def test_frames_of_other_libraries_are_answered_in_kind(fitted, answers, others):
    found = fitted.predict(to_pandas(others.events))
    assert type(found) is pd.DataFrame
    assert_frame_equal(pl.DataFrame(found.to_dict("list")), answers)
    arrow = fitted.predict(
        others.events.to_arrow(), X_df=to_pandas(answers[["subject_id", "time"]])
    )
    assert arrow.num_rows == 3 * len(answers)
    assert_frame_equal(fitted.predict(others.events.lazy()), answers)


def test_a_wide_frame_is_answered_as_the_long_one(fitted, answers, others):
    wide = others.events.pivot("code", index=["subject_id", "time"], values="numeric_value")
    assert_frame_equal(fitted.predict(wide), answers)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_stamps_durations_and_hours_are_one(fitted, answers, others, zone):
    def shifted(frame):
        since = pl.duration(microseconds=(pl.col("time") * 3.6e9).round().cast(pl.Int64))
        return frame.with_columns(since.alias("time"))

    durations = fitted.predict(shifted(others.events))
    assert durations.schema["time"] == pl.Duration("us")
    values = [POINT, LOW, HIGH]
    assert_frame_equal(durations.select(values), answers.select(values))

    start = pl.lit(datetime(2030, 3, 30)).dt.replace_time_zone(zone)
    begun = start + pl.duration(days=pl.col("subject_id") % 9)
    stamps = shifted(others.events).with_columns(begun + pl.col("time"))
    stamps = stamps.select("subject_id", pl.col("literal").alias("time"), "code", "numeric_value")
    told = fitted.predict(stamps)
    assert told.schema["time"] == pl.Datetime("us", zone)
    assert_frame_equal(told.select(values), answers.select(values))
    again = fitted.predict(stamps, X_df=told.select("subject_id", "time", "code"))
    assert_frame_equal(again, told)


def test_what_comes_after_the_origin_is_not_needed(fitted, others):
    begun = others.events.filter(pl.col("time") <= 6)
    told = fitted.predict(begun)
    later = others.events.with_columns(
        pl.when(pl.col("time") > 6).then(pl.col("time") + 1_000).otherwise("time")
    )
    assert_frame_equal(fitted.predict(later.filter(pl.col("time") < 1_000)), told)


def test_names_of_the_forecaster_are_used(make_quick, records, others):
    given = records.events.rename({"subject_id": "stay", "time": "hour"})
    forecaster = make_quick(id_col="stay", time_col="hour").fit(given)
    told = forecaster.predict(others.events.rename({"subject_id": "stay", "time": "hour"}))
    assert told.columns[:3] == ["stay", "hour", "code"]


# Fits


def test_seeds_repeat_and_leave_the_callers_alone(make_quick, records, others):
    import torch

    torch.manual_seed(3)
    before = torch.rand(1)
    torch.manual_seed(3)
    one, two = (make_quick().fit(records.events) for _ in range(2))
    assert torch.rand(1) == before
    assert_frame_equal(one.predict(others.events), two.predict(others.events))
    other = make_quick(random_state=1).fit(records.events)
    assert not one.predict(others.events)[POINT].equals(other.predict(others.events)[POINT])


def test_the_report_tells_what_was_learned(fitted):
    report = fitted.report_
    assert (report["stays"], report["without_measurement"]) == (80, 0)
    assert fitted.horizon_ == 3
    held_out = report["held_out"]
    assert held_out["mae"] <= held_out["mae_carried_forward"]
    assert list(held_out["codes"]) == CODES
    for code in held_out["codes"].values():
        assert code["mae"] <= code["mae_carried_forward"] + 1e-9
        assert code["values"] > 0


def test_a_clone_is_not_fitted_and_fits_alike(fitted, make_records, answers, others):
    fresh = clone(fitted)
    assert fresh.get_params()["preset"] == "ehr" and not hasattr(fresh, "horizon_")
    again = fresh.fit(make_records(80).events)
    assert_frame_equal(again.predict(others.events), answers)


def test_a_saved_forecaster_answers_alike(fitted, answers, others, tmp_path):
    fitted.save(tmp_path / "model.tsm")
    loaded = MambaForecaster.load(tmp_path / "model.tsm")
    assert_frame_equal(loaded.predict(others.events), answers, check_exact=True)
    assert (loaded.horizon_, loaded.codes_, loaded.report_) == (3, CODES, fitted.report_)
    assert loaded.training.max_steps == fitted.training.max_steps


def test_a_later_fit_replaces_an_earlier_one(make_quick, records):
    series = pl.DataFrame({"ds": range(300), "y": np.sin(np.arange(300) / 4)})
    forecaster = make_quick(horizon=2).fit(records.events)
    forecaster.set_params(training=None).fit(series)
    assert len(forecaster.predict()) == 2 and forecaster.freq_ is not None
    assert not hasattr(forecaster, "codes_")
    forecaster.set_params(training__max_steps=2).fit(records.events)
    assert not hasattr(forecaster, "freq_")
    assert len(forecaster.predict(records.of(1_000))) == 2 * 3


# What is told of single rows


def test_times_without_a_forecast_are_null_and_counted(fitted, others):
    stay = others.of(1_000)
    last, width = stay["time"].max(), fitted.report_["bin"]
    asked = pl.DataFrame(
        {"subject_id": 1_000, "time": [last - 1, last, last + 1.1, last + 9 * width]}
    )
    with pytest.warns(FrameWarning) as told:
        found = fitted.predict(stay, X_df=asked.with_columns(code=pl.lit("HR")))
    assert found[POINT].is_null().to_list() == [True, True, False, True]
    assert found[HIGH].is_null().to_list() == [True, True, False, True]
    message = str(told[0].message)
    assert "2 × a time of X_df that is not after the last event, answered with null" in message
    assert f"1 × a time of X_df more than 3 bins of {width:.4g} after the last event" in message


def test_a_stay_without_measurement_is_told_what_is_usual(fitted, others):
    bare = pl.DataFrame(
        {"subject_id": [7], "time": [0.0], "code": ["Age"], "numeric_value": [60.0]}
    )
    with pytest.warns(FrameWarning, match="1 × a stay without measurement, answered with usual"):
        found = fitted.predict(pl.concat([others.of(1_000), bare], how="vertical_relaxed"))
    told = found.filter(subject_id=7)
    vocabulary = fitted._events.reader.vocabulary
    usual = [vocabulary.codes[code].usual for code in told["code"]]
    np.testing.assert_allclose(told[POINT], usual)
    assert (told[LOW] < told[POINT]).all() and (told[POINT] < told[HIGH]).all()
    assert len(told) == 9


def test_what_is_wrong_with_events_is_told(fitted, others):
    wild = others.of(1_000).with_columns(numeric_value=pl.lit(9e3))
    with pytest.warns(FrameWarning, match="HR outside 5 to 350"):
        fitted.predict(pl.concat([others.of(1_001), wild]))


def test_nothing_is_told_where_nothing_is_wrong(fitted, others):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(others.events)
