"""What a model says it takes is what it takes, and its example works."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from mlflow.models import Model

from tsmamba import LogDetector, MambaDetector, MambaForecaster
from tsmamba.mlflow.signature import inputs_of, signature_of
from tsmamba.serving.frames import score_frame
from tsmamba_datasets import make_seasonal

FIRST = datetime(2024, 3, 1)


def stamps(every, count=120):
    return pl.Series([FIRST] * count).dt.offset_by(pl.Series([f"{i}{every}" for i in range(count)]))


def series(ds, **columns):
    y = np.sin(np.arange(len(ds)) / 3) + np.arange(len(ds)) % 4
    return pl.DataFrame({"ds": ds, "y": y, **columns})


FRAMES = {
    "hours": lambda: series(stamps("h")),
    "quarters of an hour": lambda: series(stamps("m", 15 * 120).gather_every(15)),
    "milliseconds": lambda: series(stamps("ms").cast(pl.Datetime("ms"))),
    "days as dates": lambda: series(stamps("d").cast(pl.Date)),
    "ends of months": lambda: series(stamps("mo").dt.month_end()),
    "days of a zone": lambda: series(stamps("d").dt.replace_time_zone("America/New_York")),
    "steps": lambda: series(np.arange(120)),
    "ids": lambda: make_seasonal(n_series=3, length=120),
}


def fitted(rows, **options):
    return MambaForecaster(5, mode="base", season_length=4, **options).fit(rows)


@pytest.mark.parametrize("case", FRAMES)
def test_the_example_of_a_forecaster_is_on_its_grid_and_is_forecast(case):
    rows = FRAMES[case]()
    model = fitted(rows)
    inputs = inputs_of(model)
    assert set(inputs.required) == set(rows.columns)
    n = inputs.example["unique_id"].n_unique() if "unique_id" in rows.columns else 1
    assert n <= 2
    assert inputs.example.height == n * max(model.season_length_, model.context_length_)
    answer = score_frame(model, inputs.example)
    assert answer.height == 5 * n
    assert answer["MambaForecaster"].is_not_null().all()
    assert score_frame(model, inputs.example.to_pandas()).shape == answer.shape


def test_the_example_of_uneven_times_is_forecast(rng):
    gaps = rng.integers(1, 90, size=200).cumsum().tolist()
    ds = [FIRST + timedelta(minutes=minutes) for minutes in gaps]
    model = fitted(series(ds), freq="uneven")
    assert score_frame(model, inputs_of(model).example).height == 5


def test_covariates_are_in_the_example_with_their_rows_ahead():
    rows = series(
        stamps("h"),
        price=np.arange(120) % 7,
        sky=["blue", "grey"] * 60,
        open=[True, False, True] * 40,
        site=["north"] * 120,
    )
    model = fitted(rows, future_covariates=["price", "open"], past_covariates=["sky"],
                   static_covariates=["site"])  # fmt: skip
    inputs = inputs_of(model)
    assert set(inputs.optional) == {"price", "open", "sky", "site"}
    assert inputs.example["y"].null_count() == 5
    assert score_frame(model, inputs.example).height == 5


def test_a_wide_frame_keeps_its_columns():
    rows = series(stamps("h")).with_columns(z=pl.col("y") * 2)
    model = fitted(rows, target_col=["y", "z"])
    assert inputs_of(model).required == ("ds", "y", "z")
    assert score_frame(model, inputs_of(model).example)["target"].unique().len() == 2


def test_detectors_of_frames_and_of_arrays_name_their_channels(rng):
    values = rng.normal(size=(100, 2))
    named = MambaDetector("tiny").fit(pl.DataFrame(values, schema=["flow", "heat"]))
    assert inputs_of(named).required == ("flow", "heat")
    assert inputs_of(named).optional == ("unique_id", "ds")
    nameless = MambaDetector("tiny").fit(values)
    assert inputs_of(nameless).required == ("x0", "x1")
    for model in (named, nameless):
        assert score_frame(model, inputs_of(model).example).height == 64


def test_fields_that_tell_streams_and_sessions_apart_reach_a_log_detector():
    lines = [f"job {i} done" for i in range(300)]
    jobs = [i // 3 for i in range(300)]
    by_field = LogDetector(stream_by=("service",), session="job_id")
    by_field.fit(pl.DataFrame({"message": lines, "service": "a", "job_id": jobs}))
    assert inputs_of(by_field).optional[-2:] == ("job_id", "service")
    by_pattern = LogDetector(session=r"job (\d+)").fit(lines)
    assert inputs_of(by_pattern).optional == ("line", "message", "template", "severity", "time")


def test_columns_may_hold_anything_and_parameters_have_defaults(saved):
    signature = Model.load(str(saved("forecaster"))).signature
    assert {column["type"] for column in signature.inputs.to_dict()} == {"any"}
    params = {each.name: (each.dtype.name, each.default, each.shape) for each in signature.params}
    assert params == {"horizon": ("long", 12, None), "quantiles": ("double", [], (-1,))}
    assert [column["name"] for column in signature.outputs.to_dict()] == [
        "unique_id",
        "ds",
        "MambaForecaster",
        "MambaForecaster-lo-90",
        "MambaForecaster-hi-90",
    ]
    assert Model.load(str(saved("detector"))).signature.params is None


def test_quantiles_of_the_model_are_the_default():
    model = fitted(series(stamps("h")), quantiles=[0.1, 0.9])
    inputs = inputs_of(model)
    signature = signature_of(model, inputs)
    assert signature.params.params[1].default == [0.1, 0.9]
    assert signature.outputs.input_names()[-2:] == ["MambaForecaster_q10", "MambaForecaster_q90"]
