"""Panels and stores of plain arrays, for tests below the level of frames."""

import numpy as np
import polars as pl
import pytest

from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore


def panel_of(*series):
    """Return the panel of arrays of values, one series each, at integer stamps."""
    parts = [
        pl.DataFrame({"ds": range(len(values)), "y": np.asarray(values, dtype=float)}).with_columns(
            unique_id=pl.lit(f"s{number}")
        )
        for number, values in enumerate(series)
    ]
    return read_panel(pl.concat(parts), freq=1)


@pytest.fixture(scope="session")
def make_panel():
    return panel_of


@pytest.fixture(scope="session")
def make_store():
    """Return a function from arrays of values, and perhaps a season, to their store."""

    def store_of(*series, season=1):
        return WindowStore(panel_of(*series), season)

    return store_of
