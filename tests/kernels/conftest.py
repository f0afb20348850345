"""Backends as fixtures: the laws hold for each of them."""

import pytest

from tsmamba_kernels import backend_report


def _skip_without_library() -> None:
    reason = backend_report()["native"]
    if not reason.startswith("available"):
        pytest.skip(reason)


@pytest.fixture
def native() -> str:
    _skip_without_library()
    return "native"


@pytest.fixture(params=["native", "reference"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        _skip_without_library()
    return request.param
