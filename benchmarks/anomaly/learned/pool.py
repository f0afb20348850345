"""The pool that one network for all series is trained on; nothing that is judged, nor its kin."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

import tsmamba_datasets as datasets
from benchmarks.anomaly.learned.judged import side_of
from benchmarks.anomaly.problem import filled
from benchmarks.anomaly.sets import find_set
from tools.pool import make_series
from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.anomaly.plan import plan_for
from tsmamba.anomaly.units import Units

_MOST_ROWS, _LEAST_ROWS = 20_000, 1_000
_FARTHEST = 20.0
_LEAST_VALUES = 20  # fewer are switches and constants
_SEASONS = (24, 48, 96, 200, 288)
_SYNTHETIC = 20  # of each season


class Member(NamedTuple):
    """A series as a corrector reads it.

    Attributes
    ----------
    group : str
        Where it is from.
    tokens : ndarray of shape (n, 3), float32
        Row before, what the autoregression missed there, and what it expects.
    target : ndarray of shape (n, 1), float32
        What it will miss.
    """

    group: str
    tokens: np.ndarray
    target: np.ndarray


def members() -> Iterator[Member]:
    """Read the pool, series by series."""
    for group, columns in _GROUPS.items():
        for values in columns():
            if len(values) >= _LEAST_ROWS:
                yield Member(group, *tokens_of(values[:_MOST_ROWS]))


def tokens_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit an autoregression on the first half of a series and lay out what it leaves over.

    Parameters
    ----------
    values : ndarray of shape (T,)
        Without gaps.

    Returns
    -------
    tokens, target : ndarray
        As of a `Member`.
    """
    half = len(values) // 2
    rows = Units.of(values[:half, None]).apply(values[:, None])
    ar = Autoregression.of(rows[:half], plan_for(rows[:half]).order)
    residuals = ar.residuals(rows)
    scaled = residuals / max(float(residuals[: half - ar.order].std()), 1e-6)
    rows = rows[ar.order :]
    tokens = np.concatenate([rows[:-1], scaled[:-1], (rows - residuals)[1:]], axis=1)
    cut = (np.clip(part, -_FARTHEST, _FARTHEST) for part in (tokens, scaled[1:]))
    first, second = (part.astype(np.float32) for part in cut)
    return first, second


def _columns(frame: pl.DataFrame) -> Iterator[np.ndarray]:
    """Return the columns that move."""
    values = frame.select(pl.selectors.numeric().exclude("ds", "label", "class").cast(pl.Float64))
    for column in filled(values.fill_null(np.nan).to_numpy()).T:
        if len(np.unique(column)) >= _LEAST_VALUES:
            yield column


def _ucr() -> Iterator[np.ndarray]:
    for name in find_set("UCR").names():
        if side_of("UCR", name) == "pool":
            yield from _columns(datasets.fetch_ucr_anomaly(int(name))[0].drop("unique_id"))


def _machines() -> Iterator[np.ndarray]:
    for name in find_set("ASD").names():
        yield from _columns(datasets.fetch_asd(name)[0])
    for name in find_set("SMD").names():
        yield from _columns(datasets.fetch_smd(name)[0])


def _spacecraft() -> Iterator[np.ndarray]:
    for problem in find_set("SMAP/MSL").problems():
        yield from _columns(pl.DataFrame(problem.train))


def _sensors() -> Iterator[np.ndarray]:
    yield from _columns(datasets.fetch_gecco2018()[0].gather_every(3))
    for problem in find_set("oil wells").problems():
        yield from _columns(pl.DataFrame(problem.train))


def _forecasting() -> Iterator[np.ndarray]:
    frames = (
        datasets.fetch_ett("ETTh1"),
        datasets.fetch_ett("ETTm1"),
        datasets.fetch_vic_electricity(),
        datasets.fetch_air_quality_valencia(),
        datasets.fetch_bike_sharing(),
        datasets.fetch_trail_counter(),
        datasets.fetch_beijing_pm25(),
        datasets.fetch_exchange_rate(),
    )
    for frame in frames:
        yield from _columns(frame)


def _synthetic() -> Iterator[np.ndarray]:
    for seed, season in enumerate(_SEASONS):
        made = make_series(seed, season, n_series=_SYNTHETIC)
        for series in made.partition_by("unique_id", maintain_order=True):
            yield series["y"].to_numpy()


_GROUPS: dict[str, Callable[[], Iterator[np.ndarray]]] = {
    "UCR": _ucr,
    "machines": _machines,
    "spacecraft": _spacecraft,
    "sensors": _sensors,
    "forecasting": _forecasting,
    "synthetic": _synthetic,
}
