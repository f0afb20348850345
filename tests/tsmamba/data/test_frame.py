import builtins
import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from tsmamba.data.frame import FrameKind, column_names, frame_kind, to_native, to_polars
from tsmamba.errors import FrameError


def pandas_frame():
    return pd.DataFrame(
        {
            "text": ["b", "a", "c"],
            "absent": ["b", None, "c"],
            "object": pd.Series(["b", "a", "c"], dtype=object),
            "category": pd.Categorical(["b", "a", "b"], categories=["b", "z", "a"]),
            "numbers": pd.Categorical([3, 1, 3]),
            "int": pd.Series([1, 2, 3], dtype="int16"),
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "naive": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).astype(
                "datetime64[ns]"
            ),
            "seconds": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).astype(
                "datetime64[s]"
            ),
            "zoned": pd.date_range("2024-03-30", periods=3, tz="Europe/Berlin").as_unit("ms"),
            "date": pd.Series([dt.date(2024, 1, 1)] * 3, dtype=object),
            "flag": [True, False, True],
            "float": [1.5, np.nan, 2.5],
        }
    ).set_axis([7, 8, 9])


def test_pandas_types_become_the_polars_ones():
    schema = dict(to_polars(pandas_frame()).schema)
    assert schema == {
        "text": pl.String,
        "absent": pl.String,
        "object": pl.String,
        "category": pl.Categorical,
        "numbers": pl.Int64,
        "int": pl.Int16,
        "nullable": pl.Int64,
        "naive": pl.Datetime("ns"),
        "seconds": pl.Datetime("ms"),
        "zoned": pl.Datetime("ms", "Europe/Berlin"),
        "date": pl.Date,
        "flag": pl.Boolean,
        "float": pl.Float64,
    }


def test_pandas_values_and_types_survive_the_round_trip():
    frame = pandas_frame()
    back = to_native(to_polars(frame), frame_kind(frame))
    pd.testing.assert_frame_equal(back, frame.reset_index(drop=True))


def test_pandas_needs_no_pyarrow(monkeypatch):
    true_import = builtins.__import__

    def without_pyarrow(name, *args, **kwargs):
        if name.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name)
        return true_import(name, *args, **kwargs)

    frame = pandas_frame().drop(columns="absent")
    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    back = to_native(to_polars(frame), frame_kind(frame))
    monkeypatch.undo()
    pd.testing.assert_frame_equal(back, frame.reset_index(drop=True))


def test_missing_stamps_become_nat():
    stamps = pl.Series("ds", [dt.datetime(2030, 5, 1), None])
    zoned = stamps.dt.replace_time_zone("Europe/Berlin").alias("zoned")
    back = to_native(pl.DataFrame([stamps, zoned]), FrameKind("pandas"))
    for name in ("ds", "zoned"):
        assert back[name].isna().tolist() == [False, True]
        assert back[name][0] == pd.Timestamp(dt.datetime(2030, 5, 1), tz=back[name].dt.tz)


def test_a_kind_without_types_still_gives_pandas():
    frame = pl.DataFrame({"id": ["a"], "ds": [dt.datetime(2024, 1, 1)]})
    back = to_native(frame.cast({"id": pl.Categorical}), FrameKind("pandas"))
    assert isinstance(back, pd.DataFrame)
    assert back["id"].tolist() == ["a"]
    assert back["ds"].dtype == "datetime64[us]"


def test_floats_keep_our_precision_and_not_the_callers_type():
    kind = frame_kind(pd.DataFrame({"y": [1, 2]}))
    assert to_native(pl.DataFrame({"y": [0.5]}), kind)["y"].tolist() == [0.5]


def test_arrow_values_and_types_survive_the_round_trip():
    table = pa.table(
        {
            "text": pa.array(["b", "a"]),
            "category": pa.array(["b", "a"]).dictionary_encode(),
            "int": pa.array([1, 2], pa.int32()),
            "zoned": pa.array([0, 1], pa.timestamp("ms", "Europe/Berlin")),
            "seconds": pa.array([0, 1], pa.timestamp("s")),
            "date": pa.array([0, 1], pa.date32()),
            "decimal": pa.array([decimal.Decimal("1.5")] * 2, pa.decimal128(5, 2)),
            "float": [1.5, None],
        }
    )
    back = to_native(to_polars(table), frame_kind(table))
    assert back.schema.equals(table.schema)
    assert back.equals(table)


