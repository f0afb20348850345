"""Panels and stores of plain arrays, small made-up stays, and Kafka's own mock."""

import logging
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore
from tsmamba.records.events import EventColumns, Repairs, read_events
from tsmamba.records.reader import Reader

COLUMNS = EventColumns("subject_id", "time", "code", "numeric_value")


def panel_of(*series):
    """Return the panel of arrays of values, one series each, at integer stamps."""
    parts = [
        pl.DataFrame({"ds": range(len(values)), "y": np.asarray(values, dtype=float)}).with_columns(
            unique_id=pl.lit(f"s{number}")
        )
        for number, values in enumerate(series)
    ]
    return read_panel(pl.concat(parts), freq=1)


@pytest.fixture(scope="session")
def make_panel():
    return panel_of


@pytest.fixture(scope="session")
def make_store():
    """Return a function from arrays of values, and perhaps a season, to their store."""

    def store_of(*series, season=1):
        return WindowStore(panel_of(*series), season)

    return store_of


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


class Cluster:
    """Kafka's library brings brokers of one process for tests; a new topic has four partitions."""

    def __init__(self):
        import confluent_kafka

        self.library = confluent_kafka
        mock = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1}
        self._producer = confluent_kafka.Producer(mock, logger=logging.getLogger("mock"))
        [broker] = self._producer.list_topics(timeout=10).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def send(self, topic, values, partition=0):
        for value in values:
            self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(10) == 0

    def consumer(self, group="reader"):
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
        return self.library.Consumer(settings, logger=logging.getLogger("mock"))

    def messages(self, topic):
        """Return key and value of all messages, partition by partition."""
        consumer = self.consumer()
        places = [self.library.TopicPartition(topic, number, 0) for number in range(4)]
        consumer.assign(places)
        found, ended = [], 0
        while ended < len(places):
            message = consumer.poll(10)
            if message.error() is None:
                found.append((message.partition(), message.key(), message.value()))
            else:
                ended += 1
        consumer.close()
        return [(key, value) for _, key, value in sorted(found, key=lambda each: each[0])]

    def committed(self, topic, group):
        """Return the offset of each partition that a group has committed."""
        consumer = self.consumer(group)
        places = [self.library.TopicPartition(topic, number) for number in range(4)]
        offsets = [place.offset for place in consumer.committed(places, timeout=10)]
        consumer.close()
        return offsets

    def stop(self):
        """Take the brokers away."""
        self._producer = None


@pytest.fixture
def cluster():
    pytest.importorskip("confluent_kafka")
    return Cluster()
