import numpy as np
import pandas as pd
import polars as pl
import pytest

from tsmamba.data.panel import panel_frame, read_panel
from tsmamba.data.weights import read_weights
from tsmamba.errors import FrameError


@pytest.fixture(scope="module")
def frame(long_frame):
    frame = long_frame({"b": 5, "a": 3})
    return frame.with_columns(w=pl.int_range(1, 9) / 2)


def test_weights_lie_beside_the_values_and_absent_rows_have_none(frame):
    panel = read_panel(frame)
    assert panel.weights is None
    weighted = read_weights(frame, panel, "w")
    assert weighted.weights.dtype == np.float32
    assert weighted.weights.tolist() == (frame["w"]).to_list()
    gappy = frame.filter(pl.col("w") != 1.5)
    expected = [0.5, 1.0, 0.0, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert read_weights(gappy, read_panel(gappy), "w").weights.tolist() == expected
    assert weighted.values is panel.values


def test_the_series_of_a_wide_frame_share_weights(frame):
    wide = frame.with_columns(z=-pl.col("y"))
    weights = read_weights(wide, read_panel(wide, target_col=["y", "z"]), "w").weights.tolist()
    assert weights[:5] == weights[5:10] == frame["w"][:5].to_list()
    assert weights[10:13] == weights[13:] == frame["w"][5:].to_list()


@pytest.mark.filterwarnings("ignore:rows were not in order")
def test_order_and_kind_of_the_frame_are_irrelevant(frame):
    expected = read_weights(frame, read_panel(frame), "w").weights
    mixed = frame[[4, 7, 0, 5, 3, 6, 1, 2]]
    np.testing.assert_array_equal(read_weights(mixed, read_panel(mixed), "w").weights, expected)
    columns = {"unique_id": frame["unique_id"].to_list(), "ds": frame["ds"].to_numpy()}
    pandas = pd.DataFrame(columns | {name: frame[name].to_numpy() for name in ("y", "w")})
    for other in (pandas, frame.to_arrow()):
        np.testing.assert_array_equal(read_weights(other, read_panel(other), "w").weights, expected)


def test_a_weighted_panel_gives_its_frame_back(frame):
    panel = read_weights(frame, read_panel(frame), "w")
    back = panel_frame(panel, np.zeros_like(panel.lengths), panel.lengths)
    assert back.columns == ["unique_id", "ds", "y"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1, -2, -3],
            r"'w' of series 'a' at ds=2 is -2.0 \(2 such values in all\); finite numbers",
        ),
        ([1, 2, np.inf], "'w' of series 'b' at ds=1 is inf "),
        ([1, 2, 1e39], "'w' of series 'b' at ds=1 is inf "),
        ([1, None, 3], "'w' of series 'a' at ds=2 is missing "),
        ([1, 2, float("nan")], "'w' of series 'b' at ds=1 is missing "),
        ([0, 0, 0], "'w' holds no weight above 0"),
        (["1", "2", "3"], r"'w' is of type String; finite numbers .*: pl.col\('w'\).cast"),
    ],
)
def test_what_is_no_weight_is_refused(values, message):
    frame = pl.DataFrame({"unique_id": ["a", "a", "b"], "ds": [1, 2, 1], "y": [1.0, 2.0, 3.0]})
    frame = frame.with_columns(w=pl.Series(values, strict=False))
    with pytest.raises(FrameError, match=f"^weight column {message}"):
        read_weights(frame, read_panel(frame), "w")


@pytest.mark.parametrize("name", ["unique_id", "ds", "y"])
def test_weights_have_a_column_of_their_own(frame, name):
    with pytest.raises(FrameError, match=f"column '{name}' cannot be the weights, too"):
        read_weights(frame, read_panel(frame), name)


def test_an_absent_column_is_named(frame):
    message = "no weight column 'v', only 'unique_id', 'ds', 'y', 'w'"
    with pytest.raises(FrameError, match=message):
        read_weights(frame, read_panel(frame), "v")
