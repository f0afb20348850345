"""A tracking server that is away, or goes away, costs seconds and no fit."""

import http.server
import os
import socket
import threading
import time

import mlflow
import pytest

from tsmamba import MambaForecaster
from tsmamba.errors import CallbackWarning
from tsmamba.mlflow import autolog
from tsmamba.mlflow import run as run_module
from tsmamba.mlflow.run import impatient

# mlflow about its own type hints, where it imports its models.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),
    pytest.mark.usefixtures("tracked"),
]


@pytest.fixture
def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


class Overloaded(http.server.BaseHTTPRequestHandler):
    """A tracking server that answers 503 to everything."""

    def answer(self):
        self.server.asked += 1
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_PATCH = answer

    def log_message(self, *about):
        """Keep the screen clear."""


@pytest.fixture
def overloaded_port():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Overloaded) as server:
        server.asked = 0
        threading.Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("port", ["closed_port", "overloaded_port"])
def test_a_server_that_does_not_answer_costs_seconds_and_one_warning(df, port, request, make):
    mlflow.set_tracking_uri(f"http://127.0.0.1:{request.getfixturevalue(port)}")
    autolog()
    began = time.perf_counter()
    with pytest.warns(CallbackWarning, match="on_fit_start failed, and the fit goes on") as caught:
        forecaster = make().fit(df)
    assert len(caught) == 1
    assert time.perf_counter() - began < 30
    assert len(forecaster.predict()) == 24


def test_a_server_that_goes_away_during_a_fit_costs_its_run(df, runs, monkeypatch, make):
    def refuse(self, run_id, metrics=(), **kwargs):
        if metrics:
            raise mlflow.MlflowException("no space left")
        send(self, run_id, metrics=metrics, **kwargs)

    send = mlflow.MlflowClient.log_batch
    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", refuse)
    monkeypatch.setattr(run_module, "_PAUSE", 0.0)
    autolog()
    with pytest.warns(CallbackWarning, match="no space left") as caught:
        make().fit(df)
    assert len(caught) == 1
    assert runs()[0].info.status == "FAILED"


def test_silent_it_does_not_even_warn(df, closed_port):
    mlflow.set_tracking_uri(f"http://127.0.0.1:{closed_port}")
    autolog(silent=True)
    MambaForecaster(24, mode="base", context_length=120).fit(df)


def test_limits_of_the_user_stand_and_ours_are_taken_back(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    with impatient(), impatient():
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"
        assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ
