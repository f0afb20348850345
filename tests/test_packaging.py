"""What an installed tsmamba looks like from outside: names, typing marks, imports, library."""

import importlib
import importlib.util
import json
import os
import time
from pathlib import Path

import pytest
import torch

import tsmamba_kernels

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tsmamba", "tsmamba_datasets", "tsmamba_kernels")
LAZY = (
    "confluent_kafka",
    "lightning",
    "matplotlib",
    "mlflow",
    "optuna",
    "pandas",
    "pooch",
    "pyarrow",
    "pytorch_forecasting",
    "triton",
)
IMPORT_SECONDS = 60.0


@pytest.mark.parametrize("folder", ["kernels", "datasets"])
def test_source_root_is_no_package(folder: str) -> None:
    """With an ``__init__.py`` the folder would hide the Hugging Face package of its name."""
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize("name", ["kernels", "datasets"])
def test_hugging_face_name_is_not_ours(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return
    assert not Path(spec.origin).resolve().is_relative_to(ROOT / name)


@pytest.mark.parametrize("name", PACKAGES)
def test_package_is_marked_as_typed(name: str) -> None:
    package = importlib.import_module(name)
    assert any((Path(folder) / "py.typed").is_file() for folder in package.__path__)


def test_import_is_lean_and_quick(run_python) -> None:
    """scikit-learn itself loads pandas where that is installed; tsmamba adds nothing to it."""
    code = f"""
import json, sys
import sklearn.base
before = set(sys.modules)
import tsmamba
print(json.dumps([name for name in {LAZY!r} if name in sys.modules and name not in before]))
"""
    started = time.perf_counter()
    done = run_python("-W", "error", "-c", code)
    seconds = time.perf_counter() - started
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout) == []
    assert seconds < IMPORT_SECONDS


@pytest.mark.parametrize("name", PACKAGES)
def test_import_works_without_optional_packages(name: str, run_python) -> None:
    """An entry of None in ``sys.modules`` makes the import fail as if nothing were installed."""
    done = run_python(
        "-c", f"import sys; sys.modules.update(dict.fromkeys({LAZY!r})); import {name}"
    )
    assert done.returncode == 0, done.stderr


def test_compiled_library_is_used() -> None:
    """A built library must be found and chosen; CI demands that there is one."""
    native = tsmamba_kernels.backend_report()["native"]
    if not native.startswith("available"):
        if os.environ.get("TSMAMBA_REQUIRE_NATIVE") == "1":
            pytest.fail(native)
        pytest.skip(native)
    with tsmamba_kernels.use_backend("auto"):
        tsmamba_kernels.causal_conv1d(torch.ones(1, 3, 1), torch.ones(1, 2))
    assert tsmamba_kernels.backend_report()["causal_conv1d"] == "native"
