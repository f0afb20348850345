"""Logs of a small web service, with faults at known times."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import polars as pl

from tsmamba_datasets._checks import check_at_least

__all__ = ["LOG_FAULTS", "make_service_logs"]

LOG_FAULTS = ("new_error", "silence", "burst", "drift", "order")
"""Kinds of faults that `make_service_logs` knows, in the order in which they come."""

_START = datetime(2026, 3, 2, tzinfo=UTC)
_DAY = 86_400.0
_REQUESTS = 6_000
_PATHS = ("/cart", "/checkout", "/items", "/login", "/orders", "/search")


class _Line(NamedTuple):
    time: float
    level: str
    service: str
    message: str


class _Span(NamedTuple):
    kind: str
    start: float
    end: float


def make_service_logs(days: int = 1, seed: int = 0, *, faults: bool = False) -> pl.DataFrame:
    """Make the log of a web service: requests, a database, a worker with a heartbeat.

    Use it to see what a log detector finds: fit on a log without faults, score one with them.

    Parameters
    ----------
    days : int, default=1
        Days of log time, about 22,000 lines each.
    seed : int, default=0
        Seed of the generator, 0 or more.
    faults : bool, default=False
        Whether the last day holds one fault of each kind of ``LOG_FAULTS``: an error never seen
        before, a heartbeat that stops for a quarter of an hour, a burst of warnings, database
        times that creep up to four times their level within two hours, and ten minutes in which
        requests are answered before they are looked up. Everything else is as without faults.

    Returns
    -------
    polars.DataFrame
        Columns ``line``, in logfmt, and ``fault``, the kind of fault the line belongs to or null.
        The lines that do not come in a silence are told by the first line after it.

    Raises
    ------
    DatasetError
        If an argument is outside its range.

    Examples
    --------
    >>> from tsmamba_datasets import make_service_logs
    >>> log = make_service_logs(days=1, faults=True)
    >>> log["line"][0]
    'ts=2026-03-02T00:00:00.000Z level=info service=worker msg="heartbeat ok, queue 3"'
    >>> log["fault"].drop_nulls().unique().sort().to_list()
    ['burst', 'drift', 'new_error', 'order', 'silence']
    """
    check_at_least("days", days, 1)
    check_at_least("seed", seed, 0)
    rng = np.random.default_rng(seed)
    spans = _spans((days - 1) * _DAY) if faults else []
    lines = [
        *_requests(rng, days, spans),
        *_heartbeats(rng, days, spans),
        *_maintenance(rng, days),
        *_errors(spans),
    ]
    lines.sort(key=lambda line: line.time)
    marks = _marks(lines, spans)
    return pl.DataFrame(
        {"line": [_text(line) for line in lines], "fault": marks},
        schema={"line": pl.String, "fault": pl.String},
    )


def _spans(day: float) -> list[_Span]:
    """When each fault begins and ends, in seconds."""
    hour = 3_600.0
    return [
        _Span("new_error", day + 3 * hour, day + 3 * hour + 20),
        _Span("silence", day + 7 * hour, day + 7.25 * hour),
        _Span("burst", day + 11 * hour, day + 11 * hour + 40),
        _Span("drift", day + 14 * hour, day + 16 * hour),
        _Span("order", day + 20 * hour, day + 20 * hour + 600),
    ]


def _requests(rng: np.random.Generator, days: int, spans: list[_Span]) -> Iterator[_Line]:
    count = rng.poisson(days * _REQUESTS)
    times = np.sort(rng.uniform(0, days * _DAY, count))
    # Twice as many by day as by night: those that stay are thinned by a daily wave.
    keep = rng.uniform(size=count) < 0.75 - 0.25 * np.cos(2 * np.pi * times / _DAY)
    for time in times[keep]:
        query = float(rng.lognormal(3.0, 0.35)) * _slowness(time, spans)
        path = _PATHS[rng.integers(len(_PATHS))]
        user = rng.integers(1_000, 9_999)
        rows = rng.integers(1, 200)
        missed = rng.uniform() < 0.1
        done = time + 0.008 + query / 1e3
        lines = [
            _Line(time, "info", "api", f"request GET {path} user {user}"),
            _Line(time + 0.004, "debug", "api", f"session found for user {user}"),
            _Line(done, "info", "api", f"query {query:.0f} ms, {rows} rows"),
            _Line(done + 0.008, "info", "api", f"response 200 in {query + 16:.0f} ms"),
        ]
        if _inside("order", time, spans):
            lines[1], lines[3] = (
                lines[3]._replace(time=lines[1].time),
                lines[1]._replace(time=lines[3].time),
            )
        yield from lines
        if missed:
            yield _Line(time + 0.002, "debug", "cache", f"miss for key cart:{user}")


def _heartbeats(rng: np.random.Generator, days: int, spans: list[_Span]) -> Iterator[_Line]:
    for time in np.arange(0.0, days * _DAY, 30.0):
        queue = 3 + rng.integers(-3, 4) if time else 3
        if not _inside("silence", time, spans):
            yield _Line(time, "info", "worker", f"heartbeat ok, queue {queue}")


def _maintenance(rng: np.random.Generator, days: int) -> Iterator[_Line]:
    for time in np.arange(300.0, days * _DAY, 300.0):
        took = rng.lognormal(1.0, 0.2)
        pages = rng.integers(200, 900)
        yield _Line(time + 0.5, "info", "db", f"checkpoint started, {pages} pages")
        yield _Line(time + 0.5 + took, "info", "db", f"checkpoint done in {took:.2f} s")
    for time in np.sort(rng.uniform(0, days * _DAY, days * 24)):
        yield _Line(time, "warn", "db", f"connection {rng.integers(1, 64)} reset, attempt 1")


def _errors(spans: list[_Span]) -> Iterator[_Line]:
    for kind, start, end in spans:
        if kind == "new_error":
            for time in np.arange(start, end, 4.0):
                text = "payment gateway refused the certificate of shop-eu"
                yield _Line(time, "error", "api", text)
        elif kind == "burst":
            for i, time in enumerate(np.arange(start, end, 0.2)):
                yield _Line(time, "warn", "db", f"connection {i % 64} reset, attempt 1")


def _slowness(time: float, spans: list[_Span]) -> float:
    """Factor on the times of the database."""
    for kind, start, end in spans:
        if kind == "drift" and start <= time < end:
            return 1.0 + 3.0 * (time - start) / (end - start)
    return 1.0


def _inside(kind: str, time: float, spans: list[_Span]) -> bool:
    return any(span.kind == kind and span.start <= time < span.end for span in spans)


def _marks(lines: list[_Line], spans: list[_Span]) -> list[str | None]:
    """Fault that each line belongs to."""
    marks: list[str | None] = [None] * len(lines)
    for kind, start, end in spans:
        inside = [i for i, line in enumerate(lines) if start <= line.time < end]
        if kind == "silence":
            inside = [next(i for i, line in enumerate(lines) if line.time >= end)]
        elif kind == "drift":
            inside = [i for i in inside if lines[i].message.startswith(("query", "response"))]
        elif kind == "order":
            inside = [i for i in inside if lines[i].service == "api"]
        else:
            level = "error" if kind == "new_error" else "warn"
            inside = [i for i in inside if lines[i].level == level]
        for i in inside:
            marks[i] = kind
    return marks


def _text(line: _Line) -> str:
    stamp = _START + timedelta(seconds=line.time)
    time = stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f'ts={time} level={line.level} service={line.service} msg="{line.message}"'
