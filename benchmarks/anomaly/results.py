"""Lines of results: one a cell, and in a file beside them one for each run."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.anomaly.sets import SETS, AnomalySet
from benchmarks.forecast.results import Line, Results
from benchmarks.forecast.results import read_results as read_lines

CORPUS = "all series"  # the cell of a score that all series have together


class Cell(NamedTuple):
    """What one line of results is about."""

    set: str
    series: str
    model: str
    seed: int

    def __str__(self) -> str:
        return f"{self.set}, {self.series}, {self.model}, seed {self.seed}"

    @classmethod
    def of(cls, line: Line) -> "Cell":
        """Return the cell of a line."""
        return cls(*(line[name] for name in cls._fields))


def read_results(path: Path) -> list[Line]:
    """Return the last line of each cell, with date, device, versions and commit of its run.

    Parameters
    ----------
    path : Path
        File of JSON lines.

    Examples
    --------
    >>> read_results(Path("no-such-file.jsonl"))
    []
    """
    runs = read_runs(path)
    return [runs[line["run"]] | line for line in read_lines(path, Cell.of)]


def read_runs(path: Path) -> list[Line]:
    """Return where and when each run took place; "run" of a line is its number here."""
    file = _runs_file(path)
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def note_run(path: Path, environment: Line) -> int:
    """Write where and when a run takes place, and return its number.

    Parameters
    ----------
    path : Path
        File of results.
    environment : dict
        From `benchmarks.forecast.run.environment`, and the date.

    Returns
    -------
    int
    """
    number = len(read_runs(path))
    with _runs_file(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(environment) + "\n")
    return number


def _runs_file(path: Path) -> Path:
    return path.with_suffix(".runs.jsonl")


def scored(results: Results) -> list[Line]:
    """Return the lines of single series that hold metrics: no error, not left out."""
    return [line for line in results if "vus_pr" in line]


def sets_in(results: Results) -> list[AnomalySet]:
    """Return the sets that have results, in the order of the benchmark."""
    names = {line["set"] for line in results}
    return [source for source in SETS if source.name in names]


def by_series(lines: Iterable[Line], key: str) -> dict[str, float]:
    """Return a number of each series, mean over seeds.

    Examples
    --------
    >>> lines = [{"series": "a", "f1": 0.5}, {"series": "a", "f1": 1.0}, {"series": "b"}]
    >>> by_series(lines, "f1")
    {'a': 0.75}
    """
    found: dict[str, list[float]] = {}
    for line in lines:
        if line.get(key) is not None:
            found.setdefault(line["series"], []).append(line[key])
    return {series: _mean(values) for series, values in found.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
