"""From a run to a served alias: a tracking server and a scoring server, as processes of mlflow."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import mlflow
import polars as pl
import pytest
from mlflow.exceptions import MlflowException
from polars.testing import assert_frame_equal

import tsmamba.mlflow
from tsmamba.serving.frames import score_frame

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[3] / "docs" / "mlflow.md"
START_SECONDS = 300.0


def environment(**more):
    """Return the environment of a server: quiet, and with the same packages as this process."""
    folders = [str(Path(folder).resolve()) for folder in sys.path if folder]
    quiet = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    }
    # MLflow starts uvicorn by its name, and the environment need not be activated.
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = {"PATH": programs, "PYTHONPATH": os.pathsep.join(folders)}
    return {**os.environ, **quiet, **found, **more}


@contextmanager
def server(*arguments, cwd, **more):
    """Run a server of mlflow on a free port until the block ends; give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", *arguments, "--host", "127.0.0.1"]
    log = (cwd / "server.log").open("w")
    process = subprocess.Popen(
        [*command, "--port", str(port), "--workers", "1"],
        cwd=cwd,
        env=environment(**more),
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/health", process, cwd / "server.log")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def wait_for(address, process, log):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"{address} did not come up:\n{log.read_text()[-2_000:]}")


def post(address, body):
    request = urllib.request.Request(
        f"{address}/invocations", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="session")
def tracking(tmp_path_factory):
    """A tracking server on SQLite, of this session."""
    folder = tmp_path_factory.mktemp("tracking")
    with server(
        "server",
        f"--backend-store-uri=sqlite:///{folder}/mlflow.db",
        f"--artifacts-destination={folder}/artifacts",
        cwd=folder,
    ) as address:
        before = mlflow.get_tracking_uri()
        use(address)
        yield address
        mlflow.set_tracking_uri(before)


@pytest.fixture(autouse=True)
def _tracked(tracking):
    """Track into the server, wherever the tests before did."""
    use(tracking)


def use(address):
    """Make a server the current one, and an experiment of it: MLflow remembers the number."""
    mlflow.set_tracking_uri(address)
    mlflow.set_experiment("registry")


@pytest.fixture(scope="session")
def champion(tracking, models):
    """The address of a registered forecaster, by its alias."""
    use(tracking)
    with mlflow.start_run():
        info = tsmamba.mlflow.log_model(
            models["forecaster"][0], name="model", registered_model_name="served"
        )
    version = str(info.registered_model_version)
    mlflow.MlflowClient().set_registered_model_alias("served", "champion", version)
    return "models:/served@champion"


@pytest.mark.parametrize("kind", ["forecaster", "detector", "log_detector"])
def test_a_logged_model_answers_as_it_did(tracking, models, kind):
    model, rows = models[kind]
    with mlflow.start_run() as run:
        info = tsmamba.mlflow.log_model(model, name=kind, params={"kind": kind})
    logged = mlflow.get_logged_model(info.model_id)
    assert logged.source_run_id == run.info.run_id
    assert logged.params["kind"] == kind
    expected = score_frame(model, rows)
    for address in (info.model_uri, f"runs:/{run.info.run_id}/{kind}"):
        again = tsmamba.mlflow.load_model(address)
        assert_frame_equal(score_frame(again, rows), expected, check_exact=True)
    served = mlflow.pyfunc.load_model(info.model_uri)
    assert served.predict(rows.to_pandas()).shape == expected.shape


def test_a_registered_model_is_loaded_by_its_alias(champion, models, history):
    model, _ = models["forecaster"]
    again = tsmamba.mlflow.load_model(champion)
    assert_frame_equal(again.predict(history), model.predict(history), check_exact=True)


def test_a_model_that_is_not_there_is_named(champion):
    with pytest.raises(MlflowException, match="challenger"):
        tsmamba.mlflow.load_model("models:/served@challenger")
    with pytest.raises(MlflowException, match="nothing"):
        tsmamba.mlflow.load_model("models:/nothing/1")


def test_the_code_of_the_page_runs(tracking):
    names: dict[str, object] = {}
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S))
    exec(compile(code.replace("http://127.0.0.1:5000", tracking), str(PAGE), "exec"), names)
    assert names["forecast"].equals(names["forecaster"].predict(names["history"]))


def test_an_alias_is_served(champion, tracking, models, history, tmp_path):
    rows = history.with_columns(pl.col("ds").dt.to_string("%Y-%m-%dT%H:%M:%SZ"))
    expected = models["forecaster"][0].predict(history, horizon=3)
    body = {"dataframe_records": rows.to_dicts(), "params": {"horizon": 3}}
    with server(
        *("models", "serve", "-m", champion, "--env-manager", "local"),
        cwd=tmp_path,
        MLFLOW_TRACKING_URI=tracking,
    ) as address:
        status, answer = post(address, body)
        assert status == 200
        served = [row["MambaForecaster"] for row in answer["predictions"]]
        assert served == expected["MambaForecaster"].to_list()

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: post(address, body), range(16)))
        assert answers == [(200, answer)] * 16

        epoch = history.with_columns(pl.col("ds").dt.epoch("ms")).to_dicts()
        status, refusal = post(address, {"dataframe_records": epoch})
        assert status == 400
        assert "does not say its unit and zone" in refusal["message"]
        assert "Traceback" not in refusal["message"]
        assert refusal["error_code"] == "INVALID_PARAMETER_VALUE"
