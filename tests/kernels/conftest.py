"""Backends as fixtures: the laws hold for each of them."""

import os
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

# Triton's interpreter runs GPU kernels on the CPU. Triton looks at the variable while it is
# imported, for its own functions, and at every kernel's definition.
if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
    raise pytest.UsageError("something imported triton too early: set TRITON_INTERPRET=1")
os.environ["TRITON_INTERPRET"] = "1"

from tsmamba_kernels import backend_report


def _skip_unless_available(backend: str) -> str:
    reason = backend_report()[backend]
    if not reason.startswith("available"):
        pytest.skip(reason)
    return backend


@pytest.fixture
def native() -> str:
    return _skip_unless_available("native")


@pytest.fixture
def triton() -> str:
    return _skip_unless_available("triton")


@pytest.fixture(params=["native", "reference"])
def backend(request: pytest.FixtureRequest) -> str:
    return _skip_unless_available(request.param)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Return a function that sets the number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
