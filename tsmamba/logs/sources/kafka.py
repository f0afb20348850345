"""Lines from a Kafka topic."""

from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Literal

from tsmamba.errors import BrokerError, ParameterError
from tsmamba.logs.broker import PATIENCE, Broker
from tsmamba.logs.record import Line
from tsmamba.logs.sources.source import Loss, Positions

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, TopicPartition

__all__ = ["KafkaSource"]

_BEGINNING = -2  # What Kafka takes for the first offset that it still has.
# Seconds that writing to the consumer group may take.
_GRACE = 3.0
_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # Every partition is given an offset; one that is gone is to be told.
    "auto.offset.reset": "error",
}


class KafkaSource:
    """Lines of a topic: each message is one, in order within its partition.

    A line has the topic as its source, ``TOPIC/PARTITION`` as its stream, and counts messages where
    others count bytes: `offset` is that of Kafka, `end` the one after it. A message without a value
    is an empty line. Partitions are assigned, not shared out by a consumer group: this reader has
    those it was given, and nobody else may take them.

    Parameters
    ----------
    broker : Broker
        Where the topic is.
    topic : str
        Name of the topic.
    group : str, default "tsmamba"
        Consumer group that :meth:`commit` writes to. Its offsets are never read.
    partitions : sequence of int, optional
        Which to read; all that there are at the start if not given.
    follow : bool, default False
        Wait for more at the end of the partitions.
    read_from : {"beginning", "end"}, default "beginning"
        Where to start if there is no position of any partition. With positions, a partition
        without one starts at its beginning.

    Raises
    ------
    BrokerError
        If no broker answers, or there is no such topic.
    ParameterError
        If there is no such partition.

    Examples
    --------
    ::

        broker = Broker("localhost:9092")
        source = KafkaSource(broker, "app-logs", follow=True)
        lines = source.read(512)
    """

    def __init__(
        self,
        broker: Broker,
        topic: str,
        *,
        group: str = "tsmamba",
        partitions: Sequence[int] | None = None,
        follow: bool = False,
        read_from: Literal["beginning", "end"] = "beginning",
    ) -> None:
        if read_from not in ("beginning", "end"):
            raise ParameterError(f"read_from={read_from!r}; give 'beginning' or 'end'")
        self._broker = broker
        self._topic = topic
        self._group = group
        self._follow = follow
        self._consumer = broker.consumer({**_SETTINGS, "group.id": group})
        known = broker.partitions(self._consumer, topic)
        for partition in partitions or ():
            if partition not in known:
                raise ParameterError(f"topic {topic!r} has no partition {partition}, only {known}")
        # Offset of the next message of each partition.
        self._next = {p: self._edge(p, read_from) for p in partitions or known}
        self._kept: dict[str, int] = {}
        self._gone: set[int] = set()
        self._ended: set[int] = set()
        self._waiting: list[Message] = []
        self._losses: list[Loss] = []
        # A client of its own: a consumer that is closed while it commits, and brokers are away,
        # can wait for ever.
        self._admin = broker.admin()
        self._written: Future[Any] | None = None
        self._failure_told = False
        self._assign()

    @property
    def name(self) -> str:
        """Name for people: the topic."""
        return self._topic

    @property
    def done(self) -> bool:
        """Whether every partition was read to its end, and no more is waited for."""
        return not self._follow and not self._waiting and self._ended >= self._next.keys()

    def read(self, max_lines: int) -> list[Line]:
        """Return the messages that have arrived, without waiting.

        Parameters
        ----------
        max_lines : int
            At most so many.

        Returns
        -------
        list of Line

        Raises
        ------
        BrokerError
            If Kafka refuses to give them.
        """
        messages, self._waiting = self._waiting[:max_lines], self._waiting[max_lines:]
        if len(messages) < max_lines:
            messages += self._consumer.consume(max_lines - len(messages), 0)
        return [line for message in messages if (line := self._line(message)) is not None]

    def wait(self, timeout: float) -> bool:
        """Sleep until a message arrives.

        Parameters
        ----------
        timeout : float
            Seconds, at most.

        Returns
        -------
        bool
            Whether there is something to read.
        """
        if not self._waiting and not self.done:
            message = self._consumer.poll(timeout)
            if message is not None and self._is_line(message):
                self._waiting.append(message)
        return bool(self._waiting)

    def positions(self) -> Positions:
        """Return the offset after the messages given so far, of each partition.

        Returns
        -------
        mapping
            Partitions that are not read this time keep the offsets that they had.
        """
        offsets = {str(partition): offset for partition, offset in self._next.items()}
        return {self._key: {**self._kept, **offsets}}

    def seek(self, positions: Positions) -> None:
        """Go on from there, whatever the consumer group has.

        Parameters
        ----------
        positions : mapping
            As `positions` returned them.
        """
        if self._key not in positions:
            return
        self._kept = dict(positions[self._key])
        for partition in self._next:
            kept = self._kept.get(str(partition))
            self._next[partition] = self._edge(partition, "beginning") if kept is None else kept
        for seen in (self._waiting, self._gone, self._ended):
            seen.clear()
        self._assign()

    def losses(self) -> list[Loss]:
        """Return what the brokers had removed before it was read, since the last call.

        Returns
        -------
        list of Loss
            With Kafka's offsets; how many bytes these had is not known.
        """
        lost, self._losses = self._losses, []
        return lost

    def commit(self) -> None:
        """Write the positions to the consumer group, for those who watch the lag.

        Call it after the checkpoint. It does not wait, and nothing depends on it.
        """
        self._tell_failure()
        places = [self._place(partition, offset) for partition, offset in self._next.items()]
        group = self._broker.library.ConsumerGroupTopicPartitions(self._group, places)
        asked = self._admin.alter_consumer_group_offsets([group], request_timeout=_GRACE)
        self._written = asked[self._group]

    def close(self) -> None:
        """Leave the brokers; what was to be written to the group has some seconds for it."""
        if self._written is not None:
            wait([self._written], _GRACE)
            self._tell_failure()
        self._consumer.close()

    @property
    def _key(self) -> str:
        return f"kafka:{self._topic}"

    def _place(self, partition: int, offset: int) -> "TopicPartition":
        place: TopicPartition = self._broker.library.TopicPartition(self._topic, partition, offset)
        return place

    def _edge(self, partition: int, read_from: str) -> int:
        """Return the first offset of a partition, or the one after its last."""
        try:
            place = self._place(partition, 0)
            low, high = self._consumer.get_watermark_offsets(place, timeout=PATIENCE)
        except self._broker.library.KafkaException as error:
            raise self._refusal(partition, error.args[0]) from error
        return low if read_from == "beginning" else high

    def _assign(self) -> None:
        """Fetch from the next offsets; where these are gone, from the first that is there."""
        self._consumer.assign(
            [
                self._place(partition, _BEGINNING if partition in self._gone else offset)
                for partition, offset in self._next.items()
            ]
        )

    def _line(self, message: "Message") -> Line | None:
        """Take in what was fetched; return None for what is no message, or came before."""
        if not self._is_line(message):
            return None
        partition, offset = message.partition() or 0, message.offset() or 0
        self._broker.answered()
        self._arrived_at(partition, offset)
        if offset < self._next[partition]:
            return None
        self._next[partition] = offset + 1
        text = (message.value() or b"").rstrip(b"\r\n")
        stream = f"{self._topic}/{partition}"
        return Line(self._topic, stream, offset + 1, offset, offset + 1, text)

    def _is_line(self, message: "Message") -> bool:
        """Return whether it is a message, and not an event, which is taken in."""
        error = message.error()
        if error is None:
            return True
        partition, kinds = message.partition() or 0, self._broker.library.KafkaError
        if error.code() == kinds._PARTITION_EOF:
            self._arrived_at(partition, message.offset() or 0)
            self._ended.add(partition)
        elif error.code() == kinds._AUTO_OFFSET_RESET:
            self._gone.add(partition)
            self._assign()
        else:
            raise self._refusal(partition, error)
        return False

    def _arrived_at(self, partition: int, offset: int) -> None:
        """Tell the loss if this is the first offset since the next one was found to be gone."""
        if partition not in self._gone:
            return
        self._gone.remove(partition)
        before, self._next[partition] = self._next[partition], offset
        stream = f"{self._topic}/{partition}"
        if offset > before:
            what = f"messages {before} to {offset - 1} of {stream} were removed unread"
        else:
            what = f"{stream} has no message {before} any more: it was made anew, or lost its end"
        message = f"{what}; going on at {offset}"
        self._losses.append(Loss(self._topic, stream, before, 0, message))

    def _tell_failure(self) -> None:
        """Tell the first time that the positions could not be written to the group."""
        written = self._written
        if written is None or not written.done() or self._failure_told:
            return
        error = written.exception()
        if error is not None:
            self._failure_told = True
            self._broker.tell(
                f"the offsets of group {self._group!r} were not written ({error.args[0].str()}): "
                "the lag that it shows may be too high"
            )

    def _refusal(self, partition: int, error: "KafkaError") -> BrokerError:
        return BrokerError(
            f"partition {partition} of topic {self._topic!r} cannot be read: {error.str()}; "
            "see that the topic exists and who may read it"
        )
