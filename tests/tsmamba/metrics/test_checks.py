import numpy as np
import polars as pl
import pytest

from tsmamba.errors import ParameterError
from tsmamba.metrics.checks import check_marks, check_pair, check_scores, check_whole


@pytest.mark.parametrize(
    "values", [[0, 1], [False, True], [0.0, 1.0], pl.Series([0, 1]), np.array([0, 1], dtype="i1")]
)
def test_marks_may_be_numbers_or_booleans(values):
    marks = check_marks(values, "alerts")
    assert marks.dtype == bool
    assert marks.tolist() == [False, True]


def test_what_is_given_is_not_changed():
    scores = np.array([1.0, 2.0])
    check_scores(scores)[0] = 9
    assert scores.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("check", [check_scores, lambda values: check_marks(values, "scores")])
@pytest.mark.parametrize("values", [[[1], [1, 2]], [object(), 1], ["x", "y"]])
def test_what_is_no_number_is_refused(check, values):
    with pytest.raises(ParameterError, match="scores does not hold numbers only"):
        check(values)


@pytest.mark.parametrize("values", [0.5, [[1.0], [2.0]]])
def test_one_number_a_step_is_wanted(values):
    with pytest.raises(ParameterError, match=r"scores has shape \(.*; pass one number a step"):
        check_scores(values)


def test_scores_that_are_missing_or_infinite_are_counted():
    message = "scores holds 3 NaN or infinite values of 1,000, the first at step 10; leave these"
    scores = np.zeros(1000)
    scores[[10, 20, 30]] = np.nan, np.inf, -np.inf
    with pytest.raises(ParameterError, match=message):
        check_scores(scores)


def test_a_normal_step_is_asked_for_only_where_it_is_needed():
    assert check_pair([1, 1], np.zeros(2), "scores").all()
    with pytest.raises(ParameterError, match="labels is 1 at all 2 steps"):
        check_pair([1, 1], np.zeros(2), "scores", normal=True)


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ParameterError, match=r"window=.*; pass a whole number of at least 0"):
        check_whole(value, "window")
