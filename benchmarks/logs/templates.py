"""Templates of log messages: grouping accuracy and speed on 16 systems, 2,000 lines of each.

    python -m benchmarks.logs.templates

prints a table from the samples of loghub in the folder named by ``TSMAMBA_DATA``. One configuration
for all systems, one pass, line by line; a template that was merged counts as the one that it was
merged into. Speed is that of one core, the best of several runs: cold from an empty miner for each
system, warm with the same lines once more.

Published figures of Drain are from the README of its implementation in logparser; it has regular
expressions and thresholds of its own for each system.
"""

import csv
import gzip
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.forecast.run import environment
from tsmamba.logs.templates import TemplateMiner
from tsmamba.logs.templates.masks import mask_word

DRAIN = {
    "Android": 0.911,
    "Apache": 1.0,
    "BGL": 0.9625,
    "Hadoop": 0.9475,
    "HDFS": 0.9975,
    "HealthApp": 0.78,
    "HPC": 0.887,
    "Linux": 0.69,
    "Mac": 0.7865,
    "OpenSSH": 0.7875,
    "OpenStack": 0.7325,
    "Proxifier": 0.5265,
    "Spark": 0.92,
    "Thunderbird": 0.955,
    "Windows": 0.997,
    "Zookeeper": 0.9665,
}
_RUNS = 25


class Sample(NamedTuple):
    """Messages of a system, and the template that people gave each."""

    messages: list[str]
    events: list[str]


class Grouping(NamedTuple):
    """How well groups of lines agree with the true ones.

    Attributes
    ----------
    accuracy : float
        Share of lines in a group that is exactly a true one.
    f1 : float
        Of whole groups: harmonic mean of the shares of true and of found ones that are exact.
    """

    accuracy: float
    f1: float


def read_sample(folder: Path, system: str) -> Sample:
    """Read the sample of a system.

    Parameters
    ----------
    folder : Path
        Folder of the data sets.
    system : str
        Key of ``DRAIN``.

    Returns
    -------
    Sample
        2,000 lines.
    """
    path = folder / "loghub_2k" / system / f"{system}_2k.log_structured.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return Sample([row["Content"] for row in rows], [row["EventId"] for row in rows])


def grouping(found: Sequence[Hashable], true: Sequence[Hashable]) -> Grouping:
    """Compare two groupings of the same lines.

    Parameters
    ----------
    found, true : sequence
        Group of each line.

    Returns
    -------
    Grouping

    Examples
    --------
    >>> grouping([0, 0, 1, 2], ["a", "a", "b", "b"])
    Grouping(accuracy=0.5, f1=0.4)
    """
    ours, theirs = _groups(found), _groups(true)
    exact = ours & theirs
    accuracy = sum(len(lines) for lines in exact) / len(true)
    return Grouping(accuracy, 2 * len(exact) / (len(ours) + len(theirs)))


def _groups(labels: Sequence[Hashable]) -> set[frozenset[int]]:
    lines = defaultdict(list)
    for line, label in enumerate(labels):
        lines[label].append(line)
    return {frozenset(group) for group in lines.values()}


def mine(messages: Sequence[str]) -> tuple[TemplateMiner, list[int | None]]:
    """Learn templates, and return the miner and the template of each message.

    Parameters
    ----------
    messages : sequence of str
        In order.

    Returns
    -------
    miner : TemplateMiner
        Having seen them.
    list of int
        Roots, after all were seen.

    Examples
    --------
    >>> mine(["took 12 ms", "took 7 ms", "disk 3 failed"])[1]
    [0, 0, 1]
    """
    miner = TemplateMiner()
    ids = [miner.add(message) for message in messages]
    return miner, [miner.root(id) for id in ids]


def _seconds(run: Callable[[], object]) -> float:
    """Return the least time of several runs: a machine with other work only adds to it."""
    times = []
    for _ in range(_RUNS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def speed(samples: Sequence[Sample]) -> tuple[float, float]:
    """Return lines a second, cold and warm.

    Parameters
    ----------
    samples : sequence of Sample
        Each has a miner of its own.

    Returns
    -------
    cold, warm : float
        Over all lines.
    """
    miners = [mine(sample.messages)[0] for sample in samples]

    def cold() -> None:
        mask_word.cache_clear()
        for sample in samples:
            add = TemplateMiner().add
            for message in sample.messages:
                add(message)

    def warm() -> None:
        for miner, sample in zip(miners, samples, strict=True):
            add = miner.add
            for message in sample.messages:
                add(message)

    lines = sum(len(sample.messages) for sample in samples)
    return lines / _seconds(cold), lines / _seconds(warm)


def lines(folder: Path) -> Iterator[str]:
    """Yield the lines of the table.

    Parameters
    ----------
    folder : Path
        Folder of the data sets.

    Yields
    ------
    str
        One system each, then means and speeds.
    """
    samples = {system: read_sample(folder, system) for system in DRAIN}
    yield "| system | grouping accuracy | F1 of groups | templates | true | Drain, accuracy |"
    yield "| --- |" + " --- |" * 5
    results = []
    for system, sample in samples.items():
        miner, roots = mine(sample.messages)
        result = grouping(roots, sample.events)
        results.append(result)
        yield (
            f"| {system} | {result.accuracy:.3f} | {result.f1:.3f} | {len(miner)} | "
            f"{len(set(sample.events))} | {DRAIN[system]:.3f} |"
        )
    accuracies = [result.accuracy for result in results]
    mean = sum(accuracies) / len(results)
    f1 = sum(result.f1 for result in results) / len(results)
    yield f"| mean | {mean:.3f} | {f1:.3f} | | | {sum(DRAIN.values()) / len(DRAIN):.3f} |"
    yield f"| worst | {min(accuracies):.3f} | | | | {min(DRAIN.values()):.3f} |"
    cold, warm = speed(list(samples.values()))
    yield f"lines a second on one core: {cold:,.0f} cold, {warm:,.0f} warm"


if __name__ == "__main__":
    for line in lines(Path(os.environ["TSMAMBA_DATA"])):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{environment(packages=())}\n")
