import json
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsmamba.data.encoding import Categories, Encoding, Numbers
from tsmamba.errors import CovariateError, ParameterError


@pytest.mark.parametrize(
    "values",
    [
        pl.Series("x", [1.0, 2.0, None, 6.0]),
        pl.Series("x", [1, 2, None, 6], dtype=pl.UInt8),
        pl.Series("x", [Decimal(1), Decimal(2), None, Decimal(6)]),
    ],
)
def test_numbers_have_mean_zero_and_deviation_one_and_gaps_the_mean(values):
    encoded = Encoding.learn(values.to_frame()).encode(values.to_frame())
    assert encoded.dtype == np.float32
    known = np.array([1.0, 2.0, 6.0])
    expected = (known - known.mean()) / known.std()
    np.testing.assert_allclose(encoded[[0, 1, 3], 0], expected, rtol=1e-6)
    assert encoded[2] == 0


@pytest.mark.parametrize("value", [0.0, 0.1, -5e7, 1e300, 1e-300])
def test_a_constant_column_is_zero_and_its_scale_one(value):
    frame = pl.DataFrame({"x": [value] * 7})
    encoding = Encoding.learn(frame)
    assert encoding.columns == (Numbers("x", value, 1.0),)
    assert not encoding.encode(frame).any()


def test_rounding_errors_are_no_deviation():
    assert Numbers.learn(pl.Series([0.3, 0.1 + 0.2])).scale == 1.0
    assert Numbers.learn(pl.Series([1e9, 1e9 + 2])).scale == pytest.approx(1.0, abs=1e-6)


def test_huge_numbers_stay_finite():
    frame = pl.DataFrame({"x": [1e308, -1e308, 1e308]})
    assert np.abs(Encoding.learn(frame).encode(frame)).max() == pytest.approx(2**0.5)


@pytest.mark.parametrize("dtype", [pl.Null, pl.Float64, pl.String])
def test_a_column_without_any_value_says_nothing(dtype):
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=dtype)})
    assert not Encoding.learn(frame).encode(frame).any()


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["z", "b", "a"])])
def test_every_category_has_a_column_in_order_of_the_alphabet(dtype):
    frame = pl.DataFrame({"x": pl.Series(["b", None, "a", "b"], dtype=dtype)})
    encoding = Encoding.learn(frame)
    assert encoding.names == ("x=a", "x=b")
    assert encoding.encode(frame).tolist() == [[0, 1], [0, 0], [1, 0], [0, 1]]


def test_booleans_are_categories():
    frame = pl.DataFrame({"x": [True, False, None]})
    encoding = Encoding.learn(frame)
    assert encoding.columns == (Categories("x", ("false", "true")),)
    assert encoding.encode(frame).tolist() == [[0, 1], [1, 0], [0, 0]]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["a", "new"])])
def test_unknown_categories_are_zero_in_all_columns(dtype):
    encoding = Encoding.learn(pl.DataFrame({"x": ["a", "b"]}))
    later = pl.DataFrame({"x": pl.Series(["new", "a", None], dtype=dtype)})
    assert encoding.encode(later).tolist() == [[0, 0], [1, 0], [0, 0]]


def test_selected_columns_are_encoded_alone_in_their_order():
    frame = pl.DataFrame({"a": [1, 3], "b": ["x", "y"], "c": [5, 9]})
    encoding = Encoding.learn(frame)
    whole = encoding.encode(frame)
    chosen = encoding.select(["c", "b"])
    assert chosen.names == ("c", "b=x", "b=y")
    np.testing.assert_array_equal(chosen.encode(frame), whole[:, [3, 1, 2]])
    assert encoding.select([]).encode(frame).shape == (2, 0)


def test_at_most_64_categories():
    fits = pl.DataFrame({"city": [f"c{k}" for k in range(64)]})
    assert len(Encoding.learn(fits).names) == 64
    many = pl.DataFrame({"city": [f"c{k}" for k in range(65)]})
    with pytest.raises(CovariateError, match="'city' holds 65 different values, and at most 64 "):
        Encoding.learn(many)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pl.Series("x", [0]).cast(pl.Date), r"'x' is of type Date; .* e.g. with pl.col\('x'\).dt"),
        (pl.Series("x", [[1]]), r"'x' is of type List\(Int64\); numbers, booleans and text are"),
        (pl.Series("x", [b"a"]), "'x' is of type Binary; numbers, booleans and text are accepted"),
    ],
)
def test_columns_of_another_type(values, message):
    with pytest.raises(CovariateError, match=message):
        Encoding.learn(values.to_frame())


@pytest.mark.parametrize(
    ("fitted", "given", "message"),
    [
        ([1.0], ["1"], r"'x' is of type String and was fitted as numbers; .*cast\(pl.Float64\)"),
        ([1], [True], "'x' is of type Boolean and was fitted as numbers"),
        (["1"], [1], r"'x' is of type Int64 and was fitted as categories; .*cast\(pl.String\)"),
    ],
)
def test_another_kind_than_the_fitted_one(fitted, given, message):
    encoding = Encoding.learn(pl.DataFrame({"x": fitted}))
    with pytest.raises(CovariateError, match=message):
        encoding.encode(pl.DataFrame({"x": given}))
    assert not encoding.encode(pl.DataFrame({"x": [None]})).any()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(-1e9, 1e9) | st.none(), min_size=3, max_size=3),
    st.lists(st.text() | st.none(), min_size=3, max_size=3),
)
def test_the_way_through_json_changes_nothing(numbers, texts):
    frame = pl.DataFrame(
        {"a": pl.Series(numbers, dtype=pl.Float64), "b": pl.Series(texts, dtype=pl.String)}
    )
    encoding = Encoding.learn(frame)
    assert Encoding.from_dict(json.loads(json.dumps(encoding.to_dict()))) == encoding


@pytest.mark.parametrize(
    "fields", [{}, {"columns": [{"name": "a"}]}, {"columns": 1}, None, {"columns": ["mean"]}]
)
def test_what_is_no_stored_encoding(fields):
    with pytest.raises(ParameterError, match="is not a stored encoding"):
        Encoding.from_dict(fields)
