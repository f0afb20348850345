import numpy as np
import polars as pl
import pytest
import torch

from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore
from tsmamba.errors import FrameError, SeriesTooShortError
from tsmamba.forecast.backtest import backtest_frame, continued, cutoffs, origins, series_mase
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


def test_new_rows_join_the_end_of_the_history(panel):
    following = read_panel(frame_of({"a": 5}, first=12), scaling=panel)
    joined, elapsed = continued(panel, following, context=7)
    assert joined.ids.to_list() == ["a"]
    assert joined.lengths.tolist() == [12]
    assert elapsed.tolist() == [7]
    assert joined.loc[0] == panel.loc[1]
    assert joined.scale[0] == panel.scale[1]
    np.testing.assert_allclose(joined.restored(0), np.arange(5, 17) * 7 % 11, atol=1e-5)


def test_rows_of_the_history_itself_are_allowed(panel):
    following = read_panel(frame_of({"b": 15, "a": 9}, first=8), scaling=panel)
    joined, elapsed = continued(panel, following, context=100)
    assert dict(zip(joined.ids, joined.lengths.tolist(), strict=True)) == {"a": 17, "b": 23}
    assert dict(zip(joined.ids, elapsed.tolist(), strict=True)) == {"a": 12, "b": 20}


def test_a_gap_after_the_history_is_missing(panel):
    following = read_panel(frame_of({"a": 3}, first=15), scaling=panel)
    joined, elapsed = continued(panel, following, context=4)
    assert joined.lengths.tolist() == [10]
    assert np.isnan(joined.restored(0)).tolist() == [False] * 4 + [True] * 3 + [False] * 3
    assert elapsed.tolist() == [4]


def test_series_that_were_not_fitted_are_refused(panel):
    following = read_panel(frame_of({"a": 5, "z": 5}, first=12))
    with pytest.raises(FrameError, match=r"series 'z' was not among the fitted ones"):
        continued(panel, following, context=4)


def test_series_without_a_new_row_are_refused(panel):
    following = read_panel(frame_of({"b": 3, "a": 12}))
    with pytest.raises(FrameError, match=r"series 'a' has no row after 11, where its history ends"):
        continued(panel, following, context=4)


def test_ids_that_cannot_be_the_fitted_ones_are_refused(panel):
    numbers = frame_of({"a": 5}, first=12).with_columns(unique_id=pl.lit(3))
    with pytest.raises(FrameError, match="series 3 was not among the fitted ones"):
        continued(panel, read_panel(numbers), context=4)
    fitted = read_panel(frame_of({"a": 12}).with_columns(unique_id=pl.lit(3)))
    with pytest.raises(FrameError, match="series 'a' was not among the fitted ones"):
        continued(fitted, read_panel(frame_of({"a": 5}, first=12)), context=4)


@pytest.mark.parametrize("with_ids", ["history", "following"])
def test_ids_on_one_side_only_are_refused(with_ids):
    history, following = frame_of({"a": 12}), frame_of({"a": 5}, first=12)
    if with_ids == "history":
        following = following.drop("unique_id")
    else:
        history = history.drop("unique_id")
    with pytest.raises(FrameError, match="column 'unique_id'"):
        continued(read_panel(history), read_panel(following), context=4)


def test_the_score_of_a_backtest_is_the_mean_over_series(panel):
    windows = origins(WindowStore(panel), np.array([18, 9]), 3)
    columns = {POINT: np.full((len(windows), 3), 4.0)}
    frame = backtest_frame(panel, windows, columns)
    expected = [
        mase(
            panel.restored(number)[elapsed:],
            np.full(len(panel.restored(number)) - elapsed, 4.0),
            naive_scale(panel.restored(number), 2),
        )
        for number, elapsed in ((0, 18), (1, 9))
    ]
    assert series_mase(panel, panel, 2, frame) == pytest.approx(np.mean(expected))


def test_origins_of_no_series_are_none(panel):
    windows = origins(WindowStore(panel), np.array([20, 12]), 4)
    assert len(windows) == 0
    assert windows.origin.dtype == torch.int64
