"""Scores as detectors make them, and every calibration under its name."""

import numpy as np
import pytest

from tsmamba.anomaly.calibration import Conformal, DriftSpot, Quantile, Rate, Spot

CALIBRATIONS = {
    "quantile": Quantile(contamination=0.01),
    "auto": Quantile(),
    "spot": Spot(q=2e-3),
    "dspot": DriftSpot(q=2e-3, depth=50),
    "conformal": Conformal(alpha=0.01, window=200),
    "rate": Rate(per_day=4, steps_per_day=500),
    "fixed-rate": Rate(per_day=4, steps_per_day=500, gain=0),
}


@pytest.fixture(params=CALIBRATIONS.values(), ids=CALIBRATIONS.keys())
def calibration(request):
    return request.param


@pytest.fixture(scope="session")
def make_scores():
    """Return a function to scores that hang together over a width."""

    def scores_of(n, seed=0, width=20):
        noise = np.random.default_rng(seed).standard_t(4, size=n + width - 1)
        sums = np.cumsum(np.concatenate([[0.0], np.abs(noise)]))
        return (sums[width:] - sums[:-width]) / width

    return scores_of
