"""``tsmamba score-parquet``: a folder of parquet files in, one of answers out."""

import time
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tsmamba.cli.messages import plain_errors, say

app = typer.Typer()


class Engine(StrEnum):
    """Where parts are scored."""

    process = "process"
    ray = "ray"


_Source = Annotated[
    Path,
    typer.Argument(
        help="Folder of parquet files, each with whole series.",
        metavar="IN",
        exists=True,
        file_okay=False,
    ),
]
_Target = Annotated[
    Path,
    typer.Argument(help="Folder of the answers, one file each.", metavar="OUT", file_okay=False),
]
_Model = Annotated[
    Path,
    typer.Option(help="Saved forecaster or detector.", exists=True, dir_okay=False),
]
_Engine = Annotated[
    Engine | None,
    typer.Option(help="process or ray; without one, processes if there are several workers."),
]
_Workers = Annotated[int, typer.Option(min=1, help="How many score at a time.")]
_Horizon = Annotated[
    int | None,
    typer.Option("--horizon", "-n", min=1, help="Steps to forecast; those of the fit by default."),
]
_Quantile = Annotated[
    list[float] | None, typer.Option(help="Quantile, in place of intervals; repeatable.")
]


@app.command("score-parquet")
def score_parquet(
    source: _Source,
    target: _Target,
    model: _Model,
    engine: _Engine = None,
    workers: _Workers = 1,
    horizon: _Horizon = None,
    quantile: _Quantile = None,
) -> None:
    """Score every parquet file in IN with a saved model and write the answers to OUT.

    Files that are done already, with this model and these rows, are kept: a run that was cut short
    goes on. A file that cannot be scored is named, the others go on, and the exit code is 1.
    """
    with plain_errors():
        from tsmamba.serving.engines import score_parquet as score
        from tsmamba.serving.parquet import Job

        started = time.perf_counter()
        job = Job(source, target, model, horizon, tuple(quantile) if quantile else None)
        states: Counter[str] = Counter()
        rows = 0
        for outcome in score(job, engine and engine.value, workers):
            states[outcome.state] += 1
            rows += outcome.rows
            if outcome.state == "failed":
                say("error", f"{outcome.part}: {outcome.reason}")
        counts = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
        seconds = time.perf_counter() - started
        typer.echo(f"{states.total():,} parts: {counts}; {rows:,} rows in {seconds:.1f} s")
        if states["failed"]:
            raise typer.Exit(1)
