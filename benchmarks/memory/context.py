"""Errors on PJM with a long and a short context.

    python -m benchmarks.memory.context

fits the default forecaster at each length and horizon, forecasts every window of the test year, and
prints a table.
"""

import sys
from collections.abc import Iterator, Sequence

from benchmarks.forecast.models.tsmamba import Tsmamba
from benchmarks.forecast.problem import Problem
from benchmarks.forecast.run import environment, evaluate
from benchmarks.forecast.sets import find_set

LENGTHS = (512, 8_192)
SET = "PJM"


def lines(horizons: Sequence[int] | None = None, lengths: Sequence[int] = LENGTHS) -> Iterator[str]:
    """Fit and judge: the lines of a table as they come, and where it was made.

    Parameters
    ----------
    horizons : sequence of int, optional
        Some of those of the set; all by default.
    lengths : sequence of int
        Steps of context; the last is compared with the first.

    Yields
    ------
    str
        Of Markdown.
    """
    source = find_set(SET)
    yield f"| MSE / MAE | {' | '.join(f'{length:,} steps' for length in lengths)} | change |"
    yield "| --- |" + " --- |" * (len(lengths) + 1)
    sums = [(0.0, 0.0)] * len(lengths)
    horizons = horizons or source.horizons
    for horizon in horizons:
        problem = Problem.of(source, horizon)
        found = [evaluate(Tsmamba("fast", length), problem, seed=0) for length in lengths]
        errors = [(one["mse"], one["mae"]) for one in found]
        sums = [(a + c, b + d) for (a, b), (c, d) in zip(sums, errors, strict=True)]
        yield _row(f"{horizon} steps ahead", errors)
    yield _row("average", [(a / len(horizons), b / len(horizons)) for a, b in sums])
    yield str(environment())


def _row(name: str, errors: Sequence[tuple[float, float]]) -> str:
    """Return a row of the table."""
    cells = [f"{mse:.4f} / {mae:.4f}" for mse, mae in errors]
    change = [f"{100 * (b / a - 1):+.1f} %" for a, b in zip(errors[0], errors[-1], strict=True)]
    return f"| {name} | {' | '.join(cells)} | {' / '.join(change)} |"


if __name__ == "__main__":
    for line in lines():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
