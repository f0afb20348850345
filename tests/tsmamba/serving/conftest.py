"""Fitted models of each kind, and the rows that people send to them."""

import numpy as np
import polars as pl
import pytest

from tsmamba import LogDetector, MambaDetector, MambaForecaster
from tsmamba_datasets import make_seasonal

HORIZON = 12


@pytest.fixture(scope="session")
def history():
    """Two hourly series."""
    return make_seasonal(n_series=2, length=300, seed=1)


@pytest.fixture(scope="session")
def forecaster(history):
    return MambaForecaster(HORIZON, mode="base", context_length=96).fit(history)


@pytest.fixture(scope="session")
def by_step():
    """A forecaster of whole numbers as times, and its rows."""
    step = np.arange(300)
    rows = pl.DataFrame({"ds": step, "y": np.sin(step / 4) + step % 5})
    return MambaForecaster(HORIZON, mode="base").fit(rows), rows


@pytest.fixture(scope="session")
def shop():
    """A forecaster that knows prices ahead and has a covariate of text, and its rows."""
    rows = make_seasonal(n_series=2, length=400, seed=3)
    price = np.random.default_rng(0).normal(size=rows.height)
    rows = rows.with_columns(
        price=price,
        y=pl.col("y") + 5 * price,
        kind=pl.when(pl.Series(price) > 1).then(pl.lit("sale")).otherwise(pl.lit("usual")),
    )
    model = MambaForecaster(HORIZON, mode="base", future_covariates=["price", "kind"]).fit(rows)
    return model, rows


@pytest.fixture(scope="session")
def detector(history):
    return MambaDetector(memory_size=48).fit(history.filter(unique_id="s0"))


@pytest.fixture(scope="session")
def log_detector():
    return LogDetector().fit([f"job {i} done in {20 + i % 7} ms" for i in range(1_000)])
