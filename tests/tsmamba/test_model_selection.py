from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import TimeSeriesSplit

from tsmamba.errors import FrameError, FrequencyError, ParameterError, SeriesTooShortError
from tsmamba.model_selection import RollingOrigin

CASES = {
    "default": {"n_splits": 3, "horizon": 4},
    "one": {"n_splits": 1, "horizon": 7},
    "overlapping": {"n_splits": 4, "horizon": 6, "step_size": 2},
    "sparse": {"n_splits": 2, "horizon": 3, "step_size": 8},
    "gap": {"n_splits": 3, "horizon": 2, "gap": 5},
}
case = pytest.mark.parametrize("settings", CASES.values(), ids=CASES)


def series(key, steps, start=0):
    return pl.DataFrame({"ds": [start + step for step in steps]}).with_columns(
        unique_id=pl.lit(key), y=pl.col("ds").cast(pl.Float64)
    )


@pytest.fixture
def panel(rng):
    """Series that differ in length, in start and end, and in the stamps that are absent."""
    parts = []
    for key, (start, length) in {"b": (0, 40), "a": (-13, 25), "c": (90, 31)}.items():
        inside = 1 + np.flatnonzero(rng.random(length - 2) < 0.8)
        parts.append(series(key, [0, *inside.tolist(), length - 1], start))
    return pl.concat(parts)


def splits(splitter, frame):
    return [(train.tolist(), test.tolist()) for train, test in splitter.split(frame)]


def test_rows_are_steps_in_uneven_time():
    frame = series("a", [0, 3, 4, 9, 11, 12])
    rows = frame.with_columns(ds=pl.int_range(6))
    found = splits(RollingOrigin(2, 2, freq="uneven"), frame)
    assert found == splits(RollingOrigin(2, 2), rows) == [([0, 1], [2, 3]), ([0, 1, 2, 3], [4, 5])]
    assert found != splits(RollingOrigin(2, 2), frame)


def rows_of(frame, splitter):
    """The rows of each split as sets of id and stamp."""
    keys = list(frame.select("unique_id", "ds").iter_rows())
    return [tuple({keys[row] for row in rows} for rows in pair) for pair in splitter.split(frame)]


# What is split


@case
def test_every_series_is_cut_at_its_own_steps_before_its_end(panel, settings):
    splitter = RollingOrigin(**settings)
    n_splits, horizon = settings["n_splits"], settings["horizon"]
    step, gap = settings.get("step_size", horizon), settings.get("gap", 0)
    ends = dict(panel.group_by("unique_id").agg(pl.col("ds").max()).iter_rows())
    found = splits(splitter, panel)
    assert len(found) == splitter.get_n_splits() == n_splits
    for number, (train, test) in enumerate(found):
        expected_train, expected_test = [], []
        for row, (key, stamp) in enumerate(panel.select("unique_id", "ds").iter_rows()):
            origin = ends[key] + 1 - horizon - (n_splits - 1 - number) * step
            if stamp < origin - gap:
                expected_train.append(row)
            elif origin <= stamp < origin + horizon:
                expected_test.append(row)
        assert (train, test) == (expected_train, expected_test)


@pytest.mark.parametrize("gap", [0, 3])
def test_a_single_series_is_split_as_scikit_learn_would(gap):
    frame = series("a", range(30)).drop("unique_id")
    theirs = TimeSeriesSplit(4, test_size=5, gap=gap).split(frame)
    expected = [(train.tolist(), test.tolist()) for train, test in theirs]
    assert splits(RollingOrigin(4, 5, gap=gap), frame) == expected


def test_earlier_splits_are_those_of_a_shorter_frame():
    whole = pl.concat([series("a", range(30)), series("b", range(22), start=50)])
    shorter = whole.filter(pl.col("ds") <= pl.col("ds").max().over("unique_id") - 4)
    expected = rows_of(whole, RollingOrigin(4, 4))[:-1]
    assert rows_of(shorter, RollingOrigin(3, 4)) == expected


# Laws


@case
def test_the_order_of_rows_is_irrelevant(panel, settings):
    splitter = RollingOrigin(**settings)
    shuffled = panel.sample(fraction=1, shuffle=True, seed=1)
    assert shuffled["ds"].to_list() != panel["ds"].to_list()
    assert rows_of(shuffled, splitter) == rows_of(panel, splitter)
    for train, test in splitter.split(shuffled):
        assert (np.diff(train) > 0).all()
        assert (np.diff(test) > 0).all()


@case
def test_a_series_is_split_alone_as_among_others(panel, settings):
    splitter = RollingOrigin(**settings, freq=1)
    together = rows_of(panel, splitter)
    for key in panel["unique_id"].unique():
        of_key = [tuple({row for row in rows if row[0] == key} for rows in p) for p in together]
        if all(test for _, test in of_key):  # alone it would be refused
            assert rows_of(panel.filter(unique_id=key), splitter) == of_key


