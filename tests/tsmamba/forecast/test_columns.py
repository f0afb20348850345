import numpy as np
import pytest

from tsmamba.errors import ParameterError
from tsmamba.forecast.columns import POINT, Bands


def names(*args, **kwargs):
    return [name for name, _ in Bands.of(*args, **kwargs).columns]


def test_levels_are_central_intervals_from_the_lowest_bound_to_the_highest():
    bands = Bands.of([80, 95], None)
    assert [name for name, _ in bands.columns] == [
        f"{POINT}-lo-95",
        f"{POINT}-lo-80",
        f"{POINT}-hi-80",
        f"{POINT}-hi-95",
    ]
    assert [q for _, q in bands.columns] == pytest.approx([0.025, 0.1, 0.9, 0.975])


def test_quantiles_rise():
    bands = Bands.of(None, [0.9, 0.1, 0.5])
    assert bands.columns == tuple((f"{POINT}_ql{q}", q) for q in (0.1, 0.5, 0.9))


def test_the_default_is_the_interval_of_90_percent():
    assert names(None, None) == [f"{POINT}-lo-90", f"{POINT}-hi-90"]


def test_an_estimator_may_have_another_default():
    assert names(None, None, [0.5]) == [f"{POINT}_ql0.5"]
    assert names([80], None, [0.5]) == [f"{POINT}-lo-80", f"{POINT}-hi-80"]
    assert names(None, [0.2], [0.5]) == [f"{POINT}_ql0.2"]


@pytest.mark.parametrize("level", [90, [90], (90.0,), np.array([90]), np.float32(90), [90, 90]])
def test_numbers_may_come_in_any_wrapping(level):
    assert names(level, None) == [f"{POINT}-lo-90", f"{POINT}-hi-90"]


def test_quantiles_may_be_an_array():
    assert Bands.of(None, np.array([0.25, 0.75])).columns[0] == (f"{POINT}_ql0.25", 0.25)


def test_fractions_of_a_percent_are_written_out():
    assert names([99.9], None)[0] == f"{POINT}-lo-99.9"


@pytest.mark.parametrize("empty", [[], ()])
def test_no_level_is_no_column(empty):
    assert Bands.of(empty, None).columns == ()
    assert Bands.of(None, empty).columns == ()


def test_both_are_refused():
    with pytest.raises(ParameterError, match=r"level=\[80\] and quantiles=\[0.1\] were both given"):
        Bands.of([80], [0.1])


@pytest.mark.parametrize("level", [[0], [100], [-5], [80, 101], ["80"], "80", [True], [np.nan]])
def test_levels_out_of_range_are_refused(level):
    with pytest.raises(ParameterError, match=r"level=.* strictly between 0 and 100 \(a level is"):
        Bands.of(level, None)


@pytest.mark.parametrize("quantiles", [[0], [1], [1.5], [0.1, 90], "0.1", [None], [[0.1]]])
def test_quantiles_out_of_range_are_refused(quantiles):
    with pytest.raises(ParameterError, match=r"quantiles=.* strictly between 0 and 1, as in"):
        Bands.of(None, quantiles)
