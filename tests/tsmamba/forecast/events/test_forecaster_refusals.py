import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from tsmamba import MambaForecaster, Network, Training
from tsmamba.errors import FrameError, HorizonError, ParameterError

SERIES = pl.DataFrame({"ds": range(100), "y": [1.0, 2.0] * 50})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"context_length": 8}, "context_length=8 says something of series on a grid"),
        ({"freq": "1h"}, "freq='1h' says something of series on a grid"),
        ({"season_length": 24}, "season_length=24 says something"),
        ({"past_covariates": ["a"]}, r"past_covariates=\['a'\] says something"),
        ({"calendar": True}, "calendar=True says something"),
        ({"network": Network()}, r"network=Network\(\) says something"),
        ({"mode": "base"}, "mode='base', and the frame holds events"),
        ({"mode": "full"}, "mode='full', and the frame holds events"),
        ({"training": Training(loss="squared")}, "training: loss='squared', and the frame"),
        (
            {"target_col": ["a", "b"], "multivariate": True},
            "multivariate=True, and the frame holds events",
        ),
    ],
)
def test_parameters_of_series_are_refused(records, parameters, message):
    with pytest.raises(ParameterError, match=message):
        MambaForecaster(preset="ehr", **parameters).fit(records.events)


def test_a_validation_part_is_refused(make_quick, records):
    with pytest.raises(ParameterError, match="val_size=3, and the frame holds events"):
        make_quick().fit(records.events, val_size=3)


def test_few_stays_are_refused(make_quick, make_records):
    with pytest.raises(FrameError, match=r"stays with a measurement: 9; .* from 10 and more, so"):
        make_quick().fit(make_records(9).events)


@pytest.mark.parametrize(
    ("times", "repair"),
    [([0.0, 12.0, 24.0], "pass horizon=11 or more"), ([1.5], "in two bins of time")],
)
def test_values_must_follow_within_the_horizon(make_quick, times, repair):
    stays = pl.DataFrame({"subject_id": range(20)}).join(pl.DataFrame({"time": times}), how="cross")
    events = stays.with_columns(HR=80.0 + pl.col("subject_id"))
    with pytest.raises(FrameError, match=rf"nothing is measured again within 3 bins .*{repair}"):
        make_quick().fit(events)


def test_a_failed_fit_changes_nothing(fitted, others, make_records):
    before = fitted.predict(others.of(1_000))
    with pytest.raises(FrameError):
        fitted.fit(make_records(3).events)
    assert fitted.predict(others.of(1_000)).equals(before)


@pytest.mark.parametrize("preset", ["auto", "sensor"])
def test_events_need_their_preset(records, preset):
    with pytest.raises(FrameError):
        MambaForecaster(preset=preset).fit(records.events)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"future": SERIES}, "future= says something of series, .* X_df="),
        ({"context_length": 8}, "context_length= says something of series"),
        ({"base_only": True}, "base_only= says something of series"),
        ({"level": [0.9], "quantiles": [0.5]}, "were both given"),
    ],
)
def test_arguments_of_series_are_refused(fitted, others, given, message):
    with pytest.raises(ParameterError, match=message):
        fitted.predict(others.events, **given)


def test_the_events_so_far_are_needed(fitted):
    with pytest.raises(ParameterError, match="df=None: events of the fit are not kept; pass df="):
        fitted.predict()


def test_a_horizon_beyond_the_fit_is_refused(fitted, others):
    with pytest.raises(HorizonError, match="horizon=4 is beyond 3 bins of the fit"):
        fitted.predict(others.events, horizon=4)


def test_rows_to_forecast_are_for_events():
    forecaster = MambaForecaster(horizon=2, mode="base").fit(SERIES)
    with pytest.raises(ParameterError, match=r"X_df= is for events, .* pass future="):
        forecaster.predict(X_df=SERIES)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"time": [9.0]}, "X_df has no column 'subject_id', but 'time'"),
        ({"subject_id": [1_000]}, "X_df has no column 'time', but 'subject_id'"),
        (
            {"subject_id": [5], "time": [99.0]},
            "ask for a stay that is not known: 5; pass its event",
        ),
        ({"subject_id": [None], "time": [99.0]}, "a stay that is not known: None"),
        (
            {"subject_id": ["1000"], "time": [99.0]},
            "ids are of type Int64 in the events and String",
        ),
        (
            {"subject_id": [1_000], "time": [99.0], "code": ["hr"]},
            "ask for a code that is not known: 'hr'; those of the fit are 'HR', 'L",
        ),
        ({"subject_id": [1_000], "time": [None]}, "1 of 1 rows of X_df have no time in 'time'"),
        (
            {"subject_id": [1_000], "time": [float("nan")]},
            "1 of 1 rows of X_df have no time in 'time'",
        ),
        ({"subject_id": [1_000], "time": ["noon"]}, "column 'time' is of type String"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(fitted, others, asked, message):
    frame = pl.DataFrame(asked)
    if asked.get("subject_id") == [None]:
        frame = frame.with_columns(pl.col("subject_id").cast(pl.Int64))
    if asked.get("time") == [None]:
        frame = frame.with_columns(pl.col("time").cast(pl.Float64))
    with pytest.raises(FrameError, match=message):
        fitted.predict(others.of(1_000), X_df=frame)


def test_stamps_and_numbers_are_not_mixed(fitted, others):
    asked = pl.DataFrame({"subject_id": [1_000], "time": [99.0]})
    asked = asked.with_columns(pl.duration(hours="time").alias("time"))
    with pytest.raises(FrameError, match="numbers in the events and durations in X_df"):
        fitted.predict(others.of(1_000), X_df=asked)


def test_a_frame_of_series_is_refused_after_a_fit_on_events(fitted):
    with pytest.raises(FrameError, match="the frame has no column 'unique_id'"):
        fitted.predict(SERIES)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("input_schema_", lambda each: each.input_schema_),
        ("make_future_frame", lambda each: each.make_future_frame()),
        ("update", lambda each: each.update(SERIES)),
        ("partial_fit", lambda each: each.partial_fit(SERIES)),
        ("finetune", lambda each: each.finetune(SERIES)),
        ("embed", lambda each: each.embed(SERIES)),
        ("score", lambda each: each.score(SERIES)),
        ("cross_validation", lambda each: each.cross_validation(SERIES, use_fitted=True)),
        ("plot", lambda each: each.plot()),
    ],
)
def test_what_is_for_series_is_refused(fitted, name, call):
    with pytest.raises(ParameterError, match=f"^{name} is for series, and this forecaster was"):
        call(fitted)


@pytest.mark.parametrize("call", ["predict", "plot", "make_future_frame"])
def test_nothing_is_answered_before_a_fit(call):
    with pytest.raises(NotFittedError):
        getattr(MambaForecaster(preset="ehr"), call)()
