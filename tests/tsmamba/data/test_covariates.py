import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tsmamba.data.covariates import Covariates, Roles, extend_covariates, read_covariates
from tsmamba.data.panel import future_frame, read_panel
from tsmamba.data.windows import WindowStore

ROLES = Roles(past=("staff", "sky"), future=("promo", "price"), static=("site", "size"))
NAMES = (
    "promo=false", "promo=true", "price", "staff", "sky=blue", "sky=dark", "sky=grey",
    "site=a", "site=b", "size",
)  # fmt: skip
LENGTHS = {"b": 40, "aa": 30, "ab": 7}

pytestmark = pytest.mark.filterwarnings("ignore:rows were not in order")


@pytest.fixture(scope="module")
def frame(shop_frame):
    """Three series with missing values and absent stamps."""
    frame = shop_frame(LENGTHS).with_columns(
        price=pl.when(pl.int_range(pl.len()) % 5 != 2).then("price"),
        sky=pl.when(pl.int_range(pl.len()) % 7 != 3).then("sky"),
    )
    hour = pl.col("ds").dt.hour()
    return frame.filter((hour < 2) | (hour > 4))


def by_id(panel, covariates):
    """Rows and static values of each series, by id and target."""
    ends = covariates.starts + panel.lengths + covariates.steps_ahead
    return {
        (key, target): (covariates.values[begin:end].tolist(), fixed.tolist())
        for key, target, begin, end, fixed in zip(
            panel.ids, panel.targets, covariates.starts, ends, covariates.static, strict=True
        )
    }


def read(df, roles=ROLES, target_col="y", **kwargs):
    panel = read_panel(df, target_col=target_col)
    covariates, encoding = read_covariates(df, panel, roles, **kwargs)
    return panel, covariates, encoding


# What they hold


def test_every_row_stands_on_its_step_and_absent_ones_are_zero(frame):
    panel, covariates, encoding = read(frame)
    assert encoding.names == NAMES
    assert covariates.values.dtype == covariates.static.dtype == np.float32
    assert covariates.values.shape == (panel.lengths.sum(), 7)
    assert covariates.n_future == 3
    assert covariates.steps_ahead == 0
    assert covariates.starts.tolist() == panel.offsets[:-1].tolist()
    price, staff = frame["price"], frame["staff"]
    rows = {(row["unique_id"], row["ds"]): row for row in frame.iter_rows(named=True)}
    for series, key in enumerate(panel.ids):
        for step in range(panel.lengths[series]):
            stamp = panel.freq.shift(panel.first[[series]], step).item()
            got = covariates.values[covariates.starts[series] + step]
            row = rows.get((key, stamp))
            if row is None:
                assert not got.any()
                continue
            deviation = 0 if row["price"] is None else row["price"] - price.mean()
            expected = [
                row["promo"] is False,
                row["promo"] is True,
                deviation / price.std(ddof=0),
                (row["staff"] - staff.mean()) / staff.std(ddof=0),
                *(row["sky"] == sky for sky in ("blue", "dark", "grey")),
            ]
            np.testing.assert_allclose(got, expected, atol=1e-6)


def test_static_covariates_are_standardised_over_series(frame):
    _, covariates, _ = read(frame)
    size = np.array([1, 2, 2])
    expected = (size - size.mean()) / size.std()
    np.testing.assert_array_equal(covariates.static[:, :2], [[0, 1], [1, 0], [1, 0]])
    np.testing.assert_allclose(covariates.static[:, 2], expected, rtol=1e-6)


def test_missing_static_values_leave_the_one_there_is(frame):
    holed = frame.with_columns(site=pl.when(pl.int_range(pl.len()) % 3 == 1).then("site"))
    np.testing.assert_array_equal(read(holed)[1].static, read(frame)[1].static)
    none = frame.with_columns(site=pl.when(pl.col("unique_id") != "aa").then("site"))
    assert read(none)[1].static[1, :2].tolist() == [0, 0]


