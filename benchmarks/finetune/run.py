"""Tune a forecaster of some regions to others, in each way and with each seed."""

import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from benchmarks.forecast.results import Line
from benchmarks.forecast.run import Say, run_missing
from tsmamba import MambaForecaster, Training
from tsmamba_datasets import fetch_pjm_load

SOURCES = ("AEP", "DAYTON", "PJME", "PJMW")
TARGETS = ("COMED", "DEOK", "DUQ")
HORIZON = 48
TEST_STEPS = 8_760  # the last year of every region
SOURCE_STEPS = 4 * 8_760  # of each source, before its test part
CONTEXT = 768
SHARE = 0.05  # of the steps of a target before its test part
_APART = 97  # steps from one origin to the next, so that every hour of the day is one
_HISTORY = 2_000  # steps before the test part that a forecast may see

# The same for every method; shorter and slower than a training from scratch.
TUNING = Training(max_steps=120, lr=1e-3, eval_every=30)

# Makes the forecaster of a target from that of the sources and the rows of the target.
Way = Callable[[MambaForecaster, pl.DataFrame], MambaForecaster]


class Cell(NamedTuple):
    """What one line of results is about."""

    target: str
    way: str
    seed: int

    def __str__(self) -> str:
        return f"{self.target}, {self.way}, seed {self.seed}"

    @classmethod
    def of(cls, line: Line) -> "Cell":
        """Return the cell of a line."""
        return cls(line["target"], line["way"], line["seed"])


def _alone(source: MambaForecaster, rows: pl.DataFrame) -> MambaForecaster:
    return MambaForecaster(HORIZON, mode="full", random_state=source.random_state).fit(rows)


def _tuned(source: MambaForecaster, rows: pl.DataFrame, **how: Any) -> MambaForecaster:
    return deepcopy(source).finetune(rows, training=TUNING, **how)


ALONE, BEFORE = "target alone", "not tuned"
WAYS: dict[str, Way] = {
    ALONE: _alone,
    BEFORE: lambda source, rows: source,
    "full": partial(_tuned, method="full"),
    "full, warm-up": partial(_tuned, method="full", warmup_steps=100),
    "head": partial(_tuned, method="head"),
    "ssm-frozen": partial(_tuned, method="ssm-frozen"),
    "lora": partial(_tuned, method="lora"),
}


class Split(NamedTuple):
    """The rows of some regions, in order of time."""

    before: pl.DataFrame  # rows that a forecast may see and nothing learns from
    training: pl.DataFrame
    test: pl.DataFrame

    @classmethod
    def of(cls, frame: pl.DataFrame, steps: int) -> "Split":
        """Cut ``steps`` training rows and the test part off the end of each region."""
        left = pl.len().over("unique_id") - pl.int_range(pl.len()).over("unique_id")
        return cls(
            frame.filter(left > TEST_STEPS + steps),
            frame.filter(left.is_between(TEST_STEPS + 1, TEST_STEPS + steps)),
            frame.filter(left <= TEST_STEPS),
        )


def cells(ways: Iterable[str], seeds: Sequence[int]) -> list[Cell]:
    """Return what is to be run: all with the first seed, then with the next.

    Examples
    --------
    >>> cells(["lora"], seeds=[0])[:2]
    [Cell(target='COMED', way='lora', seed=0), Cell(target='DEOK', way='lora', seed=0)]
    """
    return [Cell(target, way, seed) for seed in seeds for target in TARGETS for way in ways]


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
        return evaluate(WAYS[cell.way], source_forecaster(cell.seed), _target(cell.target))

    def summary(outcome: Line) -> str:
        return f"error {outcome['target_error']['corrected']:.4f} of the mean load"

    return run_missing(wanted, path, Cell.of, outcome_of, summary, say)


@cache
def _sources() -> Split:
    return Split.of(fetch_pjm_load(SOURCES), SOURCE_STEPS)


@cache
def _target(name: str) -> Split:
    frame = fetch_pjm_load(name)
    split = Split.of(frame, round(SHARE * (len(frame) - TEST_STEPS)))
    return split._replace(before=split.before.clear())


@lru_cache(maxsize=1)
def source_forecaster(seed: int) -> MambaForecaster:
    """Return the forecaster of the sources."""
    return MambaForecaster(HORIZON, mode="full", context_length=CONTEXT, random_state=seed).fit(
        _sources().training
    )


def evaluate(way: Way, source: MambaForecaster, target: Split) -> dict[str, Any]:
    """Make the forecaster of a target and judge it on the test parts.

    Parameters
    ----------
    way : callable
        How it is made.
    source : MambaForecaster
        That of the sources; left as it is.
    target : Split
        Rows of the target.

    Returns
    -------
    dict
        ``seconds`` it took; ``report`` of the forecaster; ``target_error`` and ``source_error``,
        from `error_of`.
    """
    began = time.perf_counter()
    forecaster = way(source, target.training)
    seconds = time.perf_counter() - began
    kept = ("corrector", "finetuning", "validation_error", "validation_error_before", "gate")
    return {
        "seconds": round(seconds, 1),
        "report": {name: forecaster.report_[name] for name in kept if name in forecaster.report_},
        "target_error": error_of(forecaster, target),
        "source_error": error_of(forecaster, _sources()),
    }


def error_of(forecaster: MambaForecaster, split: Split) -> dict[str, float]:
    """Return the mean absolute error on the test part in parts of the mean load.

    Parameters
    ----------
    forecaster : MambaForecaster
        As it is; nothing is fitted.
    split : Split
        Rows of some regions.

    Returns
    -------
    dict
        Of the ``corrected`` forecast and of its ``base``, mean over regions.
    """
    history = pl.concat([split.before, split.training]).group_by("unique_id").tail(_HISTORY)
    rows = pl.concat([history, split.test]).sort("unique_id", "ds")
    n_windows = (TEST_STEPS - HORIZON) // _APART + 1

    def error(base_only: bool) -> float:
        frame = forecaster.cross_validation(
            rows, n_windows=n_windows, step_size=_APART, use_fitted=True, base_only=base_only
        )
        came = frame.filter(pl.col("y").is_not_nan())  # a few hours have no record
        away = (pl.col("MambaForecaster") - pl.col("y")).abs().mean() / pl.col("y").mean()
        return float(came.group_by("unique_id").agg(error=away)["error"].mean())

    return {"corrected": round(error(False), 6), "base": round(error(True), 6)}
