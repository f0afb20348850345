"""Kafka as both ends of a scorer see it: where it is, what it has, whether it answers."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tsmamba._optional import require
from tsmamba.errors import BrokerError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

__all__ = ["PATIENCE", "Broker"]

PATIENCE = 5.0
"""Seconds that brokers may take to answer before the first line is read."""

# Kafka's library tells each attempt to connect; an outage is told once, in words of ours.
_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


class Broker:
    """Brokers of a cluster, for a source and an output.

    Once they were reached, an outage is told once and waited out: the library of Kafka connects
    again by itself.

    Parameters
    ----------
    servers : str
        ``HOST:PORT``, several with commas.
    tell : callable
        Gets messages for people.
    settings : mapping of str to str
        Settings of Kafka's library, as for TLS and passwords; those that the guarantees need stay.

    Raises
    ------
    MissingExtraError
        If ``confluent_kafka`` is not installed.
    """

    def __init__(
        self,
        servers: str,
        tell: Callable[[str], None] = lambda message: None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.library: Any = require("confluent_kafka", "kafka")
        self.tell = tell
        self._servers = servers
        self._settings = settings
        self._reason = ""
        self._reached = False
        self._away = False

    def consumer(self, settings: Mapping[str, Any]) -> "Consumer":
        """Return a consumer with these settings of Kafka's library."""
        consumer: Consumer = self._client(self.library.Consumer, settings)
        return consumer

    def producer(self, settings: Mapping[str, Any]) -> "Producer":
        """Return a producer with these settings of Kafka's library."""
        producer: Producer = self._client(self.library.Producer, settings)
        return producer

    def admin(self) -> "AdminClient":
        """Return a client for what neither reads nor writes messages."""
        kind = require("confluent_kafka.admin", "kafka").AdminClient
        admin: AdminClient = self._client(kind, {})
        return admin

    def partitions(self, client: "Consumer | Producer", topic: str) -> list[int]:
        """Return the partitions of a topic.

        Parameters
        ----------
        client : Consumer or Producer
            Who asks.
        topic : str
            Name of the topic.

        Returns
        -------
        list of int

        Raises
        ------
        BrokerError
            If no broker answers within :data:`PATIENCE`, or there is no such topic.
        """
        try:
            # All topics: to ask for one would make it, where the brokers are set to.
            topics = client.list_topics(timeout=PATIENCE).topics
        except self.library.KafkaException as error:
            client.poll(0)
            reason = self._reason or error.args[0].str()
            raise BrokerError(
                f"no broker at {self._servers} answered within {PATIENCE:.0f} s ({reason}); "
                "give HOST:PORT of one that runs"
            ) from error
        if topic not in topics:
            raise BrokerError(f"there is no topic {topic!r} at {self._servers}; make it first")
        self._reached = True
        return sorted(topics[topic].partitions)

    def answered(self) -> None:
        """Note that a broker has answered: the next outage is told again."""
        self._away = False

    def _client(self, kind: Any, settings: Mapping[str, Any]) -> Any:
        common = {"bootstrap.servers": self._servers, "error_cb": self._on_error}
        try:
            return kind({**self._settings, **common, **settings}, logger=_LOG)
        except self.library.KafkaException as error:
            raise BrokerError(
                f"Kafka at {self._servers} cannot be asked: {error.args[0].str()}; "
                "see the brokers and the settings"
            ) from error

    def _on_error(self, error: "KafkaError") -> None:
        if error.code() != self.library.KafkaError._ALL_BROKERS_DOWN:
            self._reason = error.str()
        elif self._reached and not self._away:
            self._away = True
            self.tell(f"no broker at {self._servers} answers; trying on")
