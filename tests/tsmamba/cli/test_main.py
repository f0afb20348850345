import time

import pytest
from typer.testing import CliRunner

import tsmamba
from tsmamba.cli import app, main

HEAVY = (
    "torch",
    "numpy",
    "polars",
    "sklearn",
    "matplotlib",
    "pandas",
    "pyarrow",
    "fastapi",
    "mlflow",
)
SECONDS = 10.0  # measured at half a second on two cores; a busy machine gets more


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["forecast", "--help"],
        ["detect", "--help"],
        ["advise", "--help"],
        ["serve", "--help"],
        ["--version"],
    ],
)
def test_help_loads_no_heavy_package(run_python, arguments: list[str]) -> None:
    code = f"""
import sys
from tsmamba.cli import main
try:
    main({arguments!r})
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    started = time.perf_counter()
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "[]\n"
    assert time.perf_counter() - started < SECONDS


def test_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"tsmamba {tsmamba.__version__}\n"


@pytest.mark.parametrize("command", ["advise", "bench", "detect", "doctor", "forecast", "serve"])
def test_every_command_is_listed(command: str) -> None:
    assert f" {command} " in CliRunner().invoke(app, ["--help"]).stdout


def test_no_argument_shows_the_help() -> None:
    assert "Commands" in CliRunner().invoke(app, []).output


def test_an_unknown_command_is_exit_code_two() -> None:
    assert CliRunner().invoke(app, ["predict"]).exit_code == 2


def test_main_takes_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("tsmamba ")
