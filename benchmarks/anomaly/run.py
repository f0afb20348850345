"""Run cells of the benchmark, one JSON line each, and go on where an earlier run stopped."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.anomaly.methods import METHODS
from benchmarks.anomaly.methods.method import Method, NotApplicableError
from benchmarks.anomaly.problem import Problem
from benchmarks.anomaly.results import CORPUS, Cell, note_run, read_results
from benchmarks.anomaly.scores import (
    metrics,
    nab_file,
    nab_scores,
    right_channels,
    rounded,
    without_gaps,
)
from benchmarks.anomaly.sets import AnomalySet
from benchmarks.forecast.results import Line, succeeded
from benchmarks.forecast.run import Say, environment, now, run_missing

_PACKAGES = ("numpy", "scikit-learn", "stumpy", "torch")
_STEPS = 10_000  # that a cost is given for


def cells(
    sets: Iterable[AnomalySet],
    models: Iterable[str],
    seeds: Sequence[int],
    max_steps: int | None = None,
) -> list[Cell]:
    """Return what is to be run: all with the first seed, cheap methods first, then the next.

    Parameters
    ----------
    sets : iterable of AnomalySet
        Small ones first.
    models : iterable of str
        Names of methods; their order is that of `METHODS`.
    seeds : sequence of int
        The first one alone where nothing is drawn.
    max_steps : int, optional
        Longer series are for another run.
    """
    wanted = set(models)
    series = [(source.name, name) for source in sets for name in _names(source, max_steps)]
    return [
        Cell(source, name, model, seed)
        for seed in seeds
        for model, entry in METHODS.items()
        if model in wanted and (entry.random or seed == seeds[0])
        for source, name in series
    ]


def _names(source: AnomalySet, max_steps: int | None) -> list[str]:
    corpus = [CORPUS] if source.corpus else []
    if max_steps is None:
        return [*source.names(), *corpus]
    return [p.name for p in source.problems() if len(p.values) <= max_steps] + corpus


def run(
    wanted: Iterable[Cell],
    sets: Iterable[AnomalySet],
    path: Path,
    say: Say = lambda line: None,
) -> int:
    """Run the cells that have no result yet and append each to a file as soon as it is there.

    Parameters
    ----------
    wanted : iterable of Cell
        From `cells`.
    sets : iterable of AnomalySet
        Those that the cells name.
    path : Path
        File of JSON lines.
    say : callable
        Told a line for each cell.

    Returns
    -------
    int
        Number of cells that failed.
    """
    sources = {source.name: source for source in sets}

    def outcome_of(cell: Cell) -> Line:
        make = partial(METHODS[cell.model].make, cell.seed)
        source = sources[cell.set]
        if cell.series == CORPUS:
            return evaluate_corpus(make, source.problems())
        return evaluate(make(), source.read(cell.series))

    done = {Cell.of(line) for line in succeeded(read_results(path))}
    missing = [cell for cell in wanted if cell not in done]
    if not missing:
        return 0
    with one_thread():
        place = {"run": note_run(path, environment(_PACKAGES) | {"date": now()})}
        return run_missing(missing, path, Cell.of, outcome_of, _summary, say, place)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread in the body of a ``with``."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def evaluate(method: Method, problem: Problem) -> dict[str, Any]:
    """Fit a method on the training part, let it score the series, and judge the scores.

    Parameters
    ----------
    method : Method
        Unfitted.
    problem : Problem
        A series.

    Returns
    -------
    dict
        Metrics, and ``seconds`` of the processor for fit and score of 10,000 steps; or why the
        method is not made for the series, as ``left_out``.

    Raises
    ------
    ValueError
        If there is not one score a row.
    """
    try:
        scores, seconds = _scores(method, problem)
    except NotApplicableError as reason:
        return {"left_out": str(reason)}
    found = metrics(problem, scores)
    if problem.causes and hasattr(method, "explain"):
        share = right_channels(problem, method.explain(problem.values))
        found |= rounded({"channels": share})
    return found | rounded({"seconds": seconds * _STEPS / len(scores)})


def evaluate_corpus(make: Callable[[], Method], problems: Iterable[Problem]) -> dict[str, Any]:
    """Score all files of NAB and judge them together.

    Parameters
    ----------
    make : callable
        Gives an unfitted method; each file has its own.
    problems : iterable of Problem
        The files.

    Returns
    -------
    dict
        See `nab_scores`.
    """
    return nab_scores([nab_file(problem, _scores(make(), problem)[0]) for problem in problems])


def _scores(method: Method, problem: Problem) -> tuple[np.ndarray, float]:
    """Return finite scores, and the seconds that they took."""
    began = time.process_time()
    method.fit(problem.train)
    scores = method.score(problem.values)
    seconds = time.process_time() - began
    if scores.shape != problem.labels.shape:
        raise ValueError(f"{len(problem.labels):,} rows have scores of shape {scores.shape}")
    return without_gaps(scores), seconds


def _summary(outcome: Line) -> str:
    names = ("vus_pr", "hit", "nab_standard", "left_out", "alerted", "seconds")
    return ", ".join(f"{name} {outcome[name]}" for name in names if name in outcome)