def test_series_of_a_wide_frame_share_rows(frame):
    _, narrow, _ = read(frame)
    panel, wide, _ = read(frame.with_columns(z=-pl.col("y")), target_col=["z", "y"])
    assert panel.ids.to_list() == ["b", "b", "aa", "aa", "ab", "ab"]
    assert wide.starts.tolist() == np.repeat(narrow.starts, 2).tolist()
    np.testing.assert_array_equal(wide.values, narrow.values)
    np.testing.assert_array_equal(wide.static, np.repeat(narrow.static, 2, axis=0))


def test_a_frame_without_ids_has_covariates(frame):
    one = frame.filter(pl.col("unique_id") == "b")
    _, expected, _ = read(one)
    _, covariates, _ = read(one.drop("unique_id"))
    np.testing.assert_array_equal(covariates.values, expected.values)
    np.testing.assert_array_equal(covariates.static, expected.static)


def test_without_roles_there_are_no_columns(frame):
    panel, covariates, encoding = read(frame, Roles(), horizon=2)
    assert covariates.values.shape == (panel.lengths.sum() + 6, 0)
    assert covariates.static.shape == (3, 0)
    assert encoding.names == ()
    at = torch.tensor([3]), torch.tensor([0])
    assert covariates.window(*at, first=-2, count=4).shape == (1, 4, 0)


def test_columns_may_have_any_name(frame):
    names = {"price": "number", "promo": "value", "site": "id", "staff": "first"}
    roles = Roles(("first", "sky"), ("value", "number"), ("id", "size"))
    _, covariates, _ = read(frame.rename(names), roles)
    np.testing.assert_array_equal(covariates.values, read(frame)[1].values)


# Fitted encodings


def test_a_fitted_encoding_is_used_and_unknown_categories_are_zero(frame):
    _, fitted, encoding = read(frame)
    later = frame.with_columns(price=pl.col("price") + 1, sky=pl.lit("red"), site=pl.lit("c"))
    _, covariates, same = read(later, encoding=encoding)
    assert same is encoding
    assert not covariates.values[:, 4:].any()
    assert not covariates.static[:, :2].any()
    moved = covariates.values[:, 2] - fitted.values[:, 2]
    known = moved != 0
    assert known.any()
    np.testing.assert_allclose(moved[known], 1 / frame["price"].std(ddof=0), rtol=1e-4)


# Steps ahead


def split(frame, horizon):
    """The frame without the last rows of each series, and those rows."""
    coming = (pl.len() - pl.int_range(pl.len()) <= horizon).over("unique_id")
    return frame.filter(~coming), frame.filter(coming)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(0, 3))
def test_history_and_future_equal_one_long_frame(shop_frame, horizon, seed):
    frame = shop_frame(LENGTHS, seed)
    history, future = split(frame, horizon)
    _, _, encoding = read(history)
    panel, covariates, _ = read(history, encoding=encoding, future=future, horizon=horizon)
    _, whole, _ = read(frame, encoding=encoding)
    np.testing.assert_array_equal(covariates.values[:, :3], whole.values[:, :3])
    assert covariates.starts.tolist() == whole.starts.tolist()
    assert covariates.steps_ahead == horizon
    ahead = np.zeros(len(whole.values), bool)
    for end in covariates.starts + panel.lengths:
        ahead[end : end + horizon] = True
    assert not covariates.values[ahead, 3:].any()
    np.testing.assert_array_equal(covariates.values[~ahead, 3:], whole.values[~ahead, 3:])


def test_the_listed_future_joined_with_covariates_is_accepted(shop_frame):
    frame = shop_frame(LENGTHS).with_columns(z=-pl.col("y"))
    history, _ = split(frame, 5)
    known = frame.select("unique_id", "ds", "promo", "price")
    for target_col in ("y", ["y", "z"]):
        panel = read_panel(history, target_col=target_col)
        future = future_frame(panel, 5, by_target=False).join(known, on=["unique_id", "ds"])
        covariates, _ = read_covariates(history, panel, ROLES, future=future, horizon=5)
        assert len(covariates.values) == frame.height


