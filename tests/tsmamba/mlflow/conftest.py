"""Fitted models of each kind, saved once, and what serves them without a port."""

import logging
import os
import warnings
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
from tsmamba import LogDetector, MambaDetector, MambaForecaster, Network, Training
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


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Address of an empty store; its tables take seconds to make."""
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    with warnings.catch_warnings():
        # SQLAlchemy about a loader that MLflow uses.
        warnings.filterwarnings(
            "ignore", message="The ``noload`` loader", module="mlflow|sqlalchemy"
        )
        mlflow.MlflowClient(uri).create_experiment("tests", (folder / "artifacts").as_uri())
    return uri


@pytest.fixture
def tracked(store, monkeypatch):
    """Track into the store, and leave nothing switched on."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri(store)
    mlflow.set_experiment("tests")
    yield mlflow.MlflowClient(store)
    tsmamba.mlflow.autolog(disable=True)
    assert mlflow.active_run() is None


@pytest.fixture(scope="session")
def df():
    return make_seasonal(length=1_200, seed=1).drop("unique_id")


@pytest.fixture(scope="session")
def make():
    """Return a function that makes a forecaster which trains a small network for six steps."""

    def forecaster(**kwargs):
        given = {
            "context_length": 120,
            "random_state": 0,
            "network": Network(patch_length=24, d_model=8, n_layers=1, d_state=4),
            "training": Training(max_steps=6, batch_size=8, eval_every=3),
        }
        return MambaForecaster(24, mode="full", **given | kwargs)

    return forecaster


@pytest.fixture
def runs(tracked):
    """Return a function that gives the runs since the test began, the first one first."""

    def listed():
        experiment = tracked.get_experiment_by_name("tests").experiment_id
        found = tracked.search_runs([experiment], order_by=["attributes.start_time ASC"])
        return [each for each in found if each.info.run_id not in before]

    before = ()
    before = {each.info.run_id for each in listed()}
    return listed
