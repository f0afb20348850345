"""Run cells of the benchmark, one JSON line each, and go on where an earlier run stopped."""

import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from benchmarks.forecast.models import CONTESTANTS
from benchmarks.forecast.models.contestant import Contestant
from benchmarks.forecast.problem import Problem
from benchmarks.forecast.results import Cell, Line, read_results, succeeded
from benchmarks.forecast.scores import CompetitionScores, Scores
from benchmarks.forecast.sets import ForecastSet

_BATCH = 4_096  # windows of single series that are forecast at once

AnyCell = TypeVar("AnyCell", bound=NamedTuple)
Say = Callable[[str], None]


def cells(
    sets: Iterable[ForecastSet],
    models: Iterable[str],
    seeds: Sequence[int],
    horizons: Sequence[int] | None = None,
) -> list[Cell]:
    """Return what is to be run: all with the first seed, cheap contestants first, then the next.

    Parameters
    ----------
    sets : iterable of ForecastSet
        Small ones first.
    models : iterable of str
        Names of contestants; their order is that of `CONTESTANTS`.
    seeds : sequence of int
        The first one alone where nothing is drawn.
    horizons : sequence of int, optional
        Keep these of each set's; all by default.

    Examples
    --------
    >>> from benchmarks.forecast.sets import find_set
    >>> cells([find_set("M4")], ["Linear"], seeds=[0, 1])
    [Cell(set='M4', horizon=48, model='Linear', seed=0)]
    """
    sets, wanted = list(sets), set(models)
    return [
        Cell(source.name, horizon, name, seed)
        for seed in seeds
        for name, entry in CONTESTANTS.items()
        if name in wanted and (entry.random or seed == seeds[0])
        for source in sets
        for horizon in source.horizons
        if horizons is None or horizon in horizons
    ]


def run(
    wanted: Iterable[Cell],
    sets: Iterable[ForecastSet],
    path: Path,
    say: Say = lambda line: None,
) -> int:
    """Run the cells that have no result yet and append each to a file as soon as it is there.

    Parameters
    ----------
    wanted : iterable of Cell
        From `cells`.
    sets : iterable of ForecastSet
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
        problem = Problem.of(sources[cell.set], cell.horizon)
        return evaluate(CONTESTANTS[cell.model].make(), problem, cell.seed)

    def summary(outcome: Line) -> str:
        return f"MSE {outcome['mse']:.4f}, MAE {outcome['mae']:.4f}"

    return run_missing(wanted, path, Cell.of, outcome_of, summary, say)


def run_missing(
    wanted: Iterable[AnyCell],
    path: Path,
    cell_of: Callable[[Line], AnyCell],
    outcome_of: Callable[[AnyCell], Line],
    summary: Callable[[Line], str],
    say: Say,
    where: Line | None = None,
) -> int:
    """Run the cells of any benchmark that have no result yet.

    An error is recorded as the result of its cell, and tried again in the next run.

    Parameters
    ----------
    wanted : iterable of named tuple
        The cells.
    path : Path
        File of JSON lines, to which each result is appended as soon as it is there.
    cell_of : callable
        Gives the cell of a line.
    outcome_of : callable
        Runs a cell.
    summary : callable
        Tells an outcome in a few words.
    say : callable
        Told a line for each cell.
    where : dict, optional
        Says in each line where and when it was made; by default `environment` and the time.

    Returns
    -------
    int
        Number of cells that failed.
    """
    done = {cell_of(line) for line in succeeded(read_results(path, cell_of))}
    here, failed = environment() if where is None else {}, 0
    for cell in wanted:
        if cell in done:
            continue
        try:
            outcome = outcome_of(cell)
            say(f"{cell}: {summary(outcome)}")
        except Exception as error:  # one cell must not stop the night's run
            outcome = {"error": f"{type(error).__name__}: {error}"}
            failed += 1
            say(f"{cell}: {outcome['error']}")
        made = here | {"date": now()} if where is None else where
        line = cell._asdict() | outcome | made
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return failed


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def evaluate(contestant: Contestant, problem: Problem, seed: int) -> dict[str, Any]:
    """Fit a contestant and score it on every test window.

    Parameters
    ----------
    contestant : Contestant
        Unfitted.
    problem : Problem
        Set and horizon.
    seed : int
        For the fit.

    Returns
    -------
    dict
        Errors, ``n_windows`` of a channel, ``fit_seconds`` and ``predict_seconds``.

    Raises
    ------
    RuntimeError
        If the number of windows is not that of the protocol.
    """
    began = time.perf_counter()
    contestant.fit(problem, seed)
    fitted = time.perf_counter()
    scores = Scores(problem.horizon)
    competition = CompetitionScores(problem) if problem.source.naive2 else None
    predicting = 0.0
    for windows in problem.test.batches(_BATCH):
        started = time.perf_counter()
        forecast = contestant.forecast(windows)
        predicting += time.perf_counter() - started
        truth, observed = problem.store.future(windows, problem.horizon)
        scores.add(truth, observed, forecast)
        if competition is not None:
            competition.add(windows, truth, forecast.point)
    n_windows, rest = divmod(scores.windows, problem.channels)
    expected = problem.source.n_windows(problem.horizon, problem.n_ids)
    if rest or n_windows != expected:
        raise RuntimeError(f"{scores.windows} windows were scored; the protocol has {expected}")
    return {
        **scores.summary(),
        **({} if competition is None else competition.summary()),
        "n_windows": n_windows,
        "fit_seconds": round(fitted - began, 3),
        "predict_seconds": round(predicting, 3),
    }


def environment(packages: Iterable[str] = ("torch", "numpy", "polars")) -> dict[str, Any]:
    """Return where the numbers come from.

    Parameters
    ----------
    packages : iterable of str, optional
        Those whose versions matter, where they are installed.

    Returns
    -------
    dict
        Versions, threads, device, and the commit, marked where files differ from it.

    Examples
    --------
    >>> sorted(environment())
    ['commit', 'device', 'threads', 'versions']
    """
    return {
        "versions": {
            "python": platform.python_version(),
            **dict(_versions(packages)),
        },
        "threads": torch.get_num_threads(),
        "device": next(_processors(), platform.machine()),
        "commit": _commit(),
    }


def _versions(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in packages:
        with suppress(PackageNotFoundError):
            yield name, version(name)


def _processors() -> Iterator[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))


def _commit() -> str | None:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None
