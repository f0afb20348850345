"""Lines of results: read, selected, and judged for completeness."""

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.forecast.sets import SETS, ForecastSet

Line = dict[str, Any]
Results = Sequence[Line]


class Cell(NamedTuple):
    """What one line of results is about."""

    set: str
    horizon: int
    model: str
    seed: int

    def __str__(self) -> str:
        return f"{self.set}, {self.horizon} steps, {self.model}, seed {self.seed}"

    @classmethod
    def of(cls, line: Line) -> "Cell":
        """Return the cell of a line."""
        return cls(*(line[name] for name in cls._fields))


def read_results(path: Path, cell_of: Callable[[Line], Hashable] = Cell.of) -> list[Line]:
    """Return the last line of each cell, in order; none where there is no file.

    Parameters
    ----------
    path : Path
        File of JSON lines.
    cell_of : callable, optional
        Gives the cell of a line, in a file of another benchmark.

    Examples
    --------
    >>> read_results(Path("no-such-file.jsonl"))
    []
    """
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return list({cell_of(line): line for line in lines}.values())


def succeeded(results: Results) -> list[Line]:
    """Return the lines of cells that did not fail."""
    return [line for line in results if "error" not in line]


def select(results: Results, **wanted: object) -> list[Line]:
    """Return the lines that have these values.

    Examples
    --------
    >>> select([{"seed": 0}, {"seed": 1}], seed=1)
    [{'seed': 1}]
    """
    return [line for line in results if all(line[key] == x for key, x in wanted.items())]


def by_model(results: Results, names: Iterable[str]) -> dict[str, list[Line]]:
    """Return the lines of each contestant that has any, in the order of ``names``."""
    lines = {name: select(results, model=name) for name in names}
    return {name: found for name, found in lines.items() if found}


def sets_in(results: Results) -> list[ForecastSet]:
    """Return the sets that have results, in the order of the benchmark."""
    names = {line["set"] for line in results}
    return [source for source in SETS if source.name in names]


def complete(lines: Results, source: ForecastSet) -> list[Line]:
    """Return the lines of the seeds that have every horizon: an average over some misleads.

    Parameters
    ----------
    lines : sequence of dict
        Of one contestant on one set.
    source : ForecastSet
        The set.

    Examples
    --------
    >>> complete([{"seed": 0, "horizon": 96}], SETS[-1])
    []
    """
    horizons = defaultdict(set)
    for line in lines:
        horizons[line["seed"]].add(line["horizon"])
    return [line for line in lines if horizons[line["seed"]] == set(source.horizons)]
