"""Fitted models of each kind, saved once, and what serves them without a port."""

import logging
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

# Before the first import of mlflow, which reads them then.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"
os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"

pytest.importorskip("mlflow")

import mlflow.pyfunc
from fastapi.testclient import TestClient
from mlflow.pyfunc import scoring_server

import tsmamba.mlflow
from tsmamba import LogDetector, MambaDetector, MambaForecaster
from tsmamba_datasets import make_seasonal

KINDS = ("forecaster", "detector", "log_detector")


@pytest.fixture(scope="session")
def history():
    """Two hourly series."""
    return make_seasonal(n_series=2, length=300, seed=1)


@pytest.fixture(scope="session")
def models(history):
    """One fitted model of each kind, by name, and rows for it."""
    lines = [f"job {i} done in {20 + i % 7} ms" for i in range(1_000)]
    rows = history.filter(unique_id="s0")
    made = {
        "forecaster": MambaForecaster(12, mode="base", context_length=96).fit(history),
        "detector": MambaDetector(memory_size=48).fit(rows),
        "log_detector": LogDetector().fit(lines),
    }
    sent = {
        "forecaster": history,
        "detector": history,
        "log_detector": pl.DataFrame({"line": [*lines[:5], "disk failed"]}),
    }
    return {kind: (made[kind], sent[kind]) for kind in KINDS}


@pytest.fixture(scope="session")
def saved(models, tmp_path_factory):
    """Return a function from the kind of a model to the folder that it was saved in."""
    folders: dict[str, Path] = {}

    def folder_of(kind):
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp("saved") / kind
            tsmamba.mlflow.save_model(models[kind][0], folders[kind])
        return folders[kind]

    return folder_of


@pytest.fixture(scope="session")
def client(saved):
    """The scoring server of mlflow around the forecaster, without a port."""
    app = scoring_server.init(mlflow.pyfunc.load_model(str(saved("forecaster"))))
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="session")
def by_step():
    """A forecaster of whole numbers as times, and its rows."""
    step = np.arange(200)
    rows = pl.DataFrame({"ds": step, "y": np.sin(step / 4) + step % 5})
    return MambaForecaster(6, mode="base").fit(rows), rows


@pytest.fixture(autouse=True)
def _quiet():
    """Let mlflow warn of what these tests do on purpose without a word."""
    logger = logging.getLogger("mlflow")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)
