import numpy as np
import pytest

from tsmamba.anomaly.units import Units


def test_rows_of_the_fit_have_mean_0_and_deviation_1(make_waves, rng):
    x = make_waves(300, 3)
    x[rng.random(x.shape) < 0.2] = np.nan
    scaled = Units.of(x).apply(x)
    np.testing.assert_allclose(np.nanmean(scaled, axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(scaled, axis=0), 1)
    np.testing.assert_array_equal(np.isnan(scaled), np.isnan(x))


@pytest.mark.parametrize("level", [0.0, 0.1, -7.0, 1e12])
def test_a_channel_that_never_changed_has_a_unit_too(level):
    units = Units.of(np.full((100, 1), level))
    assert units.mean[0] == pytest.approx(level)
    assert units.scale[0] == pytest.approx(0.01 * abs(level) or 1.0)


def test_a_channel_without_values_is_0():
    x = np.array([[1.0, np.nan], [2.0, np.nan]])
    units = Units.of(x)
    assert (units.mean[1], units.scale[1]) == (0, 1)
    np.testing.assert_array_equal(units.complete(x)[:, 1], 0)


@pytest.mark.parametrize("value", [1e6, 1e80, 1.7e308])
def test_the_farthest_values_are_cut(make_waves, value):
    units = Units.of(make_waves(100))
    np.testing.assert_array_equal(units.apply([[value], [-value]]), [[1e4], [-1e4]])


def test_gaps_are_filled_from_the_periods_around_them():
    wave = np.sin(2 * np.pi * np.arange(160) / 16)[:, None]
    x = wave.copy()
    x[[0, *range(40, 75), *range(150, 160)]] = np.nan
    units = Units.of(wave)
    np.testing.assert_allclose(units.complete(x, 16), units.apply(wave), atol=1e-9)
    assert np.abs(units.complete(x) - units.apply(wave)).max() > 1
    x = wave * [1.0, 0.0] + np.arange(160)[:, None] * [0.0, 0.1]
    whole, x[64:72] = x.copy(), np.nan
    units = Units.of(whole)
    filled = units.complete(x, 16)[64:72, 1]  # the mean of both neighbours is on a straight line
    np.testing.assert_allclose(filled, units.apply(whole)[64:72, 1], atol=1e-9)


def test_the_part_of_the_rows_with_a_value_is_known():
    x = np.array([[1.0, np.nan], [2.0, 3.0], [3.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(Units.of(x).known, [0.75, 0.25])
