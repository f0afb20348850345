"""Judge the blocks series by series, and go on where an earlier run stopped."""

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from benchmarks.anomaly.learned.blocks import BLOCKS
from benchmarks.anomaly.learned.judged import Judged, Key
from benchmarks.anomaly.results import Cell, note_run, read_results
from benchmarks.anomaly.run import one_thread
from benchmarks.anomaly.scores import rounded
from benchmarks.anomaly.sets import find_set
from benchmarks.forecast.results import Line, succeeded
from benchmarks.forecast.run import Say, environment, now, run_missing

PRESENT = "present"


def cells(blocks: Iterable[str], seeds: Sequence[int], keys: Iterable[Key]) -> list[Cell]:
    """Return what is to be judged.

    Parameters
    ----------
    blocks : iterable of str
        Of `BLOCKS`.
    seeds : sequence of int
        Of networks and draws.
    keys : iterable of (str, str)
        Sets and series.

    Examples
    --------
    >>> cells(["block"], [0], [("UCR", "001")])
    [Cell(set='UCR', series='001', model='block', seed=0)]
    """
    keys = list(keys)
    return [Cell(*key, block, seed) for seed in seeds for block in blocks for key in keys]


def run(wanted: Sequence[Cell], path: Path, say: Say = lambda line: None) -> int:
    """Judge what has no result yet and append each result to a file as soon as it is there.

    Parameters
    ----------
    wanted : sequence of Cell
        From `cells`.
    path : Path
        File of JSON lines.
    say : callable
        Told a line for each cell.

    Returns
    -------
    int
        Number of cells that failed.
    """
    done = {Cell.of(line) for line in succeeded(read_results(path))}
    missing = [cell for cell in wanted if cell not in done]
    if not missing:
        return 0
    with one_thread():
        place = {"run": note_run(path, environment(("numpy", "torch")) | {"date": now()})}
        return run_missing(missing, path, Cell.of, _outcome, _summary, say, place)


def _outcome(cell: Cell) -> Line:
    judged = _judged(cell.set, cell.series)
    began = time.process_time()
    found = BLOCKS[cell.model](judged, cell.seed)
    seconds = time.process_time() - began
    return rounded({PRESENT: judged.vus_pr(), **found, "seconds": seconds})


@lru_cache(maxsize=1)
def _judged(source: str, name: str) -> Judged:
    return Judged.of(find_set(source).read(name))


def _summary(outcome: Line) -> str:
    return ", ".join(f"{name} {number}" for name, number in outcome.items() if name != "run")
