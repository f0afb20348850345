import numpy as np
import pytest

from tsmamba.anomaly.period import dominant_period


@pytest.mark.parametrize("period", [5, 12, 24, 100, 288])
def test_the_period_of_a_noisy_wave_is_found(rng, period):
    t = np.arange(20 * period)
    x = np.sin(2 * np.pi * t / period) + 0.1 * rng.normal(size=len(t))
    assert dominant_period(x) == pytest.approx(period, rel=0.03)


def test_level_and_unit_do_not_matter(rng):
    x = np.sin(np.arange(600) / 5) + 0.1 * rng.normal(size=600)
    assert dominant_period(x) == dominant_period(3.7 * x + 1_000)


def test_only_the_first_rows_count(rng):
    x = rng.normal(size=20_000)
    assert dominant_period(x) == dominant_period(np.concatenate([x, np.sin(np.arange(20_000) / 9)]))


@pytest.mark.parametrize("x", [np.zeros(100), np.full(100, 3.0), np.arange(100.0), np.ones(3)])
def test_without_a_maximum_the_fallback_is_taken(x):
    assert dominant_period(x) == 125
