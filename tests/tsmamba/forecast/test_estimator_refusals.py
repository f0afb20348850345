"""Every bad input gets one clear error before any work, and costs no earlier fit."""

from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError

from tsmamba import MambaForecaster, Network, Training
from tsmamba.errors import (
    FrameError,
    FrequencyError,
    ModelFileError,
    ParameterError,
    SeriesTooShortError,
)
from tsmamba.forecast import estimator as module


def daily(length=60, key="a", start=date(2024, 1, 1)):
    ds = pl.date_range(start, start + timedelta(days=length - 1), "1d", eager=True)
    y = 10 + 3 * np.sin(2 * np.pi * np.arange(length) / 7)
    return pl.DataFrame({"unique_id": [key] * length, "ds": ds, "y": y})


def two(**kwargs):
    return pl.concat([daily(), daily(key="b")])


def changed(row, column, value):
    """Two series with one value exchanged."""
    frame = two()
    return frame.with_columns(
        pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(column).alias(column)
    )


@pytest.fixture
def fitted():
    return MambaForecaster(7, mode="base").fit(two())


@pytest.fixture(autouse=True)
def _no_work(request, monkeypatch):
    """Fail where a refusal comes after work has begun."""
    if "fitted" in request.fixturenames:
        request.getfixturevalue("fitted")

    def run(*_):
        pytest.fail("fitting began")

    monkeypatch.setattr(module.Fitting, "run", run)


FRAMES = {
    "missing column": (
        two().drop("y"),
        FrameError,
        ["no column 'y'", "'unique_id', 'ds'", "target_col="],
    ),
    "no time column": (two().rename({"ds": "date"}), FrameError, ["no column 'ds'", "time_col="]),
    "empty": (two().head(0), FrameError, ["no rows"]),
    "repeated stamps": (
        pl.concat([two(), daily(1, key="b")]).sort("unique_id", "ds"),
        FrameError,
        ["series 'b'", "ds=2024-01-01", "df.unique("],
    ),
    "irregular": (
        pl.concat(
            [
                daily().cast({"ds": pl.Datetime("us")}),
                pl.DataFrame({"unique_id": ["a"], "ds": [datetime(2024, 3, 1, 5)], "y": [1.0]}),
            ]
        ),
        FrequencyError,
        ["series 'a'", "ds=2024-02-29", "group_by_dynamic"],
    ),
    "unequal frequencies": (
        pl.concat([daily(), daily(300, key="b").gather_every(7)]),
        FrequencyError,
        ["series 'a' steps by '1d'", "series 'b' by '1w'", "one frame for each"],
    ),
    "unknown frequency": (daily(1), FrequencyError, ["no series has two stamps", "freq="]),
    "too short": (
        daily(10),
        SeriesTooShortError,
        ["10 steps", "forecast of 7", "at least horizon + 4 = 11", "horizon=6 or less"],
    ),
    "all missing": (
        two().with_columns(y=pl.when(pl.col("unique_id") == "a").then("y")),
        FrameError,
        ["column 'y' of series 'b' holds missing values only", "leave such series out"],
    ),
    "infinite": (
        changed(70, "y", float("inf")),
        FrameError,
        ["column 'y' of series 'b' at ds=2024-01-11 is infinite", "is_finite"],
    ),
    "text": (
        two().cast({"y": pl.String}),
        FrameError,
        ["target column 'y' is of type String", "series 'a'", ".cast(pl.Float64)"],
    ),
    "text as stamps": (
        two().cast({"ds": pl.String}),
        FrameError,
        ["time column 'ds' holds text such as '2024-01-01'", "str.to_datetime"],
    ),
    "no stamp": (
        two().with_columns(ds=pl.when(pl.int_range(pl.len()) != 3).then("ds")),
        FrameError,
        ["'ds'", "row 3", "drop_nulls"],
    ),
    "no frame": ([1.0, 2.0, 3.0], FrameError, ["got list", "pl.DataFrame"]),
}


@pytest.mark.parametrize("case", FRAMES)
def test_a_frame_that_cannot_be_used_is_refused_before_any_work(fitted, case):
    frame, error, fragments = FRAMES[case]
    before = fitted.predict()
    for call in (fitted.fit, fitted.cross_validation):
        with pytest.raises(error) as caught:
            call(frame)
        for fragment in fragments:
            assert fragment in str(caught.value)
    assert_frame_equal(fitted.predict(), before, check_exact=True)


@pytest.mark.parametrize(
    "case", [case for case in FRAMES if case not in ("too short", "unknown frequency")]
)
def test_a_history_that_cannot_be_used_is_refused(fitted, case):
    frame, error, fragments = FRAMES[case]
    if case == "unequal frequencies":  # read with the step of the model, it is a gappy series
        return
    for call in (fitted.predict, fitted.score):
        with pytest.raises(error) as caught:
            call(frame)
        assert fragments[0] in str(caught.value)


def test_a_history_of_another_frequency_is_refused(fitted):
    hours = daily().with_columns(
        ds=pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 3, 11), "1h", eager=True)
    )
    with pytest.raises(FrequencyError, match="1d"):
        fitted.predict(hours)


