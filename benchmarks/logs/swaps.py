"""Single faults of order in a log of lines: two neighbours of a stream swap what they say.

    python -m benchmarks.logs.swaps

learns from a made log without faults and scores what comes after it, in which some neighbours of
one stream are swapped while their times stay. ``service`` are requests that meet in one stream;
``jobs`` come one after another, and end as they began after some lines that tell nothing of it.
"""

import random
import re
import sys
import time
from collections.abc import Callable
from itertools import pairwise

from sklearn.metrics import average_precision_score

from benchmarks.forecast.run import environment
from tsmamba import LogDetector
from tsmamba.logs.result import LogResult
from tsmamba_datasets import make_service_logs

SEEDS = (1, 2)
RATES = (1e-3, 1e-5)
SWAPS = 20
# Lines of a stream in which a swap is told, and lines of the log between two swaps.
REACH, APART = 5, 300
_LINE = re.compile(r"(ts=\S+) (level=\S+ service=(\S+) .*)")
_TEST_DAY = "2026-03-06"


def service(seed: int) -> tuple[list[str], list[str]]:
    """Four days and the fifth of a service without faults."""
    lines = make_service_logs(days=5, seed=seed)["line"].to_list()
    later = [line[3:13] >= _TEST_DAY for line in lines]
    first = later.index(True)
    return lines[:first], lines[first:]


def jobs(seed: int, count: int = 9_000) -> tuple[list[str], list[str]]:
    """Three quarters and the rest of a log of jobs one after another."""
    draw, now, lines = random.Random(seed), 0, []
    for _ in range(count):
        kind = draw.choice(("reads", "writes"))
        waits = ["waits"] * draw.randrange(3, 7)
        for text in (f"{kind} begin", "loads", *waits, "stores", f"{kind} end"):
            now += draw.choice((1, 2))
            clock = f"{now // 3_600 % 24:02d}:{now // 60 % 60:02d}:{now % 60:02d}.000Z"
            stamp = f"2026-03-{1 + now // 86_400:02d}T{clock}"
            lines.append(f'ts={stamp} level=info service=jobs msg="{text}"')
    return lines[: len(lines) * 3 // 4], lines[len(lines) * 3 // 4 :]


def swapped(lines: list[str], stream: str, seed: int) -> tuple[list[str], list[int]]:
    """Swap neighbours that say different things; return the lines, and where each first one is."""
    parts = [_parts(line) for line in lines]
    places = [i for i, (_, _, name) in enumerate(parts) if name == stream]
    pairs = [
        (first, second)
        for first, second in pairwise(places)
        if re.sub(r"\d+", "", parts[first][1]) != re.sub(r"\d+", "", parts[second][1])
    ]
    random.Random(seed).shuffle(pairs)
    found: list[int] = []
    faulty = list(lines)
    for first, second in pairs:
        near = any(abs(first - other) < APART for other in found)
        if near or not APART < first < len(lines) - APART or len(found) == SWAPS:
            continue
        found.append(first)
        faulty[first] = f"{parts[first][0]} {parts[second][1]}"
        faulty[second] = f"{parts[second][0]} {parts[first][1]}"
    return faulty, found


def told(results: list[LogResult], stream: str, swaps: list[int]) -> tuple[float, int, int]:
    """Average precision over stretches of a stream, swaps that alert, and other alerts."""
    lines = [r for r in results if r.stream == stream and ":silence:" not in r.event_id]
    place = {result.line_no: i for i, result in enumerate(lines)}
    scores = [result.score or 0.0 for result in lines]
    begins = [place[first + 1] for first in swaps]
    faults = [max(scores[begin : begin + REACH]) for begin in begins]
    touched = {i for begin in begins for i in range(begin, begin + REACH)}
    usual = [
        max(scores[i : i + REACH])
        for i in range(0, len(scores) - REACH, REACH)
        if touched.isdisjoint(range(i, i + REACH))
    ]
    labels = [1] * len(faults) + [0] * len(usual)
    hits = sum(score > 1.0 for score in faults)
    alerts = sum(result.is_anomaly for result in results)
    within = sum(scores[i] > 1.0 for i in touched)
    return float(average_precision_score(labels, faults + usual)), hits, alerts - within


def main() -> None:
    """Measure, and write what came out."""
    makes: dict[str, tuple[Callable[[int], tuple[list[str], list[str]]], str]] = {
        "service": (service, "api"),
        "jobs": (jobs, "jobs"),
    }
    sys.stdout.write(f"{environment()}\n")
    for name, (make, stream) in makes.items():
        for seed in SEEDS:
            usual, later = make(seed)
            faulty, swaps = swapped(later, stream, seed)
            for rate in RATES:
                for network in (None, "mamba"):
                    detector = LogDetector(
                        stream_by=("service",),
                        false_alarm_rate=rate,
                        network=network,
                        random_state=seed,
                    ).fit(usual)
                    scorer, start = detector.stream(), time.process_time()
                    results = scorer.feed(faulty) + scorer.close()
                    took = (time.process_time() - start) / len(faulty) * 1e6
                    precision, hits, others = told(results, stream, swaps)
                    sys.stdout.write(
                        f"{name} seed {seed} rate {rate:g} network {network}: AP {precision:.3f}, "
                        f"{hits} of {len(swaps)} alert, {others} other alerts in {len(faulty):,} "
                        f"lines, {took:.0f} us a line\n"
                    )
                    sys.stdout.flush()


def _parts(line: str) -> tuple[str, str, str]:
    """Time, what is said, and stream of a line."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"{line!r} is no line of a made log")
    return found[1], found[2], found[3]


if __name__ == "__main__":
    main()
