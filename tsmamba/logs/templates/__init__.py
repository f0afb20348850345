"""Templates of log messages: what stays the same in them, found line by line."""

from tsmamba.logs.templates.events import TemplateEvent
from tsmamba.logs.templates.miner import UNKNOWN, TemplateMiner

__all__ = ["UNKNOWN", "TemplateEvent", "TemplateMiner"]
