"""The pool of series that the bundled corrector is trained on.

Real sets with licences that allow it, none of which is a set of the forecasting benchmark, and
synthetic families of trend, season, regime and noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

import tsmamba_datasets as datasets

_LEAST_STEPS = 3_000
_MOST_STEPS = 40_000
_SERVERS = (1, 2, 4, 5, 7, 8, 10, 11)


@dataclass(frozen=True)
class Member:
    """One set of the pool.

    Parameters
    ----------
    name, licence : str
        For the model card.
    season : int
        Season in steps.
    read : callable
        Returns a long frame ``unique_id, ds, y`` with integer steps.
    """

    name: str
    licence: str
    season: int
    read: Callable[[], pl.DataFrame]


def members(seed: int) -> list[Member]:
    """Return the pool; the seed is that of the synthetic series."""
    return [*real_members(), *synthetic_members(seed)]


def real_members() -> list[Member]:
    """Return the real sets."""
    return [
        Member("air_quality_valencia", "open data, BSD-3 copy", 24, _valencia),
        Member("bike_sharing", "CC BY 4.0", 24, _bikes),
        Member("trail_counter", "open data, BSD-3 copy", 24, _trail),
        Member("nab", "MIT-style", 288, _nab),
        Member("smd", "MIT", 480, _smd),
        Member("asd", "MIT", 288, _asd),
        Member("gecco2018", "MIT copy", 288, _gecco),
    ]


def synthetic_members(seed: int) -> list[Member]:
    """Return the synthetic families, one for each season."""
    return [
        Member(f"synthetic {season}", "made here", season, partial(make_series, seed + n, season))
        for n, season in enumerate((24, 48, 96, 288))
    ]


def _valencia() -> pl.DataFrame:
    return _long(datasets.fetch_air_quality_valencia().drop("direc."))


def _bikes() -> pl.DataFrame:
    frame = datasets.fetch_bike_sharing()
    return _long(frame.select("ds", "users", "temp", "hum", "windspeed"))


def _trail() -> pl.DataFrame:
    return _long(datasets.fetch_trail_counter().drop("total"))


def _nab() -> pl.DataFrame:
    frame = datasets.fetch_nab().filter(pl.len().over("unique_id") >= _LEAST_STEPS)
    step = pl.int_range(pl.len()).over("unique_id").alias("ds")
    return frame.select("unique_id", step, "y")


def _smd() -> pl.DataFrame:
    # By the minute two days are longer than the recent window; every third minute fits.
    return _long(_thinned(datasets.fetch_smd()[0], 3))


def _asd() -> pl.DataFrame:
    frames = [_long(datasets.fetch_asd(f"omi-{n}")[0], f"omi-{n} ") for n in _SERVERS]
    return pl.concat(frames)


def _gecco() -> pl.DataFrame:
    return _long(_thinned(datasets.fetch_gecco2018()[0], 5))


def _thinned(frame: pl.DataFrame, every: int) -> pl.DataFrame:
    return frame.gather_every(every)


def _long(frame: pl.DataFrame, prefix: str = "") -> pl.DataFrame:
    """Lay the columns that move one below the other, on integer steps."""
    frame = frame.tail(_MOST_STEPS)
    parts = []
    for name in frame.columns:
        if name in ("ds", "label", "unique_id") or not frame[name].dtype.is_numeric():
            continue
        values = frame[name].cast(pl.Float64)
        if values.n_unique() < 20:  # switches and constants
            continue
        parts.append(
            pl.DataFrame({"ds": np.arange(len(values)), "y": values}).select(
                pl.lit(prefix + name).alias("unique_id"), "ds", "y"
            )
        )
    return pl.concat(parts)


def make_series(seed: int, season: int, n_series: int = 24, length: int = 12_000) -> pl.DataFrame:
    """Make series of a family each: season, week, trend, regimes, noise, mixed at random.

    Parameters
    ----------
    seed : int
        Of the random numbers.
    season : int
        Steps of a day.
    n_series, length : int
        How many, and steps of each.

    Returns
    -------
    polars.DataFrame
        Columns unique_id, ds, y.
    """
    rng = np.random.default_rng(seed)
    parts = [
        pl.DataFrame({"ds": np.arange(length), "y": y}).select(
            pl.lit(f"s{n}").alias("unique_id"), "ds", "y"
        )
        for n, y in enumerate(_family(rng, season, length) for _ in range(n_series))
    ]
    return pl.concat(parts)


def _family(rng: np.random.Generator, season: int, length: int) -> np.ndarray:
    """Return one series: a smooth daily shape that drifts, a week, slow level, noise, regimes."""
    t = np.arange(length)
    daily = _shape(rng, t / season, harmonics=4)
    other = _shape(rng, t / season, harmonics=4)
    week = (t // season) % 7
    weekend = np.isin(week, rng.choice(7, 2, replace=False))
    drift = 0.5 + 0.5 * np.sin(2 * np.pi * (t / length * rng.uniform(0.3, 2) + rng.uniform()))
    y = rng.gamma(2.0) * (daily * drift + other * (1 - drift))
    y = np.where(weekend, rng.uniform(0.2, 1.0) * y - rng.uniform(0, 1), y)
    y = y + rng.uniform(0, 2) * _autoregression(rng, length, rng.uniform(0.98, 0.9995))
    y = y + rng.uniform(0, 1) * _regimes(rng, length)
    noise = _autoregression(rng, length, rng.uniform(0, 0.8))
    spread = np.exp(rng.uniform(0, 0.7) * daily) if rng.uniform() < 0.5 else 1.0
    y = y + rng.uniform(0.1, 1.0) * noise * spread
    if rng.uniform() < 0.3:  # counts and loads are skewed and positive
        y = np.exp(0.5 * y / y.std())
    if rng.uniform() < 0.3:
        y = np.maximum(y, np.quantile(y, rng.uniform(0, 0.4)))
    return y


def _shape(rng: np.random.Generator, days: np.ndarray, harmonics: int) -> np.ndarray:
    total = np.zeros_like(days)
    for k in range(1, harmonics + 1):
        total += rng.normal() / k * np.sin(2 * np.pi * (k * days + rng.uniform()))
    return total


def _autoregression(rng: np.random.Generator, length: int, root: float) -> np.ndarray:
    from scipy.signal import lfilter

    draws = rng.standard_t(5, length) * np.sqrt(1 - root**2)
    path: np.ndarray = lfilter([1.0], [1.0, -root], draws)
    return path


def _regimes(rng: np.random.Generator, length: int) -> np.ndarray:
    """Return levels that hold for a while and then jump."""
    changes = rng.uniform(size=length) < rng.uniform(1, 12) / length
    levels: np.ndarray = rng.normal(size=changes.sum() + 1)[np.cumsum(changes)]
    return levels
