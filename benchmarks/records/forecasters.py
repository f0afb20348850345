"""Contestants on next values. Each sees the same cleaned events and bins."""

import warnings
from collections.abc import Callable

import numpy as np
import polars as pl
import torch
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from benchmarks.records.networks import GRUDForecasts
from benchmarks.records.values import HORIZON, Forecasts, ValuesProblem
from tsmamba import MambaForecaster, Training
from tsmamba.errors import FrameWarning
from tsmamba.forecast.events.record import Record, Targets
from tsmamba.records.events import Events
from tsmamba.records.summaries import summarise
from tsmamba.training import train
from tsmamba.training.drawing import drawn

__all__ = ["FORECASTERS", "Forecaster"]

_EPOCHS = 12
_BATCH = 64
_LEAST = 50  # stays that a ridge needs

Forecaster = Callable[[ValuesProblem, int], Forecasts]


def _mamba(problem: ValuesProblem, seed: int) -> Forecasts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)
        forecaster = MambaForecaster(preset="ehr", random_state=seed).fit(problem.train)
        answer = forecaster.predict(problem.past, X_df=problem.asked)
    shape = len(problem.given.ids), HORIZON, len(problem.codes)
    point, low, high = (
        problem.standardised(answer[name].fill_null(np.nan).to_numpy().reshape(shape))
        for name in answer.columns[3:]
    )
    return Forecasts(point, low, high)


def _carried(*, single: bool) -> Forecaster:
    def forecaster(problem: ValuesProblem, seed: int) -> Forecasts:
        last = problem.carried(problem.given, single=single)
        return Forecasts(np.repeat(last[:, None], HORIZON, 1))

    return forecaster


def _ridge(problem: ValuesProblem, seed: int) -> Forecasts:
    """Fit the change of each code and step on its summaries, before the origin of set a."""
    before = problem.learned.rows.filter(pl.col("time") <= problem.given.rows["time"].max())
    past = Events(problem.learned.ids, before, from_zero=True)
    tables = [
        summarise(each, problem.reader.vocabulary, problem.reader.rules.span)
        for each in (past, problem.given)
    ]
    truth = problem.truth(problem.learned)
    change = truth - problem.carried(past, single=False)[:, None]
    points = np.repeat(problem.carried(problem.given, single=False)[:, None], HORIZON, 1)
    for at, code in enumerate(problem.codes):
        names = [name for name in tables[0].columns if name.startswith(f"{code} ")]
        x, asked = (table[names].to_numpy() for table in tables)
        for step in range(HORIZON):
            here = ~np.isnan(change[:, step, at])
            if here.sum() < _LEAST:
                continue
            model = make_pipeline(
                SimpleImputer(keep_empty_features=True),
                StandardScaler(),
                RidgeCV(np.logspace(-1, 4, 11)),
            )
            points[:, step, at] += model.fit(x[here], change[here, step, at]).predict(asked)
    return Forecasts(points)


def _gru_d(problem: ValuesProblem, seed: int) -> Forecasts:
    """Train as the networks of the forecaster are, but once on all stays."""
    torch.manual_seed(seed)
    record = Record.of(
        problem.learned.only(problem.reader.measured(problem.learned)), problem.reader
    )
    targets = Targets.of(record, HORIZON)
    steps = _EPOCHS * len(record) // _BATCH
    batches = drawn(torch.arange(len(record)), _BATCH)

    def loss(network: nn.Module) -> Tensor:
        stays = next(batches)
        place, mask = record.tokens.places(stays)
        values, seen = targets.at(place)
        seen = seen & mask[..., None, None]
        error: Tensor = ((network(record.tokens.batch(stays)) - values).abs() * seen).sum()
        return error / seen.sum()

    network = GRUDForecasts(len(problem.codes), record.tokens.statics.shape[1], HORIZON)
    # The last averaged weights are kept: nothing is chosen by an error.
    looks = iter(range(0, -steps - 2, -1))
    knobs = Training(max_steps=steps, lr=3e-3, ema_decay=0.99, eval_every=steps)
    train(network, knobs, loss, lambda network: float(next(looks)))
    there = problem.reader.measured(problem.given)
    tokens = Record.of(problem.given.only(there), problem.reader).tokens
    points = np.zeros((len(there), HORIZON, len(problem.codes)))
    with torch.no_grad():
        parts = []
        for part in torch.arange(len(tokens)).split(256):
            batch = tokens.batch(part)
            parts.append(network(batch)[torch.arange(len(part)), batch.mask.sum(1) - 1])
    points[there] = torch.cat(parts).numpy()
    return Forecasts(problem.placed(points))


FORECASTERS: dict[str, Forecaster] = {
    "MambaForecaster": _mamba,
    "GRU-D": _gru_d,
    "ridge on summaries of the code": _ridge,
    "last mean carried forward": _carried(single=False),
    "last value carried forward": _carried(single=True),
}