def test_no_row_is_tested_twice_or_on_its_own_training(panel):
    pairs = splits(RollingOrigin(3, 4), panel)
    assert all(set(train).isdisjoint(test) for train, test in pairs)
    tested = [row for _, test in pairs for row in test]
    assert len(tested) == len(set(tested)) > 0


# Frames


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "index"])
def test_every_kind_of_frame_is_split_alike(panel, kind):
    frame = panel.to_arrow() if kind == "pyarrow" else pd.DataFrame(panel.to_dict(as_series=False))
    if kind == "index":
        frame.index = frame.index[::-1]
    splitter = RollingOrigin(2, 3)
    assert splits(splitter, frame) == splits(splitter, panel)


def test_steps_are_those_of_the_calendar():
    months = pl.date_range(date(2020, 1, 31), date(2021, 12, 31), "1mo", eager=True)
    frame = pl.DataFrame({"ds": months}).filter(pl.col("ds").dt.month() != 11)
    train, test = next(RollingOrigin(1, 3).split(frame))
    assert frame["ds"].gather(test).to_list() == [date(2021, 10, 31), date(2021, 12, 31)]
    assert len(train) == 20


def test_columns_may_have_any_name(panel):
    renamed = panel.rename({"unique_id": "sensor", "ds": "time"})
    found = splits(RollingOrigin(2, 3, id_col="sensor", time_col="time"), renamed)
    assert found == splits(RollingOrigin(2, 3), panel)


def test_values_are_not_looked_at(panel):
    spoiled = panel.with_columns(y=pl.lit("none"))
    assert splits(RollingOrigin(2, 3), spoiled) == splits(RollingOrigin(2, 3), panel)


def test_the_step_can_be_given():
    frame = series("a", range(0, 40, 2))
    assert [len(test) for _, test in RollingOrigin(2, 4).split(frame)] == [4, 4]
    assert [len(test) for _, test in RollingOrigin(2, 4, freq=1).split(frame)] == [2, 2]


# Refusals


def test_series_without_a_step_to_train_on_are_refused():
    splitter = RollingOrigin(2, 5, step_size=3, gap=2)
    frame = pl.concat([series("long", range(90)), series("a", range(10)), series("b", range(7))])
    with pytest.raises(SeriesTooShortError) as error:
        next(splitter.split(frame))
    assert str(error.value) == (
        "series 'b' has 7 steps; 2 splits of 5 steps, 3 apart with a gap of 2, need more than 10 "
        "(2 such series in all): ask for fewer splits or a shorter horizon, or leave the series out"
    )
    train, _ = next(splitter.split(series("c", range(11))))
    assert train.tolist() == [0]


def test_a_short_frame_of_one_series_is_refused():
    with pytest.raises(SeriesTooShortError, match="the series has 6 steps; 2 splits of 3 steps"):
        next(RollingOrigin(2, 3).split(series("a", range(6)).drop("unique_id")))


def test_a_split_without_rows_to_test_on_is_refused_before_the_first():
    frame = series("a", [*range(20), *range(26, 30)])
    with pytest.raises(FrameError) as error:
        next(RollingOrigin(3, 4).split(frame))
    assert str(error.value) == (
        "split 2 of 3 has no row to test on: stamps are absent in column 'ds' from 8 to 5 steps "
        "before the end; ask for a longer horizon or fewer splits"
    )


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (np.zeros((20, 2)), "got numpy.ndarray; build a frame first"),
        (pl.DataFrame({"time": [1, 2, 3]}), "no column 'ds'"),
        (pl.DataFrame({"ds": []}), "no rows"),
        (pl.DataFrame({"ds": [1, 2, 2, 3]}), "more than one row at ds=2"),
        (pl.DataFrame({"ds": [1, None, 3]}), "have no time stamp"),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused(frame, message):
    with pytest.raises(FrameError, match=message):
        next(RollingOrigin(1, 1).split(frame))


def test_stamps_off_the_given_grid_are_refused():
    with pytest.raises(FrequencyError, match="no whole number of steps of 2"):
        next(RollingOrigin(1, 1, freq=2).split(series("a", range(9))))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_splits": 0}, "n_splits=0; pass a whole number of at least 1"),
        ({"horizon": 2.0}, "horizon=2.0; pass a whole number of at least 1"),
        ({"horizon": True}, "horizon=True; pass"),
        ({"step_size": 0}, "step_size=0; pass a whole number of at least 1"),
        ({"gap": -1}, "gap=-1; pass a whole number of at least 0"),
    ],
)
def test_a_parameter_out_of_range_is_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        RollingOrigin(**{"n_splits": 2, "horizon": 3} | settings)


def test_it_is_shown_with_its_parameters():
    text = repr(RollingOrigin(3, 24, gap=2))
    assert text.startswith("RollingOrigin(")
    assert all(part in text for part in ("n_splits=3", "horizon=24", "gap=2"))