def test_lazy_frames_are_collected_and_only_asked_for_columns_are_read():
    lazy = pl.LazyFrame({"ds": [1, 2], "y": [1.0, 2.0], "bad": ["a", "b"]}).with_columns(
        pl.col("bad").cast(pl.Float64)
    )
    expected = pl.DataFrame({"y": [1.0, 2.0], "ds": [1, 2]})
    assert_frame_equal(to_polars(lazy, ["y", "ds"]), expected)
    assert column_names(lazy) == ["ds", "y", "bad"]
    assert isinstance(to_native(expected, frame_kind(lazy)), pl.DataFrame)


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        (None, "got NoneType; build a frame first"),
        ([1, 2], r"got list; build a frame first, e.g. pl.DataFrame\("),
        (np.zeros(3), r"got numpy.ndarray; build a frame first, e.g. pl.DataFrame\("),
        (pd.Series([1.0]), r"got pandas.Series; build a frame first, e.g. pl.DataFrame\("),
        (pl.Series([1.0]), r"got polars.Series; build a frame first, e.g. pl.DataFrame\("),
        ("data.parquet", r"got str; build a frame first, e.g. pl.read_parquet\(path\)"),
        ({"y": [1.0]}, r"got dict; build a frame first"),
    ],
)
@pytest.mark.parametrize("function", [to_polars, frame_kind, column_names])
def test_what_is_no_frame_is_refused(function, given, fragment):
    with pytest.raises(FrameError, match=fragment) as caught:
        function(given)
    assert "a polars DataFrame or LazyFrame, a pandas DataFrame or a pyarrow Table" in str(
        caught.value
    )


def test_pandas_columns_polars_cannot_hold_are_refused():
    fixed_offset = pd.to_datetime(["2024-01-01T00:00+01:00"])
    with pytest.raises(FrameError, match=r"column 'ds' of dtype datetime64\[us, UTC\+01:00\]"):
        to_polars(pd.DataFrame({"ds": fixed_offset}))
    mixed = pd.DataFrame({"y": pd.Series([1, "a"], dtype=object)})
    with pytest.raises(FrameError, match="column 'y' of dtype object cannot be read"):
        to_polars(mixed)
    periods = pd.DataFrame({"ds": pd.period_range("2024-01", periods=2, freq="M")})
    with pytest.raises(FrameError, match=r"column 'ds' of dtype period\[M\] cannot be read"):
        to_polars(periods)


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(FrameError, match="two columns of the frame share a name"):
        to_polars(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(FrameError, match="two columns of the frame share a name"):
        to_polars(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_arrow_backed_pandas_types_survive_the_round_trip():
    frame = pd.DataFrame(
        {
            "text": pd.array(["b", "a"], dtype="string[pyarrow]"),
            "zoned": pd.array(
                pd.date_range("2024-03-30", periods=2, tz="Europe/Berlin"),
                dtype=pd.ArrowDtype(pa.timestamp("us", "Europe/Berlin")),
            ),
            "naive": pd.array([0, 1], dtype=pd.ArrowDtype(pa.timestamp("ns"))),
            "date": pd.array([0, 1], dtype=pd.ArrowDtype(pa.date32())),
            "int": pd.array([1, 2], dtype="int16[pyarrow]"),
            "float": pd.array([1.5, 2.5], dtype="Float32"),
        }
    )
    polars = to_polars(frame)
    assert dict(polars.schema) == {
        "text": pl.String,
        "zoned": pl.Datetime("us", "Europe/Berlin"),
        "naive": pl.Datetime("ns"),
        "date": pl.Date,
        "int": pl.Int16,
        "float": pl.Float32,
    }
    back = to_native(polars, frame_kind(frame))
    pd.testing.assert_frame_equal(back, frame.astype({"float": "float32"}))
