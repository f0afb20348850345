"""Run cells of the benchmark, one JSON line each, and go on where an earlier run stopped."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from sklearn.metrics import average_precision_score, r2_score, roc_auc_score

from benchmarks.forecast.results import Line
from benchmarks.forecast.run import Say, run_missing
from benchmarks.records import values
from benchmarks.records.contest import Answer, Model
from benchmarks.records.forecasters import FORECASTERS
from benchmarks.records.models import MODELS
from benchmarks.records.regressors import REGRESSORS
from benchmarks.records.sets import NUMBERS, Problem, problems
from benchmarks.records.values import ValuesProblem
from tsmamba.outcomes.scores import calibration_error

__all__ = ["VALUES", "Cell", "run", "run_forecasts"]

_Result = TypeVar("_Result")
_BINS = 10
# The name of the problem of next values in the results.
VALUES = "P12 next values, a to b"


class Cell(NamedTuple):
    """What one line of results is about."""

    set: str
    split: int
    model: str

    def __str__(self) -> str:
        return f"{self.set}, split {self.split}, {self.model}"

    @classmethod
    def of(cls, line: Line) -> "Cell":
        """Return the cell of a line."""
        return cls(*(line[name] for name in cls._fields))


def run(sets: Iterable[str], models: Iterable[str], path: Path, say: Say) -> int:
    """Run what has no result yet.

    Parameters
    ----------
    sets, models : iterable of str
        Names; of the models those run that the set has.
    path : Path
        File of JSON lines.
    say : callable
        Told a line for each cell.

    Returns
    -------
    int
        Number of cells that failed.
    """
    failed, chosen = 0, set(models)
    for name in sets:
        known = REGRESSORS if name in NUMBERS else MODELS
        for split, problem in enumerate(problems(name)):

            def outcome(
                cell: Cell, problem: Problem = problem, known: dict[str, Model] = known
            ) -> Line:
                answer, cost = _timed(lambda: known[cell.model](problem, cell.split))
                return figures(answer) | {"seed": cell.split} | cost

            wanted = [Cell(name, split, model) for model in known if model in chosen]
            failed += run_missing(wanted, path, Cell.of, outcome, _summary, say)
    return failed


def run_forecasts(models: Iterable[str], path: Path, say: Say) -> int:
    """Run what has no result yet on the next values of stays.

    Parameters
    ----------
    models : iterable of str
        Names.
    path : Path
        File of JSON lines.
    say : callable
        Told a line for each cell.

    Returns
    -------
    int
        Number of cells that failed.
    """
    problem = ValuesProblem()

    def outcome(cell: Cell) -> Line:
        forecasts, cost = _timed(lambda: FORECASTERS[cell.model](problem, cell.split))
        return values.figures(problem, forecasts) | {"seed": cell.split} | cost

    def summary(line: Line) -> str:
        return f"MAE macro {line['macro']:.4f}, micro {line['micro']:.4f}"

    wanted = [Cell(VALUES, 0, model) for model in models]
    return run_missing(wanted, path, Cell.of, outcome, summary, say)


def _timed(work: Callable[[], _Result]) -> tuple[_Result, Line]:
    started = time.perf_counter()
    result = work()
    return result, {"seconds": round(time.perf_counter() - started, 1)}


def figures(answer: Answer) -> Line:
    """Return the figures of an answer; of classes also its calibration in bins of equal count.

    Parameters
    ----------
    answer : Answer
        Truth and probabilities, or numbers.

    Returns
    -------
    dict
        ``auroc``, ``auprc``, ``brier``, ``ece``, and lists ``said`` and ``came``; of numbers
        ``mae``, ``rmse``, ``r2``, and ``coverage`` of 90 % intervals, if there are any.
    """
    truth, said, bounds = answer
    if truth.dtype.kind == "f":
        missed = said - truth
        told = {
            "labels": len(truth),
            "mae": float(abs(missed).mean()),
            "rmse": float(np.sqrt((missed**2).mean())),
            "r2": float(r2_score(truth, said)),
        }
        if bounds is not None:
            told["coverage"] = float(((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])).mean())
        return told
    parts = np.array_split(np.argsort(said, kind="stable"), _BINS)
    return {
        "stays": len(truth),
        "auroc": float(roc_auc_score(truth, said)),
        "auprc": float(average_precision_score(truth, said)),
        "brier": float(((said - truth) ** 2).mean()),
        "ece": calibration_error(truth, said, _BINS),
        "said": [float(said[part].mean()) for part in parts],
        "came": [float(truth[part].mean()) for part in parts],
    }


def _summary(outcome: Line) -> str:
    if "mae" in outcome:
        return f"MAE {outcome['mae']:.4f}, R2 {outcome['r2']:.3f}"
    return f"AUROC {outcome['auroc']:.4f}, AUPRC {outcome['auprc']:.4f}, ECE {outcome['ece']:.3f}"
