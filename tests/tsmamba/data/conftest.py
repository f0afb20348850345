"""Frames of several series, for tests of what reads them."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest


@pytest.fixture(scope="session")
def long_frame():
    """Return a function from the lengths of series by id to their frame."""

    def frame_of(lengths, every="1h", start=datetime(2024, 1, 1)):
        parts = []
        for key, length in lengths.items():
            end = start + timedelta(days=40_000)
            ds = pl.datetime_range(start, end, every, eager=True).head(length)
            parts.append(pl.DataFrame({"unique_id": [key] * length, "ds": ds}))
        frame = pl.concat(parts)
        return frame.with_columns(y=pl.int_range(pl.len()).cast(pl.Float64).sin() * 10 + 100)

    return frame_of


@pytest.fixture(scope="session")
def shop_frame(long_frame):
    """Return a function from the lengths of series to a frame with covariates of every kind."""

    def frame_of(lengths, seed=0):
        frame = long_frame(lengths)
        rng = np.random.default_rng(seed)
        price = rng.normal(5, 2, frame.height)
        sky = rng.choice(["blue", "grey", "dark"], frame.height)
        return frame.with_columns(
            price=pl.Series(price),
            promo=pl.Series(rng.random(frame.height) < 0.3),
            sky=pl.Series(sky),
            staff=pl.Series(rng.integers(1, 9, frame.height)),
            site=pl.col("unique_id").replace_strict({key: key[0] for key in lengths}),
            size=pl.col("unique_id").replace_strict({key: len(key) for key in lengths}),
        )

    return frame_of
