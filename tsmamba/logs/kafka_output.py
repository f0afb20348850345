"""Results into a Kafka topic."""

import json
from threading import Event
from typing import TYPE_CHECKING

from tsmamba.errors import BrokerError
from tsmamba.logs.broker import Broker

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

__all__ = ["KafkaOutput"]

# Seconds after which a broker that is away is waited for no longer, once the scorer is to stop.
_GRACE = 3.0


class KafkaOutput:
    """Writes records to a topic, each as one message; what a scorer needs of a binary file.

    The key of a message is the stream of the record, or its source where it has none, so that the
    records of a stream stay in one partition and in order. After :meth:`flush` every replica that
    has to has each of them; a broker that is away is waited for.

    Parameters
    ----------
    broker : Broker
        Where the topic is.
    topic : str
        Name of the topic; it must exist.
    stop : Event
        Once it is set, flushing gives up soon.

    Raises
    ------
    BrokerError
        If no broker answers, or there is no such topic.
    """

    def __init__(self, broker: Broker, topic: str, *, stop: Event) -> None:
        self._broker = broker
        self._topic = topic
        self._stop = stop
        self._refused: KafkaError | None = None
        # A message is tried until it is there: a timeout of 0 is none.
        self._producer = broker.producer({"enable.idempotence": True, "message.timeout.ms": 0})
        broker.partitions(self._producer, topic)

    def write(self, data: bytes) -> int:
        """Take records on their way.

        Parameters
        ----------
        data : bytes
            One JSON object a line, with a ``stream`` and a ``source``.

        Returns
        -------
        int
            Bytes taken, which is all of them.

        Raises
        ------
        BrokerError
            If Kafka refuses one.
        """
        for text in data.splitlines():
            record = json.loads(text)
            self._produce(record["stream"] or record["source"], text)
        return len(data)

    def flush(self) -> None:
        """Wait until every record is delivered.

        Raises
        ------
        BrokerError
            If Kafka refuses one, or the scorer is to stop and no broker answers.
        """
        while left := self._producer.flush(_GRACE):
            if self._stop.is_set():
                raise BrokerError(
                    f"{left:,} results for topic {self._topic!r} were not delivered, as no broker "
                    "answers; with a checkpoint they are written at the next start"
                )
        if self._refused is not None:
            raise self._refusal(self._refused)

    def _produce(self, key: str, value: bytes) -> None:
        try:
            self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
        except BufferError:
            self.flush()
            self._produce(key, value)
        except self._broker.library.KafkaException as error:
            raise self._refusal(error.args[0]) from error

    def _delivered(self, error: "KafkaError | None", message: "Message") -> None:
        if error is None:
            self._broker.answered()
        else:
            self._refused = error

    def _refusal(self, error: "KafkaError") -> BrokerError:
        return BrokerError(
            f"topic {self._topic!r} does not take the results: {error.str()}; "
            "see the settings of the topic and who may write to it"
        )
