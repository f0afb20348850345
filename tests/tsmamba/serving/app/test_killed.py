"""The guarantee: a service killed at any moment goes on from its checkpoint, with equal answers."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from starlette.testclient import TestClient

from tsmamba.serving.app.application import create_app
from tsmamba.serving.app.models import FileModel
from tsmamba.serving.app.service import Service

COMMAND = [sys.executable, "-c", "from tsmamba.cli import main; main()", "serve"]


class Process:
    """The command, on a port of its choice."""

    def __init__(self, model, checkpoint, errors, every="0.2"):
        self.errors = errors
        arguments = [str(model), "--port", "0", "--checkpoint", str(checkpoint)]
        with errors.open("wb") as err:
            self.running = subprocess.Popen(
                [*COMMAND, *arguments, "--checkpoint-every", every], stderr=err
            )
        self.url = self.wait_for(r"is served at (\S+)\n")

    def wait_for(self, pattern, seconds=120.0):
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.errors.read_text())) is None:
            assert self.running.poll() is None, self.errors.read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        return found[1]

    def wait_for_a_checkpoint(self, seconds=60.0):
        end = time.monotonic() + seconds
        while b"\ntsmamba_last_checkpoint_timestamp_seconds 0.0\n" in self.metrics():
            assert time.monotonic() < end
            time.sleep(0.05)

    def metrics(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            return answer.read()

    def post(self, body):
        request = urllib.request.Request(
            f"{self.url}/score", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def end(self, number):
        self.running.send_signal(number)
        return self.running.wait(60)


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the command; none outlives the test."""
    started = []

    def of(model, checkpoint):
        started.append(Process(model, checkpoint, tmp_path / f"errors {len(started)}"))
        return started[-1]

    yield of
    for process in started:
        process.running.kill()
        process.running.wait()


def parts_of(kind, make_rows, log_lines):
    """Return requests in their order."""
    if kind == "pumps":
        both = zip(make_rows("a", 120), make_rows("b", 120, seed=3), strict=True)
        rows = [row for moment in both for row in moment]
        return [{"rows": rows[i : i + 24]} for i in range(0, 240, 24)]
    return [
        {"lines": log_lines[i : i + 100], "stream": "web", "first": i + 1}
        for i in range(0, 1_000, 100)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pumps", "app_log"])
def test_rows_sent_again_after_a_kill_get_the_answers_they_had(
    start, request, kind, make_rows, log_lines, tmp_path
):
    request.getfixturevalue(kind).save(tmp_path / "model")
    parts = parts_of(kind, make_rows, log_lines)
    first = start(tmp_path / "model", tmp_path / "state")
    before = [first.post(part) for part in parts[:4]]
    first.wait_for_a_checkpoint()
    before += [first.post(part) for part in parts[4:7]]
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = start(tmp_path / "model", tmp_path / "state")
    again = [second.post(part) for part in parts]
    # What the checkpoint holds is not scored twice; all after it has the answers it had.
    kept = sum(answer["accepted"] == 0 for answer in again)
    assert 1 <= kept <= 7
    assert all(answer["duplicates"] == 0 for answer in again[kept:])
    assert again[kept:7] == before[kept:]
    assert second.end(signal.SIGTERM) == 0
    ended = Service(FileModel(tmp_path / "model"), checkpoint=tmp_path / "state")
    with TestClient(create_app(ended)) as client:
        assert all(client.post("/score", json=part).json()["accepted"] == 0 for part in parts)
    assert "Traceback" not in second.errors.read_text()