def test_order_other_rows_and_other_columns_of_the_future_are_irrelevant(shop_frame):
    frame = shop_frame(LENGTHS)
    history, future = split(frame, 4)
    _, expected, _ = read(history, future=future, horizon=4)
    strange = frame.with_columns(unique_id=pl.lit("new"), price=pl.lit(np.inf))
    mixed = pl.concat([strange, frame, strange])[::-1].with_columns(note=pl.lit(b"x"))
    _, covariates, _ = read(history, future=mixed, horizon=4)
    np.testing.assert_array_equal(covariates.values, expected.values)


def test_known_covariates_are_extended_without_their_frame_and_anew(shop_frame):
    history, future = split(shop_frame(LENGTHS), 4)
    panel, known, encoding = read(history)
    for horizon in (4, 2):
        extended = extend_covariates(known, panel, ROLES, encoding, future, horizon)
        _, expected, _ = read(history, future=future, horizon=horizon)
        np.testing.assert_array_equal(extended.values, expected.values)
        assert extended.starts.tolist() == expected.starts.tolist()
        known = extended


def test_a_future_is_needed_for_future_covariates_only(frame):
    _, covariates, _ = read(frame, Roles(past=("staff",)), horizon=3)
    ends = covariates.starts[1:]
    assert not covariates.values[np.concatenate([ends - k for k in (1, 2, 3)])].any()


# Windows


@settings(deadline=None, max_examples=40)
@given(st.integers(-60, 60), st.integers(1, 70), st.integers(0, 3))
def test_a_window_equals_slicing(shop_frame, first, count, horizon):
    frame = shop_frame(LENGTHS).with_columns(z=-pl.col("y"))
    history, future = split(frame, 3)
    panel, covariates, _ = read(history, target_col=["y", "z"], future=future, horizon=horizon)
    store = WindowStore(panel)
    windows = store.windows(min_history=0, horizon=0, stride=5)
    got = covariates.window(store.elapsed(windows), windows.series, first, count)
    origins = zip(windows.series.tolist(), store.elapsed(windows).tolist(), strict=True)
    for row, (series, elapsed) in enumerate(origins):
        begin = covariates.starts[series]
        rows = covariates.values[begin : begin + panel.lengths[series] + horizon]
        padded = np.pad(rows, ((150, 150), (0, 0)))[150 + elapsed + first :][:count]
        np.testing.assert_array_equal(got[row].numpy(), padded)


def test_a_window_is_a_copy():
    values = np.ones((4, 2), np.float32)
    covariates = Covariates(values, np.array([0]), 2, np.zeros((1, 0), np.float32), 0)
    at = torch.tensor([2]), torch.tensor([0])
    covariates.window(*at, first=-1, count=2).zero_()
    assert values.all()


# Laws


@settings(deadline=None, max_examples=25)
@given(st.randoms(use_true_random=False))
def test_order_of_rows_and_ids_is_irrelevant(frame, random):
    rows = list(range(frame.height))
    random.shuffle(rows)
    panel, covariates, encoding = read(frame)
    other_panel, other, other_encoding = read(frame[rows])
    assert other_encoding.names == encoding.names
    expected, got = by_id(panel, covariates), by_id(other_panel, other)
    assert expected.keys() == got.keys()
    for key, (values, static) in expected.items():
        np.testing.assert_allclose(got[key][0], values, atol=1e-6)
        np.testing.assert_allclose(got[key][1], static, atol=1e-6)


def to_pandas(frame):
    columns = {name: frame[name].to_list() for name in frame.columns}
    return pd.DataFrame(columns).astype({"sky": "category"})


@pytest.mark.parametrize("convert", [pl.DataFrame.lazy, pl.DataFrame.to_arrow, to_pandas])
def test_every_kind_of_frame_gives_the_same(shop_frame, convert):
    frame = shop_frame(LENGTHS)
    frame = frame.with_columns(price=pl.when(pl.int_range(pl.len()) % 9 != 2).then("price"))
    history, future = split(frame, 1)
    _, expected, encoding = read(history, future=future, horizon=1)
    _, covariates, same = read(convert(history), future=convert(future), horizon=1)
    assert same == encoding
    np.testing.assert_array_equal(covariates.values, expected.values)
    np.testing.assert_array_equal(covariates.static, expected.static)
