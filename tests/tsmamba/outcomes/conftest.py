"""Classifiers fitted once on small made-up stays."""

import pytest

from tsmamba import MambaClassifier, Training


def streaming():
    """Return a classifier that can stream."""
    knobs = Training(max_steps=40, lr=1e-2, ema_decay=0.9)
    return MambaClassifier(preset="tiny", causal=True, base=None, training=knobs, random_state=0)


@pytest.fixture(scope="session")
def fitted(records):
    """Return a classifier of networks and trees, not to be changed."""
    return MambaClassifier(preset="tiny", random_state=0).fit(*records)


@pytest.fixture(scope="session")
def causal(records):
    """Return a classifier that can stream, not to be changed."""
    return streaming().fit(*records)


@pytest.fixture(scope="session")
def of_three(make_records):
    """Return a classifier of three classes that can stream, not to be changed."""
    return streaming().fit(*make_records(60, seed=2, n_classes=3))