PARAMETERS = [
    *[({"horizon": x}, "horizon=") for x in (0, -3, 1.5, True, "a", [1])],
    *[({"context_length": x}, "context_length=") for x in (0, 2.5, "8192")],
    ({"season_length": 0}, "season_length=0"),
    ({"network": Network(patch_length=-1)}, "patch_length=-1"),
    ({"network": Network(d_model=0)}, "d_model=0; pass a whole number of at least 1"),
    ({"network": {"d_model": 8}}, r"network=\{'d_model': 8\}; pass a tsmamba\.Network or None"),
    ({"network": Network}, r"pass a tsmamba\.Network or None"),
    ({"mode": "fastest"}, "mode='fastest'; pass one of 'fast', 'full', 'base'"),
    ({"mode": None}, "mode=None"),
    ({"preset": "enrgy"}, "preset='enrgy'; pass one of .*; did you mean 'energy'"),
    ({"preset": None}, "preset=None"),
    ({"quantiles": [0.1, 1.5]}, r"quantiles=\[0\.1, 1\.5\] holds 1\.5"),
    ({"quantiles": [0]}, "strictly between 0 and 1"),
    ({"training": {"lr": 1}}, r"training=\{'lr': 1\}; pass a tsmamba\.Training or None"),
    ({"training": Training}, r"pass a tsmamba\.Training or None"),
    ({"training": Training(max_steps=-1)}, "max_steps=-1; pass a whole number of at least 0"),
    ({"training": Training(lr="fast")}, "lr='fast'; pass a number above 0"),
    ({"freq": "1 hour"}, "freq='1 hour' is not a frequency"),
    ({"freq": 0}, "freq=0"),
    ({"random_state": "a"}, "random_state='a'"),
    ({"random_state": 1.5}, r"random_state=1\.5"),
    ({"random_state": -1}, "random_state=-1"),
    ({"target_col": []}, "target_col"),
    ({"target_col": "ds"}, "different columns"),
]


@pytest.mark.parametrize(("parameters", "message"), PARAMETERS, ids=str)
def test_a_parameter_out_of_range_is_refused_before_any_work(fitted, parameters, message):
    before = fitted.predict()
    forecaster = MambaForecaster(**{"horizon": 7} | parameters)
    for call in (forecaster.fit, forecaster.cross_validation):
        with pytest.raises(ParameterError, match=message):
            call(two())
    kept = fitted.get_params(deep=False)
    fitted.set_params(**parameters)
    with pytest.raises(ParameterError, match=message):
        fitted.fit(two())
    fitted.set_params(**kept)
    assert_frame_equal(fitted.predict(), before, check_exact=True)


def test_a_frequency_of_another_kind_is_refused():
    with pytest.raises(
        FrequencyError, match=r"freq='1h' is finer|freq=1 does not fit|does not fit"
    ):
        MambaForecaster(7, freq=1).fit(two())


def test_unknown_names_are_refused_by_the_constructor():
    with pytest.raises(TypeError, match="lookback"):
        MambaForecaster(lookback=3)
    with pytest.raises(ValueError, match="Invalid parameter 'lookback'"):
        MambaForecaster().set_params(lookback=3)


@pytest.mark.parametrize("val_size", [-1, 1.5, True, "a"])
def test_a_validation_size_out_of_range_is_refused(val_size):
    with pytest.raises(ParameterError, match=r"val_size=.*; pass a whole number of at least 0"):
        MambaForecaster(7, mode="base").fit(two(), val_size=val_size)


@pytest.mark.parametrize("val_size", [50, 60, 10_000])
def test_a_validation_size_that_leaves_nothing_to_train_on_is_refused(monkeypatch, val_size):
    monkeypatch.undo()
    with pytest.raises(SeriesTooShortError, match=f"val_size={val_size} leaves no"):
        MambaForecaster(7, mode="base").fit(two(), val_size=val_size)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": [90], "quantiles": [0.5]}, "were both given"),
        ({"level": [0.9, 100]}, "level="),
        ({"level": [-5]}, "level is in percent"),
        ({"quantiles": [1]}, "strictly between 0 and 1"),
        ({"quantiles": "0.5"}, "quantiles='0.5'"),
    ],
)
def test_bounds_out_of_range_are_refused(fitted, arguments, message):
    with pytest.raises(ParameterError, match=message):
        fitted.predict(**arguments)
    with pytest.raises(ParameterError, match=message):
        fitted.cross_validation(two(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_windows": 0}, "n_windows=0"),
        ({"step_size": -1}, "step_size"),
        ({"n_windows": "a"}, "a"),
    ],
)
def test_windows_out_of_range_are_refused(fitted, arguments, message):
    with pytest.raises(ParameterError, match=message):
        fitted.cross_validation(two(), **arguments)


def test_more_windows_than_there_are_steps_are_refused(fitted):
    with pytest.raises(SeriesTooShortError, match=r"series 'a' has 60 steps; 9 windows of 7"):
        fitted.cross_validation(two(), n_windows=9)


def test_nothing_works_before_a_fit(tmp_path):
    forecaster = MambaForecaster(7)
    for call in (
        forecaster.predict,
        lambda: forecaster.predict(two()),
        lambda: forecaster.score(two()),
        lambda: forecaster.save(tmp_path / "m"),
        lambda: forecaster.cross_validation(two(), use_fitted=True),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()
    assert not list(tmp_path.iterdir())


# Model files


def test_a_model_file_that_cannot_be_used_is_refused(fitted, tmp_path):
    path = tmp_path / "m.tsm"
    fitted.save(path)
    data = path.read_bytes()
    bad = {
        "not a whole model file": data[: len(data) // 2],
        "was altered": data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        "format version 9": data.replace(b'"format_version":"1"', b'"format_version":"9"'),
    }
    for message, content in bad.items():
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=message):
            MambaForecaster.load(path)
    save_file({}, path)
    with pytest.raises(ModelFileError, match="not one that tsmamba wrote"):
        MambaForecaster.load(path)
    with pytest.raises(ModelFileError, match="there is no model file"):
        MambaForecaster.load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="cannot write"):
        fitted.save(tmp_path / "nowhere" / "m.tsm")
