import math

import numpy as np
import polars as pl
import pytest
from utilsforecast.losses import mase as reference_mase

from tsmamba.metrics import coverage, mase, naive_scale

NAN = np.nan


def test_mase_is_the_mean_error_over_the_scale():
    assert mase([1.0, 2.0, 4.0], [2.0, 2.0, 2.0], scale=0.5) == 2.0


def test_mase_agrees_with_utilsforecast(rng):
    history, y, forecast = rng.normal(size=50), rng.normal(size=8), rng.normal(size=8)
    frame = pl.DataFrame({"unique_id": ["a"] * 8, "y": y, "model": forecast})
    train = pl.DataFrame({"unique_id": ["a"] * 50, "y": history})
    expected = reference_mase(frame, ["model"], seasonality=7, train_df=train)["model"][0]
    assert mase(y, forecast, naive_scale(history, 7)) == pytest.approx(expected)


@pytest.mark.parametrize(("y", "forecast"), [([1, NAN, 3], [2, 9, 3]), ([1, 7, 3], [2, NAN, 3])])
def test_mase_leaves_out_pairs_with_a_missing_value(y, forecast):
    assert mase(y, forecast, scale=1.0) == 0.5


@pytest.mark.parametrize("y", [[], [NAN, NAN]])
def test_mase_of_nothing_is_not_a_number(y):
    assert math.isnan(mase(y, y, scale=1.0))


def test_the_scale_is_the_mean_change_over_a_season():
    assert naive_scale([1, 5, 2, 7, 2, 8], season=2) == pytest.approx((1 + 2 + 0 + 1) / 4)
    assert naive_scale([1, 2, 4], season=1) == 1.5


def test_the_scale_skips_missing_values():
    assert naive_scale([1, NAN, 2, 4], season=1) == 2


@pytest.mark.parametrize("season", [3, 5])
def test_a_series_no_longer_than_a_season_is_judged_by_single_steps(season):
    assert naive_scale([1, 2, 4], season=season) == 1.5


@pytest.mark.parametrize("y", [[], [3.0], [5.0] * 9, [NAN] * 4, [1.0, NAN, 2.0]])
def test_the_scale_is_above_zero(y):
    assert naive_scale(y, season=1) > 0


def test_coverage_counts_the_bounds_and_leaves_out_missing_values():
    assert coverage([0, 1, 2, 3, NAN], [1] * 5, [2] * 5) == 0.5


def test_coverage_of_nothing_is_not_a_number():
    assert math.isnan(coverage([NAN], [0], [1]))
    assert math.isnan(coverage([], [], []))
