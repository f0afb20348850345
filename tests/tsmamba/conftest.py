"""Panels and stores of plain arrays, for tests below the level of frames, and Kafka's own mock."""

import logging

import numpy as np
import polars as pl
import pytest

from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore


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
