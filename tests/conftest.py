"""What every test may rely on: seeds, threads, devices, uninitialised memory, fresh processes."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

# Threads that spin while they wait starve every other process of a machine that tests share.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

SEED = 20240229


class RunPython(Protocol):
    """Run this interpreter anew in an empty folder and hand back what it printed."""

    def __call__(
        self, *arguments: str, timeout: float = 120.0, **environment: str
    ) -> subprocess.CompletedProcess[str]: ...


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, what this machine cannot run."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    if item.get_closest_marker("network") and os.environ.get("TSMAMBA_NETWORK") != "1":
        pytest.skip("needs the network: set TSMAMBA_NETWORK=1")
    if item.get_closest_marker("data") and not os.environ.get("TSMAMBA_DATA"):
        pytest.skip("needs the shared data sets: set TSMAMBA_DATA to their folder")


@pytest.fixture(scope="session", autouse=True)
def _threads() -> None:
    """Two threads: enough to run the parallel code, few enough for a shared machine."""
    torch.set_num_threads(min(2, os.cpu_count() or 1))


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  scikit-learn's checks draw from the global state
    torch.manual_seed(SEED)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def data_dir() -> Path:
    """Folder of the shared data sets; use it with the marker ``data``."""
    return Path(os.environ["TSMAMBA_DATA"])


@pytest.fixture
def poisoned_empty() -> Iterator[None]:
    """Fill what ``torch.empty`` and its relatives return with NaN, or the largest integer.

    A kernel that leaves part of its output unwritten usually finds zeros there and passes. Torch
    fills memory itself in its deterministic mode, which also covers ``empty_like`` and
    ``new_empty`` and calls made below Python.
    """
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    if not torch.empty(8).isnan().all():
        pytest.fail("torch no longer fills uninitialised memory in deterministic mode")
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Return a function that runs this interpreter in an empty folder.

    Away from the repository root nothing is found by accident of the working folder.
    """

    def run(
        *arguments: str, timeout: float = 120.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "MPLBACKEND": "Agg", **environment}
        if env.get("PYTHONPATH"):
            folders = env["PYTHONPATH"].split(os.pathsep)
            env["PYTHONPATH"] = os.pathsep.join(str(Path(folder).resolve()) for folder in folders)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=env,
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
