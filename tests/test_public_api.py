"""The public surface is what ``__all__`` says: exact, sorted, documented."""

import importlib
import inspect
from types import ModuleType
from typing import Any

import pytest

PACKAGES = (
    "tsmamba",
    "tsmamba.anomaly",
    "tsmamba.mlflow",
    "tsmamba_datasets",
    "tsmamba_kernels",
)


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def bound_names(package: ModuleType) -> set[str]:
    """Names that a user meets in ``package``, less its submodules and ``from __future__``."""
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "") != "__future__"
        and type(value).__module__ != "__future__"
    }


def own_docstring(name: str, value: Any) -> str:
    text = (value.__doc__ or "").strip()
    # A dataclass without a docstring gets its signature as one.
    return "" if text.startswith(f"{name}(") else text


def test_all_is_sorted_and_without_repeats(package: ModuleType) -> None:
    assert list(package.__all__) == sorted(set(package.__all__))


def test_every_listed_name_exists(package: ModuleType) -> None:
    missing = [name for name in package.__all__ if not hasattr(package, name)]
    assert not missing


def test_no_public_name_is_left_out(package: ModuleType) -> None:
    assert bound_names(package) <= set(package.__all__)


def test_every_public_name_has_a_docstring(package: ModuleType) -> None:
    assert (package.__doc__ or "").strip()
    values = {name: getattr(package, name) for name in package.__all__}
    bare = [
        name
        for name, value in values.items()
        if (callable(value) or inspect.ismodule(value)) and not own_docstring(name, value)
    ]
    assert not bare
