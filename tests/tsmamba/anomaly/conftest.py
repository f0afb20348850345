"""Waves to detect in, and detectors fitted on them once."""

import numpy as np
import pytest

from tsmamba import MambaDetector

PERIOD = 16


def waves(n, channels=1, seed=0):
    """Return noisy waves of 16 rows, each channel of another phase, level and unit."""
    rng = np.random.default_rng(seed)
    phase = np.arange(n)[:, None] / PERIOD + np.arange(channels) / 7
    noise = 0.05 * rng.normal(size=(n, channels))
    return (np.sin(2 * np.pi * phase) + noise) * (1 + np.arange(channels)) + 5 * np.arange(channels)


def quick(**parameters):
    """Return a detector with a small memory."""
    return MambaDetector(**{"memory_size": 48} | parameters)


@pytest.fixture(scope="session")
def make_waves():
    return waves


@pytest.fixture(scope="session")
def make_quick():
    return quick


@pytest.fixture(scope="session")
def detectors():
    """Return a function from channels and delay to a detector, not to be changed."""
    made = {}

    def of(channels=1, delay=0):
        if (channels, delay) not in made:
            detector = quick(mode="streaming", delay=delay)
            made[channels, delay] = detector.fit(waves(400, channels))
        return made[channels, delay]

    return of


@pytest.fixture(scope="session")
def tiny():
    """Return a detector of single rows of two channels, which has no warm-up."""
    rng = np.random.default_rng(0)
    return MambaDetector(preset="tiny").fit(rng.normal(size=(300, 2)))
