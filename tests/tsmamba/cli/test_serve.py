"""The command before it serves: what it refuses, and what it says. test_killed.py runs it."""

import socket
import sys

import pytest
from typer.testing import CliRunner

import tsmamba
from tsmamba.cli import app

pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A detector of single rows."""
    path = tmp_path_factory.mktemp("model") / "rows.tsm"
    tsmamba.MambaDetector("tiny").fit([[float(i % 5)] for i in range(50)]).save(path)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def test_the_address_is_told_once_it_is_open(model, monkeypatch):
    seen = []

    def run_for_no_time(server, sockets):
        assert sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        # Without it, answers wait 40 ms for the acknowledgement of their head.
        assert sockets[0].proto == socket.IPPROTO_TCP
        seen.append(sockets[0].getsockname())

    monkeypatch.setattr("uvicorn.Server.run", run_for_no_time)
    done = run(model, "--port", 0)
    assert done.exit_code == 0, done.output
    [(host, port)] = seen
    assert host == "127.0.0.1"
    assert done.stderr.startswith("note: rows.tsm, version ")
    assert done.stderr.endswith(f" is served at http://127.0.0.1:{port}\n")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.tsm"], "cannot read 'missing.tsm': No such file"),
        (["models:/pumps"], "'models:/pumps' names no registered model; give models:/NAME@ALIAS"),
        (["{model}", "--checkpoint", "no/folder/state"], "there is no folder 'no/folder'"),
        (["{model}", "--host", "192.0.2.1"], "192.0.2.1 port 0 cannot be served on (Cannot assign"),
    ],
)
def test_what_cannot_be_served_is_refused(model, arguments, message):
    done = run(*[argument.format(model=model) for argument in arguments], "--port", 0)
    assert done.exit_code == 2
    assert f"error: {message}" in done.stderr


def test_a_port_that_is_taken_is_refused(model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(model, "--port", port)
    assert done.exit_code == 2
    assert f"error: 127.0.0.1 port {port} cannot be served on (Address already" in done.stderr


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "prometheus_client"])
def test_what_is_not_installed_is_told(model, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    done = run(model, "--port", 0)
    assert done.exit_code == 2
    assert 'pip install "tsmamba[serve]"' in done.stderr
