"""Small sets whose answers are known."""

import numpy as np
import polars as pl
import pytest

from benchmarks.forecast.problem import Problem
from benchmarks.forecast.sets import ForecastSet

HORIZON = 12


@pytest.fixture(scope="session")
def make_set():
    """Return a function that makes a set of two channels, waves with noise."""

    def make(change=lambda values: values, noise=0.1, **kwargs):
        def read():
            t = np.arange(600)
            waves = np.stack([np.sin(2 * np.pi * t / 24), 5 + 3 * np.cos(2 * np.pi * t / 12)])
            draws = np.random.default_rng(0).normal(size=waves.shape)
            values = change(waves + noise * draws)
            return pl.DataFrame({"ds": t, "a": values[0], "b": values[1]})

        sizes = {"validation_steps": 100, "test_steps": 100, "lookbacks": (24, 48)}
        defaults = {"season": 24, "targets": ("a", "b"), "horizons": (HORIZON,)}
        return ForecastSet("waves", read, **sizes | defaults | kwargs)

    return make


@pytest.fixture(scope="session")
def problem(make_set):
    return Problem.of(make_set(), HORIZON)
