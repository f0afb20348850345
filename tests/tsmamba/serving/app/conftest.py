"""Small models of each class, and clients of applications that serve them."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

from tsmamba import LogDetector, MambaDetector, MambaForecaster
from tsmamba.errors import ModelFileError
from tsmamba.serving.app.application import create_app
from tsmamba.serving.app.service import Service
from tsmamba_datasets import make_seasonal, make_service_logs

CHANNELS = ("flow", "heat")
START = datetime(2026, 3, 1, tzinfo=UTC)


def pump_values(n, seed=0):
    """Return noisy waves of 16 rows, of which a few are odd."""
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * np.arange(n)[:, None] / 16 + np.arange(2)
    values = np.sin(phase) + 0.05 * rng.normal(size=(n, 2))
    values[n // 2 : n // 2 + 4] += 3.0
    return values


def pump_rows(series, n, seed=0, start=0):
    """Return rows of one pump as they are sent, one a minute, one value missing."""
    values = pump_values(n, seed).tolist()
    values[n // 3][0] = None
    return [
        {
            "series": series,
            "time": (START + timedelta(minutes=start + i)).isoformat(),
            "values": dict(zip(CHANNELS, row, strict=True)),
        }
        for i, row in enumerate(values)
    ]


@pytest.fixture(scope="session")
def make_rows():
    return pump_rows


@pytest.fixture(scope="session")
def make_pumps():
    """Return a function that fits a detector of pumps on minutes without a zone."""

    def fitted(seed=0, **parameters):
        times = [START.replace(tzinfo=None) + timedelta(minutes=i) for i in range(400)]
        frame = pl.DataFrame(pump_values(400, seed), schema=list(CHANNELS))
        detector = MambaDetector(**{"memory_size": 48} | parameters)
        return detector.fit(frame.with_columns(ds=pl.Series(times)))

    return fitted


@pytest.fixture(scope="session")
def pumps(make_pumps):
    return make_pumps()


@pytest.fixture(scope="session")
def log_lines():
    """Lines of a service on another day than that of the fit, with faults."""
    return make_service_logs(days=1, seed=1, faults=True)["line"].to_list()[2_000:3_500]


@pytest.fixture(scope="session")
def app_log():
    """A detector of lines."""
    lines = make_service_logs(days=1, seed=0)["line"].to_list()[:4_000]
    return LogDetector(stream_by=("service",), false_alarm_rate=1e-4).fit(lines)


@pytest.fixture(scope="session")
def history():
    return make_seasonal(n_series=2, length=400, seed=1)


@pytest.fixture(scope="session")
def load(history):
    """A forecaster of the linear base alone."""
    return MambaForecaster(12, mode="base", context_length=96).fit(history)


class Shelf:
    """A source of models whose newest version a test chooses; a version may be missing."""

    name = "shelf"
    alias = "champion"

    def __init__(self, *models):
        self.models = {str(number): model for number, model in enumerate(models, start=1)}
        self.version = "1"

    def newest(self):
        return self.version

    def load(self, version):
        if version not in self.models:
            raise ModelFileError(f"there is no version {version}")
        return self.models[version]


@pytest.fixture(scope="session")
def shelf():
    return Shelf


@pytest.fixture
def serve(shelf):
    """Return a function from a model or a service to a client of it, started and ended."""
    with ExitStack() as stack:

        def started(model, **options):
            service = model if isinstance(model, Service) else Service(shelf(model))
            return stack.enter_context(TestClient(create_app(service, **options)))

        yield started


@pytest.fixture(scope="session")
def metric():
    """Return a function that reads one number off the page of metrics."""

    def of(client, name):
        lines = client.get("/metrics").text.splitlines()
        [value] = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")]
        return float(value)

    return of
