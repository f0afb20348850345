"""Error and peak memory of a corrector that reads more history than it was trained on.

    python -m benchmarks.memory.reach

trains on PJM, forecasts its test year with longer and longer history, and prints a table. There is
no gate: what is judged is the corrector, not whether a fit would use it.
"""

import os
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch

from benchmarks.forecast.problem import Problem, target_col
from benchmarks.forecast.run import environment
from benchmarks.forecast.sets import find_set
from tsmamba import Training
from tsmamba.benchmark.probe import RETURN_FREED, peak_of
from tsmamba.data.panel import read_panel
from tsmamba.forecast.calibration import Residuals
from tsmamba.forecast.correction import Correction, split_windows
from tsmamba.forecast.defaults import plan
from tsmamba.forecast.linear import fit_linear_base
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.pretrained import pretrained_corrector
from tsmamba.forecast.source import Source

TRAINED = 8_192
HISTORIES = (4_096, TRAINED, 16_384, 32_768)
HORIZON = 96
STEPS = 200
SEED = 0
_WINDOWS = 1_200


class Outcome(NamedTuple):
    """Errors in units of the standardised series, and what the forecasts took."""

    mae: float
    mse: float
    peak: int  # bytes beyond those held before
    seconds: float


def fit(problem: Problem, trained: int = TRAINED, steps: int = STEPS) -> ForecastModel:
    """Train the default network on the training part, from the bundled weights on.

    Parameters
    ----------
    problem : Problem
        Set and horizon.
    trained : int
        Steps of history in training.
    steps : int
        Gradient steps.

    Returns
    -------
    ForecastModel
        With the whole correction at every step, and no intervals.
    """
    panel = read_panel(problem.train_frame, target_col=target_col(problem.source))
    bundled = pretrained_corrector()
    sizes = plan(
        panel,
        horizon=problem.horizon,
        context_length=trained,
        season_length=None,
        patch_length=bundled.config.patch,
    )
    source = Source.of(panel, sizes.season)
    windows = source.store.windows(sizes.context.recent, sizes.horizon)
    base = fit_linear_base(
        source.store, windows, sizes.context, sizes.horizon, sizes.season, stride=sizes.stride
    )
    torch.manual_seed(SEED)
    config = CorrectorConfig(
        history=trained // sizes.patch * sizes.patch,
        horizon=sizes.horizon,
        patch=sizes.patch,
        n_context=source.n_context,
    )
    corrector = Corrector(config)
    corrector.start_from(bundled)
    split = split_windows(source.store, windows, sizes.horizon)
    correction = Correction(source, sizes.context, base, config)
    correction.train(corrector, split, Training(max_steps=steps), lambda step, loss: None)
    return ForecastModel(
        sizes.context,
        base.shared.weights,
        Residuals(torch.zeros(1, sizes.horizon), 0.0),
        corrector,
        torch.ones(sizes.horizon),
        source.clock.cycles,
        local=base.whole().local,
    )


def evaluate(model: ForecastModel, problem: Problem, history: int | None) -> Outcome:
    """Forecast windows of the test part.

    Parameters
    ----------
    model : ForecastModel
        The fit.
    problem : Problem
        Set and horizon.
    history : int, optional
        Steps that the corrector reads; without them the base answers alone.

    Returns
    -------
    Outcome
        Errors and costs.
    """
    source = Source.of(problem.panel, problem.source.season, model.cycles)
    origins = problem.test.thinned(_WINDOWS)
    windows = origins.at(torch.arange(len(origins)))
    reading = model if history is None else model.with_history(history)
    points = []

    def forecast() -> None:
        points.append(reading.forecast(source, windows, base_only=history is None).point)

    started = time.perf_counter()
    peak = peak_of(forecast)
    seconds = time.perf_counter() - started
    truth, observed = source.store.future(windows, problem.horizon)
    away = (points[0] - truth)[observed]
    return Outcome(float(away.abs().mean()), float(away.square().mean()), peak, seconds)


def lines() -> Iterator[str]:
    """Fit, then evaluate each history: the lines of a table as they come, and where it was made."""
    problem = Problem.of(find_set("PJM"), HORIZON)
    model = fit(problem)
    yield "| history of the corrector | MAE | MSE | peak memory | seconds |"
    yield "| --- | --- | --- | --- | --- |"
    for history in (None, *HISTORIES):
        found = evaluate(model, problem, history)
        name = "none, the base alone" if history is None else f"{history:,} steps"
        yield (
            f"| {name} | {found.mae:.4f} | {found.mse:.4f} | {found.peak / 1e6:,.0f} MB "
            f"| {found.seconds:.1f} |"
        )
    yield str(environment())


if __name__ == "__main__":
    if not RETURN_FREED.items() <= os.environ.items():  # read once, when a process starts
        os.execve(sys.executable, [*sys.orig_argv], os.environ | RETURN_FREED)
    for line in lines():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
