"""Forecasters of events, fitted once on small made-up stays."""

import pytest
import torch

from tsmamba import MambaForecaster, Training
from tsmamba.forecast.events.record import Record


def quick(**parameters):
    """Return a forecaster of networks that are hardly trained."""
    given = {"preset": "ehr", "random_state": 0, "training": Training(max_steps=2)}
    return MambaForecaster(**{**given, **parameters})


@pytest.fixture(scope="session")
def make_quick():
    return quick


@pytest.fixture(scope="session")
def fitted(make_records):
    """Return a forecaster with a horizon of three bins, not to be changed."""
    return quick(training=Training(max_steps=20, lr=1e-2, ema_decay=0.9)).fit(
        make_records(80).events
    )


@pytest.fixture(scope="session")
def record(reader, cleaned):
    """Return the stays of `records` as forecasters read them."""
    return Record.of(cleaned.only(reader.measured(cleaned)), reader)


@pytest.fixture
def one_stay(record):
    """Return the batch of the longest stay alone."""
    longest = int(record.tokens.offsets.diff().argmax())
    return record.batch(torch.tensor([longest]))
