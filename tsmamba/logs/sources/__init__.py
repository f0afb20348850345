"""Where lines of logs come from: standard input, files that rotate, Kafka, a program's lists."""

from tsmamba.logs.sources.file import FileSource
from tsmamba.logs.sources.kafka import KafkaSource
from tsmamba.logs.sources.lines import LinesSource
from tsmamba.logs.sources.multi import MultiSource
from tsmamba.logs.sources.opening import open_sources
from tsmamba.logs.sources.source import Loss, Positions, Source
from tsmamba.logs.sources.stdin import StdinSource

__all__ = [
    "FileSource",
    "KafkaSource",
    "LinesSource",
    "Loss",
    "MultiSource",
    "Positions",
    "Source",
    "StdinSource",
    "open_sources",
]
