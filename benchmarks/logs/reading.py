"""Microseconds a line to turn lines of several formats into records, on one core.

    python -m benchmarks.logs.reading

prints a table: the first pass over 20,000 lines meets every layout and every second for the first
time, the best of the later ones is a parser that has warmed up. Process time, so other programs
count only by what they take from caches.
"""

import json
import sys
from collections.abc import Callable
from time import process_time

from benchmarks.forecast.run import environment
from tsmamba.logs.reading import LineParser

LINES = 20_000
PASSES = 7

Lines = list[bytes]


def _stamp(number: int) -> str:
    return f"{number // 20 // 60 % 60:02}:{number // 20 % 60:02}.{number % 1000:03}"


def _raw(number: int) -> str:
    words = ("Received block", "Deleting block", "Verified block", "Serving block")
    level = "WARN" if number % 50 == 0 else "INFO"
    return (
        f"2026-01-02 03:{_stamp(number)} {number % 90} {level} dfs.DataNode$Responder: "
        f"{words[number % 4]} blk_{number * 7919} of {number} bytes from 10.2.0.{number % 250}"
    )


def _json(number: int) -> str:
    record = {
        "time": f"2026-01-02T03:{_stamp(number)}Z",
        "level": "info",
        "service": "checkout",
        "host": f"web-{number % 9}",
        "msg": f"order {number} placed in {number % 97} ms",
    }
    return json.dumps(record)


FORMATS: dict[str, Callable[[int], str]] = {
    "raw": _raw,
    "json": _json,
    "logfmt": lambda n: (
        f'ts=2026-01-02T03:{_stamp(n)}Z level=info msg="order {n} placed" ms={n % 97}'
    ),
    "syslog": lambda n: (
        f"Jan  2 03:{_stamp(n)[:5]} web sshd[{n}]: Failed password from 10.2.0.{n % 250}"
    ),
    "cri": lambda n: f"2026-01-02T03:{_stamp(n)}Z stdout F order {n} placed in {n % 97} ms",
}


def microseconds(format: str, lines: Lines) -> tuple[float, float]:
    """Time a first pass and the best of the later ones, in microseconds a line."""
    parser = LineParser("auto")
    passes = []
    for _ in range(PASSES):
        start = process_time()
        for line in lines:
            parser.parse_all(line)
        passes.append((process_time() - start) / len(lines) * 1e6)
    if parser.chosen != format or parser.lines_unparsed:
        message = f"{format} was read as {parser.chosen}, {parser.lines_unparsed} lines unparsed"
        raise RuntimeError(message)
    return passes[0], min(passes[1:])


def main() -> None:
    """Print the table."""
    sys.stdout.write(f"{environment()}\n\nformat    first  warmed up (us a line)\n")
    for format, make in FORMATS.items():
        lines = [make(number).encode() for number in range(LINES)]
        first, warm = microseconds(format, lines)
        sys.stdout.write(f"{format:8} {first:6.2f} {warm:6.2f}\n")


if __name__ == "__main__":
    main()
