"""What the options of Kafka mean: where lines come from, and where results go."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from tsmamba.errors import ParameterError

if TYPE_CHECKING:
    from tsmamba.logs.kafka_output import KafkaOutput
    from tsmamba.logs.sources import KafkaSource

__all__ = ["Config", "Group", "KafkaOptions", "OutputTopic", "Partitions", "Place"]

Place: TypeAlias = Annotated[
    str | None, typer.Option(help="Read a topic.", metavar="TOPIC@HOST:PORT[,HOST:PORT]")
]
OutputTopic: TypeAlias = Annotated[
    str | None, typer.Option(help="Write to a topic, not on standard output.", metavar="TOPIC")
]
Group: TypeAlias = Annotated[
    str, typer.Option(help="Consumer group that shows the lag.", metavar="NAME")
]
Partitions: TypeAlias = Annotated[
    str, typer.Option(help="Partitions to read, such as 0,1; all if not given.")
]
Config: TypeAlias = Annotated[
    Path | None, typer.Option(help="File of name=value, as for TLS.", dir_okay=False, exists=True)
]


@dataclass(frozen=True)
class KafkaOptions:
    """What was given on the command line.

    Attributes
    ----------
    place : str or None
        ``TOPIC@HOST:PORT``, several brokers with commas; None is another source.
    output : str or None
        Topic of the results.
    group : str
        Consumer group that shows the lag.
    partitions : str
        Numbers with commas; empty for all.
    config : Path or None
        File with settings of Kafka's library, ``name=value`` a line.
    """

    place: str | None
    output: str | None
    group: str
    partitions: str
    config: Path | None

    def check(self, sources: list[str] | None) -> None:
        """Refuse options that do not go together.

        Raises
        ------
        ParameterError
            If a topic and other sources are given, or an option without the topic it belongs to.
        """
        if self.place is not None and sources:
            raise ParameterError(f"--kafka and {sources[0]}: give a topic or other sources")
        if self.place is None and (self.output is not None or self.partitions):
            name = "--kafka-partitions" if self.output is None else "--kafka-output"
            raise ParameterError(f"{name} needs --kafka TOPIC@HOST:PORT; add it, or leave it out")

    def open(
        self,
        *,
        follow: bool,
        read_from: Literal["beginning", "end"],
        stop: Event,
        tell: Callable[[str], None],
    ) -> "tuple[KafkaSource, KafkaOutput | None]":
        """Return the source, and the output if there is a topic for it.

        Raises
        ------
        ParameterError
            If an option is not of its form.
        BrokerError
            If no broker answers, or a topic does not exist.
        """
        from tsmamba.logs.broker import Broker
        from tsmamba.logs.kafka_output import KafkaOutput
        from tsmamba.logs.sources import KafkaSource

        topic, _, servers = (self.place or "").partition("@")
        if not topic or not servers:
            raise ParameterError(f"--kafka {self.place}: give TOPIC@HOST:PORT")
        numbers = self._numbers()
        broker = Broker(servers, tell, self._settings())
        output = None if self.output is None else KafkaOutput(broker, self.output, stop=stop)
        source = KafkaSource(
            broker,
            topic,
            group=self.group,
            partitions=numbers,
            follow=follow,
            read_from=read_from,
        )
        return source, output

    def _numbers(self) -> list[int]:
        try:
            return [int(number) for number in self.partitions.split(",") if number]
        except ValueError as error:
            raise ParameterError(
                f"--kafka-partitions {self.partitions}: give numbers with commas, as in 0,1"
            ) from error

    def _settings(self) -> dict[str, str]:
        if self.config is None:
            return {}
        settings = {}
        for number, line in enumerate(self.config.read_text().splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            name, equals, value = line.partition("=")
            if not equals:
                # What it says is left out: it may be a password.
                raise ParameterError(f"line {number} of {self.config}: give name=value")
            settings[name.strip()] = value.strip()
        return settings
