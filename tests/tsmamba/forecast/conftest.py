"""Small series, and forecasters of every kind that are quickly fitted on them."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest
import torch

from tsmamba import MambaForecaster, Network, Training
from tsmamba.forecast.correction import Correction
from tsmamba.forecast.network import Corrector
from tsmamba.forecast.pretrained import pretrained_corrector
from tsmamba_datasets import make_seasonal

HORIZON = 24


@pytest.fixture(scope="session")
def seasonal():
    """Two hourly series of different lengths."""
    frame = make_seasonal(n_series=2, length=2_400, seed=1)
    last = pl.col("unique_id") == frame["unique_id"][-1]
    return frame.filter(~last | (pl.int_range(pl.len()).over("unique_id") < 1_800))


@pytest.fixture(scope="session")
def train(seasonal):
    """All but the last two days of each of them."""
    rank = pl.int_range(pl.len()).over("unique_id")
    return seasonal.filter(rank < pl.len().over("unique_id") - 48)


@pytest.fixture(scope="session")
def test(seasonal, train):
    return seasonal.join(train, on=["unique_id", "ds"], how="anti", maintain_order="left")


@pytest.fixture(scope="session")
def hourly():
    """One short hourly series without ids."""
    return make_seasonal(length=400, seed=2).drop("unique_id")


@pytest.fixture(scope="session")
def base():
    """Return a function that makes a forecaster of the linear base alone."""

    def make(horizon=HORIZON, **kwargs):
        return MambaForecaster(horizon, mode="base", **{"context_length": 120} | kwargs)

    return make


@pytest.fixture(scope="session")
def small():
    """Return a function that makes a forecaster with a small corrector, trained for some steps."""

    def make(horizon=HORIZON, **kwargs):
        given = {
            "context_length": 120,
            "random_state": 0,
            "network": Network(patch_length=24, d_model=8, n_layers=1, d_state=4),
            "training": Training(max_steps=12, batch_size=32, eval_every=4),
        }
        return MambaForecaster(horizon, mode="full", **given | kwargs)

    return make


@pytest.fixture(scope="session")
def fast():
    """Return a function that makes a forecaster with the bundled corrector."""

    def make(horizon=HORIZON, **kwargs):
        return MambaForecaster(horizon, **{"context_length": 120} | kwargs)

    return make


@pytest.fixture(scope="session")
def linear(base, train):
    return base().fit(train)


@pytest.fixture(scope="session")
def full(small, train):
    return small().fit(train)


@pytest.fixture
def any_corrector(monkeypatch):
    """Make the bundled corrector a random one that no gate holds back.

    Laws of forecasts must hold whatever the weights are, and whether they help or not.
    """
    torch.manual_seed(0)
    corrector = Corrector(pretrained_corrector().config)
    torch.nn.init.normal_(corrector.head.weight, std=0.1)
    corrector.eval().requires_grad_(False)
    monkeypatch.setattr("tsmamba.forecast.estimator.pretrained_corrector", lambda: corrector)

    def gate(correction, corrector, windows, **kwargs):
        return torch.ones(correction.horizon), 1.0, 0.5

    monkeypatch.setattr(Correction, "gate", gate)
    return corrector


@pytest.fixture
def any_training(any_corrector, monkeypatch):
    """Let training end at random weights, not at those of the least error, which may do nothing."""
    train = Correction.train

    def train_and_shake(correction, corrector, *args):
        history = train(correction, corrector, *args)
        torch.nn.init.normal_(corrector.head.weight, std=0.1)
        return history

    monkeypatch.setattr(Correction, "train", train_and_shake)


@pytest.fixture(scope="session")
def shop():
    """Two hourly series with covariates of each role, of which heat and days off explain much."""

    def series(key, length, seed):
        rng = np.random.default_rng(seed)
        heat = rng.normal(size=length)
        for step in range(1, length):
            heat[step] += 0.9 * heat[step - 1]
        heat /= 2.3
        sky = np.repeat(rng.choice(["blue", "grey", "dark"], length // 24 + 1), 24)[:length]
        hours = pl.datetime_range(datetime(2024, 1, 1), datetime(2025, 1, 1), "1h", eager=True)
        y = (
            2 * np.sin(2 * np.pi * np.arange(length) / 24)
            + 1.5 * np.abs(heat)
            - 1.2 * (sky == "dark")
        )
        return pl.DataFrame(
            {
                "unique_id": [key] * length,
                "ds": hours.head(length),
                "y": 100 + 10 * (y + 0.3 * rng.normal(size=length)),
                "heat": heat,
                "sky": sky,
                "noise": rng.normal(size=length),
                "flow": rng.normal(size=length),
                "site": [f"north {key}"] * length,
            }
        )

    return pl.concat([series("a", 1_000, 0), series("b", 800, 1)])


@pytest.fixture(scope="session")
def predictable():
    """A series that a linear map of its past cannot forecast and a network can.

    Every day is one of two shapes, and the sign of the product of two marks says which.
    """
    rng = np.random.default_rng(0)
    marks = rng.choice([-1.0, 1.0], size=(500, 2))
    day = np.zeros((500, 24))
    day[:, 0], day[:, 6] = marks[:, 0] * 3, marks[:, 1] * 3
    day[:, 12:] = (marks[:, 0] * marks[:, 1])[:, None] * 3
    day += 0.1 * rng.normal(size=day.shape)
    return pl.DataFrame({"ds": range(day.size), "y": day.ravel()})
