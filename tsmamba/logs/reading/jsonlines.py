"""One JSON object a line."""

import json
from typing import Any

from tsmamba.logs.reading.misfit import Misfit
from tsmamba.logs.reading.objects import ObjectReader
from tsmamba.logs.record import LogRecord

__all__ = ["JsonReader", "parse_object"]

_decode = json.JSONDecoder().raw_decode  # without the checks of arguments in json.loads


def parse_object(text: str) -> dict[str, Any]:
    """Parse one JSON object.

    Raises
    ------
    Misfit
        If the text is something else.
    """
    try:
        values, end = _decode(text)
    except (ValueError, RecursionError) as error:
        raise Misfit("not JSON") from error
    if type(values) is not dict or not (end == len(text) or text[end:].isspace()):
        raise Misfit("not one JSON object")
    return values


class JsonReader:
    """Reads JSON lines.

    Parameters
    ----------
    objects : ObjectReader
        What finds message, time and severity among the keys.
    """

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects

    def read(self, text: str) -> list[LogRecord]:
        """Read one line."""
        return [self._objects.read(parse_object(text), text)]
