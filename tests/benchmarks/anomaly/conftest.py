"""Small problems whose answers are known."""

import numpy as np
import pytest

from benchmarks.anomaly.problem import Cause, Problem
from benchmarks.anomaly.sets import AnomalySet

T, START, STOP = 1_000, 700, 730


@pytest.fixture
def make_problem():
    """Return a function that makes waves with noise and one anomaly, in the last channel."""

    def make(name="a", channels=1, source="waves", seed=0):
        rng = np.random.default_rng(seed)
        waves = np.sin(2 * np.pi * (np.arange(T) / 25)[:, None] + np.arange(channels))
        values = waves + 0.05 * rng.normal(size=waves.shape)
        values[START:STOP, -1] = 3.0 + rng.normal(size=STOP - START)
        labels = np.zeros(T, bool)
        labels[START:STOP] = True
        causes = (Cause(START, STOP, frozenset({channels - 1})),) if channels > 1 else ()
        return Problem(source, name, values, labels, 400, 400, causes)

    return make


@pytest.fixture
def waves(make_problem):
    """Return a set of two series."""
    problems = {name: make_problem(name, seed=seed) for seed, name in enumerate("ab")}
    return AnomalySet("waves", lambda: list(problems), problems.__getitem__)
