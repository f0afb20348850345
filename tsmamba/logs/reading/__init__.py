"""From lines to records: formats, time stamps, severities, and lines that belong together."""

from tsmamba.logs.reading.joiner import Joiner
from tsmamba.logs.reading.parser import Format, LineParser

__all__ = ["Format", "Joiner", "LineParser"]
