import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore
from tsmamba.errors import FrameError, ParameterError, SeriesTooShortError
from tsmamba.forecast.backtest import (
    backtest_frame,
    check_metric,
    continued,
    cutoffs,
    joined,
    naive_scales,
    origins,
    series_error,
)
from tsmamba.forecast.columns import POINT
from tsmamba.metrics import mase, naive_scale


def frame_of(lengths, first=0):
    return pl.concat(
        pl.DataFrame({"unique_id": key, "ds": range(first, first + length)}).with_columns(
            y=(pl.col("ds") * 7 % 11).cast(pl.Float64)
        )
        for key, length in lengths.items()
    )


@pytest.fixture(scope="module")
def panel():
    return read_panel(frame_of({"b": 20, "a": 12}))


def test_cutoffs_leave_room_for_every_window(panel):
    assert cutoffs(panel, 3, 1, 3).tolist() == [17, 9]
    assert cutoffs(panel, 3, 4, 2).tolist() == [11, 3]


def test_cutoffs_name_the_series_that_is_too_short(panel):
    with pytest.raises(SeriesTooShortError) as error:
        cutoffs(panel, 4, 3, 4)
    assert str(error.value) == (
        "series 'a' has 12 steps; 3 windows of 4 steps, 4 apart, need more than 12: ask for fewer "
        "windows or leave the series out"
    )


@pytest.mark.parametrize("step", [1, 3, 5, 50])
def test_origins_follow_each_other_to_the_end_of_each_series(panel, step):
    store = WindowStore(panel)
    windows = origins(store, np.array([4, 11]), step)
    expected = [(0, 4 + k) for k in range(0, 16, step)] + [(1, 31)]
    got = list(zip(windows.series.tolist(), windows.origin.tolist(), strict=True))
    assert got == expected


def test_a_series_without_a_step_after_its_origin_has_no_window(panel):
    windows = origins(WindowStore(panel), np.array([20, 5]), 4)
    assert windows.series.tolist() == [1, 1]
    assert windows.origin.tolist() == [25, 29]


def test_forecasts_lie_beside_what_came(panel):
    windows = origins(WindowStore(panel), np.array([18, 9]), 2)
    columns = {POINT: np.arange(len(windows) * 3.0).reshape(-1, 3)}
    frame = backtest_frame(panel, windows, columns)
    assert frame.columns == ["unique_id", "ds", "cutoff", "y", POINT]
    assert frame["unique_id"].to_list() == ["b"] * 3 + ["a"] * 6
    assert frame["ds"].to_list() == [18, 19, 20, 9, 10, 11, 11, 12, 13]
    assert frame["cutoff"].to_list() == [17] * 3 + [8] * 3 + [10] * 3
    expected = frame_of({"b": 20, "a": 12}).select("unique_id", "ds", true="y")
    joined = frame.join(expected, on=["unique_id", "ds"], how="left", maintain_order="left")
    inside = joined["true"].is_not_null()
    np.testing.assert_allclose(joined["y"].filter(inside), joined["true"].filter(inside), atol=1e-6)
    assert joined["y"].filter(~inside).is_nan().all()
    assert frame[POINT].to_list() == list(range(9))


def continuation(history, rows):
    """Return both frames joined, and where the history ends in each series by id."""
    known = read_panel(history)
    frame = joined(history, rows, known.columns)
    panel = read_panel(frame, freq=known.freq)
    elapsed = continued(known, read_panel(rows, freq=known.freq), panel)
    return frame, dict(zip(panel.ids, elapsed.tolist(), strict=True))


HISTORY = frame_of({"b": 20, "a": 12})


def test_new_rows_join_the_end_of_the_history():
    frame, elapsed = continuation(HISTORY, frame_of({"a": 5}, first=12))
    assert_frame_equal(frame, frame_of({"b": 20, "a": 17}))
    assert elapsed == {"a": 12, "b": 20}


def test_rows_of_the_history_itself_are_allowed_and_replace_it():
    rows = frame_of({"b": 15, "a": 9}, first=8).with_columns(y=pl.col("y") + 0.5)
    frame, elapsed = continuation(HISTORY, rows)
    assert elapsed == {"a": 12, "b": 20}
    known = frame.join(rows, on=["unique_id", "ds"], how="semi")
    assert_frame_equal(known, rows)
    assert_frame_equal(frame.filter(pl.col("ds") < 8), HISTORY.filter(pl.col("ds") < 8))


def test_a_gap_after_the_history_is_missing():
    frame, elapsed = continuation(HISTORY, frame_of({"a": 3}, first=15))
    assert elapsed == {"a": 12, "b": 20}
    restored = read_panel(frame).restored(1)
    assert np.isnan(restored).tolist() == [False] * 12 + [True] * 3 + [False] * 3


