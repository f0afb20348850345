"""Train and judge each variant with each seed, and go on where an earlier run stopped."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.corrector.trials import Trial
from benchmarks.corrector.variants import VARIANTS, Variant
from benchmarks.forecast.results import Line
from benchmarks.forecast.run import Say, run_missing
from benchmarks.forecast.sets import find_set
from tools.pool import real_members, synthetic_members
from tools.pretrain import CONFIG, Prepared, gain, prepare, pretrain, training
from tsmamba.training import Training

# M4 and ILI are shorter than what the corrector was made for.
SETS = ("Exchange", "PM2.5", "Victoria", "ETTh1", "ETTh2", "ETTm1", "PJM")
HORIZONS = (96, 720)


class Cell(NamedTuple):
    """What one line of results is about."""

    variant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.variant}, seed {self.seed}"

    @classmethod
    def of(cls, line: Line) -> "Cell":
        """Return the cell of a line."""
        return cls(line["variant"], line["seed"])


@dataclass(frozen=True)
class Ground:
    """What variants are trained and judged on.

    Parameters
    ----------
    pool : list of Prepared
        Members of the pool.
    trials : list of Trial
        Sets that no variant sees in training.
    settings : Training
        Knobs of the training.
    """

    pool: list[Prepared]
    trials: list[Trial]
    settings: Training

    @classmethod
    def of(cls, seed: int) -> "Ground":
        """Return that of ``make pretrain``; its synthetic series follow the seed."""
        return cls([*_real(), *_synthetic(seed)], _trials(), training())


@cache
def _real() -> list[Prepared]:
    return [prepare(member, CONFIG) for member in real_members()]


@lru_cache(maxsize=1)
def _synthetic(seed: int) -> list[Prepared]:
    return [prepare(member, CONFIG) for member in synthetic_members(seed)]


@cache
def _trials() -> list[Trial]:
    return [Trial.of(find_set(name), horizon) for name in SETS for horizon in HORIZONS]


def cells(variants: Iterable[str], seeds: Sequence[int]) -> list[Cell]:
    """Return what is to be run: all variants with the first seed, then with the next.

    Examples
    --------
    >>> cells(["mamba"], seeds=[0, 1])
    [Cell(variant='mamba', seed=0), Cell(variant='mamba', seed=1)]
    """
    return [Cell(name, seed) for seed in seeds for name in variants]


def run(wanted: Iterable[Cell], path: Path, say: Say = lambda line: None) -> int:
    """Run the cells that have no result yet and append each to a file as soon as it is there.

    Parameters
    ----------
    wanted : iterable of Cell
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

    def outcome_of(cell: Cell) -> Line:
        return evaluate(VARIANTS[cell.variant], Ground.of(cell.seed), cell.seed)

    def summary(outcome: Line) -> str:
        absolute = [absolute for absolute, _ in outcome["pool"].values()]
        return f"{sum(absolute) / len(absolute):.4f} of the base's error on the pool"

    return run_missing(wanted, path, Cell.of, outcome_of, summary, say)


def evaluate(variant: Variant, ground: Ground, seed: int) -> dict[str, Any]:
    """Train a variant and judge it.

    Parameters
    ----------
    variant : Variant
        What to train.
    ground : Ground
        On what.
    seed : int
        Of weights, batches and dropout.

    Returns
    -------
    dict
        ``parameters``; ``seconds`` of training and ``windows_per_second`` without validation;
        ``pool``, absolute and squared error on the part of each member that was held back, in parts
        of the base's; ``sets``, from `Trial.evaluate`.
    """
    pool = [
        replace(one, correction=replace(one.correction, config=variant.config))
        for one in ground.pool
    ]
    began = time.perf_counter()
    corrector, history = pretrain(pool, variant.make, ground.settings, seed, variant.loss)
    seconds = time.perf_counter() - began
    corrector.requires_grad_(False)
    gains = {one.name: gain(corrector, one, one.validation) for one in pool}
    return {
        "parameters": sum(parameter.numel() for parameter in corrector.parameters()),
        "steps": history.steps,
        "seconds": round(seconds, 1),
        "windows_per_second": round(history.windows / history.seconds, 1),
        "pool": {name: [round(error, 6) for error in errors] for name, errors in gains.items()},
        "sets": [trial.evaluate(corrector) for trial in ground.trials],
    }
