"""Small made-up stays, and classifiers fitted on them once."""

from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from tsmamba import MambaClassifier, Training
from tsmamba.classify.events import EventColumns, Repairs, read_events
from tsmamba.classify.reader import Reader

COLUMNS = EventColumns("subject_id", "time", "code", "numeric_value")


class Records(NamedTuple):
    """Events of some stays, and the label of each."""

    events: pl.DataFrame
    labels: pl.DataFrame

    def of(self, subject_id):
        """Return the events of one stay."""
        return self.events.filter(pl.col("subject_id") == subject_id)


def make(n, seed=0, n_classes=2):
    """Return stays of up to a day, charted at quarters of an hour, so that many end a bin.

    A higher class has a faster pulse that rises, more lactate and more years.
    """
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for number in range(n):
        subject = 1_000 + number
        label = number % n_classes
        length = rng.uniform(8, 24)
        labels.append((subject, label))
        rows.append(
            (subject, 0.0, "Age", np.round(np.clip(rng.normal(60 + 4 * label, 15), 18, 95)))
        )
        rows.append((subject, 0.0, "Gender", float(rng.integers(2))))

        def times(count, length=length):
            return np.unique(np.round(rng.uniform(0, length, count) * 4) / 4)

        level = rng.normal(80 + 12 * label, 8)
        rows += [
            (subject, t, "HR", np.round(level + label * t + rng.normal(0, 4))) for t in times(14)
        ]
        rows += [(subject, t, "Temp", np.round(rng.normal(37, 0.5), 1)) for t in times(5)]
        if rng.random() < 0.7:
            rows += [
                (subject, t, "Lactate", np.round(np.exp(rng.normal(0.4 * label, 0.5)), 2))
                for t in times(3)
            ]
    names = ["subject_id", "time", "code", "numeric_value"]
    return Records(
        pl.DataFrame(rows, names, orient="row"),
        pl.DataFrame(labels, ["subject_id", "label"], orient="row"),
    )


def read(frame, **names):
    """Return the events of a frame, and what was wrong with it."""
    repairs = Repairs()
    columns = {**vars(COLUMNS), **names}
    return read_events(frame, EventColumns(**columns), repairs), repairs


def streaming():
    """Return a classifier that can stream."""
    knobs = Training(max_steps=40, lr=1e-2, ema_decay=0.9)
    return MambaClassifier(preset="tiny", causal=True, base=None, training=knobs, random_state=0)


@pytest.fixture(scope="session")
def make_records():
    return make


@pytest.fixture(scope="session")
def read_frame():
    return read


@pytest.fixture(scope="session")
def records():
    """Stays to fit on."""
    return make(60)


@pytest.fixture(scope="session")
def others():
    """Stays that no model has seen."""
    return make(40, seed=1)


@pytest.fixture(scope="session")
def learned(records):
    """Return what a reader learned from the stays to fit on, and these, cleaned."""
    events, repairs = read(records.events)
    return Reader.learn(events, n_bins=24, max_codes=128, repairs=repairs)


@pytest.fixture(scope="session")
def reader(learned):
    return learned[0]


@pytest.fixture(scope="session")
def cleaned(learned):
    return learned[1]


@pytest.fixture(scope="session")
def fitted(records):
    """Return a classifier of networks and trees, not to be changed."""
    return MambaClassifier(preset="tiny", random_state=0).fit(*records)


@pytest.fixture(scope="session")
def causal(records):
    """Return a classifier that can stream, not to be changed."""
    return streaming().fit(*records)


@pytest.fixture(scope="session")
def of_three():
    """Return a classifier of three classes that can stream, not to be changed."""
    return streaming().fit(*make(60, seed=2, n_classes=3))
