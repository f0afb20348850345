"""Log records of OpenTelemetry as JSON: one a line, or an envelope of many."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tsmamba.logs.reading.clock import Clock
from tsmamba.logs.reading.jsonlines import parse_object
from tsmamba.logs.reading.misfit import Misfit
from tsmamba.logs.reading.objects import TEMPLATE_KEY, ObjectReader, fields_of, scalar_text
from tsmamba.logs.reading.severity import severity_of
from tsmamba.logs.record import LogRecord

__all__ = ["OtlpReader"]

_ENVELOPES = ("resourceLogs", "resource_logs")
_SCOPES = ("scopeLogs", "scope_logs", "instrumentationLibraryLogs")
_RECORDS = ("logRecords", "log_records")
_TIMES = ("timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano")
_NUMBERS = ("severityNumber", "severity_number")
_TEXTS = ("severityText", "severity_text")
_IDS = ("traceId", "spanId", "trace_id", "span_id")
_DEEPEST = 16


class OtlpReader:
    """Reads OTLP-JSON.

    Attributes of the resource, of the scope and of the record become fields by their names; the
    nearer one wins.

    Parameters
    ----------
    clock : Clock
        What reads time stamps.
    objects : ObjectReader
        What reads bodies that are objects.
    """

    def __init__(self, clock: Clock, objects: ObjectReader) -> None:
        self._clock = clock
        self._objects = objects

    def read(self, text: str) -> list[LogRecord]:
        """Read one line."""
        values = parse_object(text)
        envelope = _first(values, _ENVELOPES)
        if envelope is None:
            if not {"body", "timeUnixNano", "severityNumber", "severityText"} & values.keys():
                raise Misfit("not OTLP")
            return [self._record(values, {})]
        records: list[LogRecord] = []
        for resource_logs in _objects(envelope):
            resource = _attributes(resource_logs.get("resource"))
            for scope_logs in _objects(_first(resource_logs, _SCOPES)):
                scope = scope_logs.get("scope")
                outer = resource | _attributes(scope)
                if isinstance(scope, dict) and isinstance(scope.get("name"), str):
                    outer["scope.name"] = scope["name"]
                for record in _objects(_first(scope_logs, _RECORDS)):
                    records.append(self._record(record, outer))
        return records

    def _record(self, values: dict[str, Any], outer: dict[str, Any]) -> LogRecord:
        attributes = outer | _attributes(values)
        template = attributes.pop(TEMPLATE_KEY, None)
        for name in _IDS:
            if values.get(name):
                attributes[name] = values[name]
        time = next(filter(None, (self._clock.of(values.get(name)) for name in _TIMES)), None)
        severity = severity_of(_first(values, _NUMBERS), "severity_number")
        severity = severity or severity_of(_first(values, _TEXTS))
        body = _value(values.get("body"))
        inner: Mapping[str, str] = {}
        if isinstance(body, dict):  # an object of its own, with a message among its keys
            body, _, own, inner, _ = self._objects.read(body, json.dumps(body))
            severity = severity or own
        return LogRecord(
            scalar_text(body) or "",
            time,
            severity,
            {**fields_of(attributes), **inner},
            scalar_text(template),
        )


def _first(values: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((values[name] for name in names if name in values), None)


def _objects(values: object) -> Iterator[dict[str, Any]]:
    if isinstance(values, list):
        yield from (value for value in values if isinstance(value, dict))


def _attributes(owner: object) -> dict[str, Any]:
    pairs = owner.get("attributes") if isinstance(owner, dict) else None
    return {
        pair["key"]: _value(pair.get("value"))
        for pair in _objects(pairs)
        if isinstance(pair.get("key"), str)
    }


def _value(value: object, depth: int = 0) -> Any:
    """Unwrap an AnyValue of the protocol; a plain value stays as it is."""
    if not isinstance(value, dict) or not value or depth > _DEEPEST:
        return value
    (name, inner), *more = value.items()
    kind = name.replace("_", "").lower()
    if more or not kind.endswith("value"):
        return value
    if kind == "kvlistvalue":
        pairs = _objects(inner.get("values") if isinstance(inner, dict) else None)
        return {str(pair.get("key")): _value(pair.get("value"), depth + 1) for pair in pairs}
    if kind == "arrayvalue":
        values = inner.get("values") if isinstance(inner, dict) else None
        return [_value(item, depth + 1) for item in _objects(values)]
    return inner