def test_new_rows_need_every_column_of_the_history():
    with pytest.raises(FrameError) as error:
        continuation(HISTORY, frame_of({"a": 5}, first=12).rename({"y": "z"}))
    assert str(error.value) == (
        "the frame has no column 'y', which the model was fitted with; it has "
        "'unique_id', 'ds', 'z'"
    )


def test_series_that_were_not_fitted_are_refused():
    with pytest.raises(FrameError, match=r"series 'z' was not among the fitted ones"):
        continuation(HISTORY, frame_of({"a": 5, "z": 5}, first=12))


def test_series_without_a_new_row_are_refused():
    with pytest.raises(FrameError, match=r"series 'a' has no row after 11, where its history ends"):
        continuation(HISTORY, frame_of({"b": 23, "a": 12}))


@pytest.mark.parametrize(("fitted", "given"), [("without", "with"), ("with", "without")])
def test_ids_on_one_side_only_are_refused(fitted, given):
    frames = {"with": frame_of({"a": 12}), "without": frame_of({"a": 12}).drop("unique_id")}
    columns = read_panel(frames[fitted]).columns
    message = rf"a frame {fitted} column 'unique_id' and this one comes {given} it"
    with pytest.raises(FrameError, match=message):
        joined(frames[fitted], frames[given], columns)


@pytest.mark.parametrize("season", [1, 2, 7, 30])
def test_scales_of_all_series_are_those_of_each(season):
    rng = np.random.default_rng(season)
    gaps = rng.normal(size=40)
    gaps[::3] = np.nan
    columns = {"a": rng.normal(size=25) * 1e4, "b": gaps, "c": np.full(9, 3.0), "d": np.ones(1)}
    frame = pl.concat(
        pl.DataFrame({"unique_id": key, "ds": np.arange(len(y)), "y": y})
        for key, y in columns.items()
    )
    panel = read_panel(frame)
    expected = [naive_scale(panel.restored(number), season) for number in range(len(panel))]
    np.testing.assert_allclose(naive_scales(panel, season)["scale"], expected, rtol=1e-6)


def error_of(panel, metric):
    """Return an error of forecasts of 4 from two origins on, and values and scales by series."""
    windows = origins(WindowStore(panel), np.array([18, 9]), 3)
    frame = backtest_frame(panel, windows, {POINT: np.full((len(windows), 3), 4.0)})
    scales = naive_scales(panel, 2)
    came = [panel.restored(number)[elapsed:] for number, elapsed in ((0, 18), (1, 9))]
    return series_error(panel, frame, metric, scales), came


METRICS = {
    "mae": lambda y: np.abs(y - 4).mean(),
    "mse": lambda y: ((y - 4) ** 2).mean(),
    "rmse": lambda y: np.sqrt(((y - 4) ** 2).mean()),
    "smape": lambda y: (2 * np.abs(y - 4) / (np.abs(y) + 4)).mean(),
}


@pytest.mark.parametrize("metric", METRICS)
def test_an_error_is_the_mean_over_series(panel, metric):
    check_metric(metric)
    got, came = error_of(panel, metric)
    assert got == pytest.approx(np.mean([METRICS[metric](y) for y in came]), rel=1e-5)


def test_scaled_errors_are_those_of_the_seasonal_naive_forecast(panel):
    got, came = error_of(panel, "mase")
    scales = [naive_scale(panel.restored(number), 2) for number in range(2)]
    expected = [mase(y, np.full(len(y), 4.0), s) for y, s in zip(came, scales, strict=True)]
    assert got == pytest.approx(np.mean(expected), rel=1e-5)


def test_nothing_against_nothing_is_no_error():
    panel = read_panel(pl.DataFrame({"ds": range(6), "y": [1.0, 2.0, 3.0, 0.0, 0.0, 0.0]}))
    windows = origins(WindowStore(panel), np.array([3]), 3)
    frame = backtest_frame(panel, windows, {POINT: np.zeros((1, 3))}).with_columns(y=pl.lit(0.0))
    assert series_error(panel, frame, "smape", None) == 0


@pytest.mark.parametrize("metric", ["mape", "", None])
def test_an_unknown_metric_is_refused_with_the_known_ones(metric):
    with pytest.raises(ParameterError) as error:
        check_metric(metric)
    assert str(error.value) == (
        f"metric={metric!r}; pass one of 'mase', 'mae', 'mse', 'rmse', 'smape'"
    )


def test_origins_of_no_series_are_none(panel):
    windows = origins(WindowStore(panel), np.array([20, 12]), 4)
    assert len(windows) == 0
    assert windows.origin.dtype == torch.int64
