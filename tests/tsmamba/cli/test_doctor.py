import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tsmamba_kernels
from tsmamba.cli import app, doctor

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments: str):
    return CliRunner().invoke(app, ["doctor", *arguments])


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    report = {"native": "the CPU library was not built", "reference": "available"}
    ran = {"causal_conv1d": "reference", "selective_scan": "reference"}
    monkeypatch.setattr(tsmamba_kernels, "backend_report", lambda: report | ran)


def test_the_exit_code_tells_whether_the_compiled_kernels_are_usable() -> None:
    usable = tsmamba_kernels.backend_report()["native"].startswith("available")
    assert run().exit_code == (0 if usable else 1)


def test_everything_is_shown_once() -> None:
    shown = run().stdout
    for words in ("torch", "model", "threads", "selective_scan", "library", "matplotlib"):
        assert shown.count(words) >= 1


def test_json_is_one_object() -> None:
    report = json.loads(run("--json").stdout)
    assert set(report) == {
        "versions",
        "cpu",
        "threads",
        "backends",
        "library",
        "native",
        "extras",
    }
    assert report["threads"]["torch"] >= 1
    assert report["versions"]["polars"]


@pytest.mark.usefixtures("no_library")
def test_without_the_library_the_reason_is_shown_and_the_exit_code_is_one() -> None:
    done = run()
    assert done.exit_code == 1
    assert "the CPU library was not built" in done.stdout
    assert "cannot be used" in done.stdout
    assert run("--json").exit_code == 1


def test_a_backend_forced_by_the_environment_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    if not tsmamba_kernels.backend_report()["native"].startswith("available"):
        pytest.skip("the library is not built")
    monkeypatch.setenv("TSMAMBA_BACKEND", "reference")
    done = run()
    assert done.exit_code == 0
    assert "TSMAMBA_BACKEND asks for another backend" in done.stdout


def test_a_backend_that_does_not_exist_is_shown_not_raised(monkeypatch) -> None:
    monkeypatch.setenv("TSMAMBA_BACKEND", "abacus")
    assert "no backend 'abacus'" in json.loads(run("--json").stdout)["backends"]["selective_scan"]


def test_a_missing_extra_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.EXTRAS, "plot", ("tsmamba-no-such-package",))
    assert 'not installed: pip install "tsmamba[plot]"' in run().stdout


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["optional-dependencies"]
    for extra, packages in doctor.EXTRAS.items():
        names = [entry.partition(">")[0].replace("-", "_") for entry in declared[extra]]
        assert names == list(packages)
    assert set(doctor.EXTRAS) == set(declared) - {"all", "bench", "dev"}
