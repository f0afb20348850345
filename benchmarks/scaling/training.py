"""Windows per second of one process and of several that share a training, a thread each.

    python -m benchmarks.scaling.training --processes 2 --rounds 5

Both train in turn, with the same batches, and nothing is printed unless their losses agree.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import torch

from benchmarks.forecast.run import environment
from tsmamba import Training
from tsmamba.data.panel import read_panel
from tsmamba.forecast.correction import Correction, split_windows
from tsmamba.forecast.defaults import plan
from tsmamba.forecast.linear import fit_linear_base
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.source import Source
from tsmamba.training import process_rank

HORIZON = 96
HISTORY = 4_080
_SAME = 1e-4


def measure(steps: int, batch_size: int, history: int = HISTORY) -> dict[str, Any]:
    """Train a network of the default shape for some steps, alone or as one rank of several.

    Parameters
    ----------
    steps, batch_size : int
        How long, and windows of a step of all ranks.
    history : int
        Steps of history of a window.

    Returns
    -------
    dict
        ``losses``; ``wall`` and ``cpu``, windows of all ranks for a second, and for a second of
        this rank's CPU time. The first step is left out of both.
    """
    t = np.arange(3 * history)
    y = np.sin(2 * np.pi * t / 24) ** 3 + np.random.default_rng(0).normal(0, 0.3, len(t))
    panel = read_panel(pl.DataFrame({"ds": t, "y": y}), freq=1)
    sizes = plan(panel, horizon=HORIZON, context_length=history, season_length=24, patch_length=48)
    source = Source.of(panel, sizes.season)
    windows = source.store.windows(sizes.context.recent, HORIZON)
    base = fit_linear_base(source.store, windows, sizes.context, HORIZON, sizes.season)
    config = CorrectorConfig(
        history=history, horizon=HORIZON, patch=48, n_context=source.n_context, dropout=0.0
    )
    torch.manual_seed(0)
    seen: list[tuple[float, float, float]] = []
    Correction(source, sizes.context, base, config).train(
        Corrector(config),
        split_windows(source.store, windows, HORIZON),
        Training(max_steps=steps, batch_size=batch_size, eval_every=steps),
        lambda step, loss: seen.append((loss, time.perf_counter(), time.process_time())),
    )
    losses, wall, cpu = zip(*seen, strict=True)
    count = (steps - 1) * batch_size
    return {
        "losses": losses,
        "wall": count / (wall[-1] - wall[0]),
        "cpu": count / (cpu[-1] - cpu[0]),
    }


def run(processes: int, steps: int, batch_size: int) -> dict[str, Any]:
    """Measure in new processes of one thread each; the numbers are those of rank zero."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [*(launch if processes > 1 else []), "-m", "benchmarks.scaling.training"]
    out = subprocess.run(
        [sys.executable, *command, "--fit", "--steps", str(steps), "--batch", str(batch_size)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    result: dict[str, Any] = json.loads(out)
    return result


def lines(processes: int, rounds: int, steps: int, batch_size: int) -> Iterator[str]:
    """Run in turn: a line of the table for each round, then the ratios and where it was."""
    ratios: dict[str, list[float]] = {"wall": [], "cpu": []}
    yield f"| round | windows/s, 1 process | {processes} processes | ratio | ratio of CPU time |"
    yield "| --- | --- | --- | --- | --- |"
    for number in range(rounds):
        one, several = run(1, steps, batch_size), run(processes, steps, batch_size)
        if not np.allclose(one["losses"], several["losses"], rtol=_SAME, atol=0):
            raise SystemExit("the losses differ; no speed is told")
        for kind, values in ratios.items():
            values.append(several[kind] / one[kind])
        yield (
            f"| {number + 1} | {one['wall']:.0f} | {several['wall']:.0f} | "
            f"{ratios['wall'][-1]:.2f} | {ratios['cpu'][-1]:.2f} |"
        )
    wall, cpu = (statistics.median(values) for values in ratios.values())
    yield f"median ratio {wall:.2f}, of CPU time {cpu:.2f}; batch {batch_size}, {steps} steps"
    yield str(environment())


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--fit", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        result = measure(options.steps, options.batch)
        if process_rank() == 0:
            sys.stdout.write(json.dumps(result))
        return
    for line in lines(options.processes, options.rounds, options.steps, options.batch):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
