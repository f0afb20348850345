"""Records that are objects of keys and values: which key is the message, which the time."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tsmamba.logs.reading.clock import Clock
from tsmamba.logs.reading.severity import severity_of
from tsmamba.logs.record import LogRecord

__all__ = ["TEMPLATE_KEY", "Keys", "ObjectReader", "fields_of", "scalar_text"]

TEMPLATE_KEY = "log.record.template"
# By preference; a key of an inner object is written with dots. Case counts only where both exist.
_BODY_KEYS = (
    "message", "msg", "MESSAGE", "Message", "body", "log", "event", "text", "@m", "@mt",
    "short_message", "event.original", "attributes.message", "fields.message",
)  # fmt: skip
_TIME_KEYS = (
    "timestamp", "@timestamp", "time", "ts", "ds", "datetime", "date", "Timestamp", "@t", "t",
    "eventTime", "asctime", "timeUnixNano", "time_unix_nano", "__REALTIME_TIMESTAMP",
    "_SOURCE_REALTIME_TIMESTAMP", "observedTimeUnixNano", "event.created",
)  # fmt: skip
_SEVERITY_KEYS = (
    "level", "severity", "lvl", "log.level", "severity_text", "severityText", "levelname",
    "loglevel", "Level", "@l", "PRIORITY", "severity_number", "severityNumber", "levelno",
)  # fmt: skip
_TEMPLATE_KEYS = (TEMPLATE_KEY, f"attributes.{TEMPLATE_KEY}")
_DEEPEST = 8
_MEMORY_SIZE = 1_024


class Keys(NamedTuple):
    """Keys that the user names; None looks for the usual ones."""

    body: str | None = None
    time: str | None = None
    severity: str | None = None


class _Plan(NamedTuple):
    """Which of the keys of an object are what."""

    body: tuple[str, ...]
    time: tuple[str, ...]
    severity: tuple[str, ...]
    template: tuple[str, ...]
    fields: tuple[str, ...]


class ObjectReader:
    """Makes records of objects.

    Parameters
    ----------
    clock : Clock
        What reads time stamps.
    keys : Keys
        Keys of message, time and severity.

    Examples
    --------
    >>> reader = ObjectReader(Clock(), Keys())
    >>> record = reader.read({"ts": 1.7e9, "level": "warn", "msg": "slow", "http": {"ms": 12}}, "")
    >>> record.body, record.severity, record.fields
    ('slow', 'WARN', {'http.ms': '12'})
    """

    def __init__(self, clock: Clock, keys: Keys) -> None:
        self._clock = clock
        self._body_keys = _BODY_KEYS if keys.body is None else (keys.body,)
        self._time_keys = _TIME_KEYS if keys.time is None else (keys.time,)
        self._severity_keys = _SEVERITY_KEYS if keys.severity is None else (keys.severity,)
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def read(self, values: Mapping[str, Any], text: str) -> LogRecord:
        """Read an object; without a message its text is the body.

        What is left becomes fields: scalars as text, inner objects by their path; lists and nulls
        are left out.
        """
        if dict in map(type, values.values()):
            values = dict(_flat(values))
        names = tuple(values)
        plan = self._plans.get(names) or self._plan(names)
        body = time = severity = template = None
        for key in plan.body:
            value = values[key]
            if type(value) is not str:
                value = scalar_text(value)
            if value:
                body = value
                break
        for key in plan.time:
            time = self._clock.of(values[key])
            if time is not None:
                break
        for key in plan.severity:
            severity = severity_of(values[key], key)
            if severity is not None:
                break
        for key in plan.template:
            template = scalar_text(values[key])
        fields = {}
        for key in plan.fields:
            value = values[key]
            if type(value) is not str:
                value = scalar_text(value)
                if value is None:
                    continue
            fields[key] = value
        return LogRecord(text if body is None else body, time, severity, fields, template)

    def _plan(self, names: tuple[str, ...]) -> _Plan:
        roles = tuple(
            tuple(key for key in keys if key in names)
            for keys in (self._body_keys, self._time_keys, self._severity_keys, _TEMPLATE_KEYS)
        )
        body, time, severity, template = roles
        # Of two keys for one thing the second is a field; a severity says all by its first.
        taken = {*body[:1], *time[:1], *severity, *template}
        plan = _Plan(body, time, severity, template, tuple(k for k in names if k not in taken))
        if len(self._plans) >= _MEMORY_SIZE:
            self._plans.clear()
        self._plans[names] = plan
        return plan


def _flat(values: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value and depth < _DEEPEST:
            yield from _flat(value, f"{path}{key}.", depth + 1)
        else:
            yield path + key, value


def fields_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Give the scalars of an object as text, those of inner objects by their path."""
    texts = ((key, scalar_text(value)) for key, value in _flat(values))
    return {key: text for key, text in texts if text is not None}


def scalar_text(value: object) -> str | None:
    """Write a scalar as JSON does, a string as it is; None for lists, objects and null."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, list | dict):
        return None
    return json.dumps(value)
