"""Seconds that ``tsmamba score-parquet`` takes for many short series, by each engine.

    python -m benchmarks.scaling.scoring --series 10000 --files 20

The engines run in turn, each from an empty folder, and nothing is printed unless their answers
agree.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.forecast.run import environment
from tsmamba import MambaForecaster
from tsmamba_datasets import make_seasonal

HORIZON = 24
LENGTHS = (200, 512)
ENGINES = {
    "this process": [],
    "process, 2 workers": ["--engine", "process", "--workers", "2"],
    "ray, 2 workers": ["--engine", "ray", "--workers", "2"],
}
_COMMAND = "from tsmamba.cli import main; main()"
_SAME = 1e-4


def write(folder: Path, series: int, files: int) -> None:
    """Write the series, of uneven lengths, and a model with the bundled corrector."""
    rng = np.random.default_rng(0)
    frame = make_seasonal(n_series=series, length=LENGTHS[1], seed=0)
    lengths = np.repeat(rng.integers(*LENGTHS, size=series, endpoint=True), LENGTHS[1])
    row = np.tile(np.arange(LENGTHS[1]), series)
    part = np.repeat(np.arange(series) * files // series, LENGTHS[1])
    kept = frame.with_columns(part=part).filter(pl.Series(row < lengths))
    (folder / "in").mkdir()
    for (number,), rows in kept.group_by("part"):
        rows.drop("part").write_parquet(folder / "in" / f"{number}.parquet")
    history = make_seasonal(n_series=1, length=4_000, seed=1)
    model = MambaForecaster(HORIZON, context_length=LENGTHS[0], random_state=0).fit(history)
    model.save(folder / "model.tsm")


def run(folder: Path, out: Path, flags: list[str]) -> tuple[float, float]:
    """Return the seconds of one run, start of Python included, and those of the CPUs."""
    places = [str(folder / "in"), str(out), "--model", str(folder / "model.tsm")]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _COMMAND, "score-parquet", *places, *flags],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lines(series: int, files: int, rounds: int) -> Iterator[str]:
    """Run the engines in turn and give the table of medians, then where it was made."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ENGINES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, series, files)
        for number in range(rounds):
            for engine, flags in ENGINES.items():
                out = folder / f"{engine} {number}"
                taken[engine].append(run(folder, out, flags))
        answers = [_answers(folder / f"{engine} 0") for engine in ENGINES]
    for other in answers[1:]:
        if not np.allclose(answers[0], other, rtol=_SAME):
            raise SystemExit("the answers differ; no seconds are told")
    yield "| engine | seconds | of the CPUs | beside this process |"
    yield "| --- | --- | --- | --- |"
    base = statistics.median(wall for wall, _ in taken["this process"])
    for engine, pairs in taken.items():
        wall, cpu = (statistics.median(values) for values in zip(*pairs, strict=True))
        yield f"| {engine} | {wall:.1f} | {cpu:.1f} | {wall / base:.2f} |"
    yield f"{series:,} series in {files} files, medians of {rounds}; {environment()}"


def _answers(folder: Path) -> np.ndarray:
    frame = pl.read_parquet(sorted(folder.glob("*.parquet"))).sort("unique_id", "ds")
    return frame["MambaForecaster"].to_numpy()


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for line in lines(options.series, options.files, options.rounds):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
