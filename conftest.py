"""Rules for every test of the repository, doctests included."""

import os

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Examples of functions that fetch data run where the data are, and nowhere else."""
    fetches = isinstance(item, pytest.DoctestItem) and "._fetch" in item.name
    if fetches and not os.environ.get("TSMAMBA_DATA"):
        pytest.skip("needs the shared data sets: set TSMAMBA_DATA to their folder")
