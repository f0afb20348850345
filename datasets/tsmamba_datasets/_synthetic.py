"""make_*: seeded series whose structure is known, for tests, examples and checks of memory.

Each series draws from its own generator, seeded by (seed, series number): series 3 is
the same whether 4 or 400 are made.
"""

import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tsmamba_datasets._checks import check_at_least, check_choice
from tsmamba_datasets.errors import DatasetError

Array = NDArray[np.float64]

# A Monday, so that weeks are whole.
_START = datetime(2020, 1, 6)
_DAY, _WEEK = 86_400.0, 604_800.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AR, _AR_TAPS = 0.8, 96
ANOMALY_KINDS = ("spike", "shift", "flat", "noise")
_NORMAL_SHARE = 0.2


def make_seasonal(
    n_series: int = 1,
    length: int = 10_000,
    freq: str = "1h",
    seed: int = 0,
    *,
    trend: float = 0.01,
    daily: float = 10.0,
    weekly: float = 4.0,
    noise: float = 1.0,
) -> pl.DataFrame:
    """Make series of a trend, a daily and a weekly season and autoregressive noise.

    Use it for a first fit: a model that learns the seasons is left with the noise alone.

    Parameters
    ----------
    n_series : int, default=1
        Number of series, each with its own level, phases and noise.
    length : int, default=10_000
        Steps of each series.
    freq : str, default="1h"
        Time step: a whole number and one of ``s m h d w``.
    seed : int, default=0
        Seed of the generator, 0 or more.
    trend : float, default=0.01
        Rise of the level a day.
    daily, weekly : float, default=10.0 and 4.0
        Amplitude of each season; 0 leaves it out.
    noise : float, default=1.0
        Standard deviation of the AR(1) noise, whose coefficient is 0.8.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id`` (String), ``ds`` (Datetime us), ``y`` (Float64), sorted.

    Raises
    ------
    DatasetError
        If a count, amplitude or seed is negative, or ``freq`` cannot be read.

    Examples
    --------
    >>> make_seasonal(n_series=2, length=48).shape
    (96, 3)
    """
    _check_counts(n_series, length, seed)
    check_at_least("daily", daily, 0.0)
    check_at_least("weekly", weekly, 0.0)
    check_at_least("noise", noise, 0.0)
    seconds = _parse_freq(freq)
    elapsed = np.arange(length, dtype=np.float64) * seconds
    frames = []
    for number in range(n_series):
        rng = np.random.default_rng([seed, number])
        level = rng.uniform(50.0, 150.0)
        y = level + trend * elapsed / _DAY + _season(rng, elapsed, daily, weekly)
        y += _autoregressive(rng, length, noise)
        frames.append(_stamped(number, n_series, elapsed, y))
    return pl.concat(frames)


def make_anomalies(
    n_series: int = 1,
    length: int = 10_000,
    n_anomalies: int = 8,
    freq: str = "5m",
    seed: int = 0,
    *,
    kinds: Sequence[str] = ANOMALY_KINDS,
    strength: float = 8.0,
) -> pl.DataFrame:
    """Make seasonal series with labelled anomalies of known kinds.

    Use it to check a detector: the first fifth of each series is normal, to fit on.

    Parameters
    ----------
    n_series : int, default=1
        Number of series.
    length : int, default=10_000
        Steps of each series, at least 100 for each anomaly.
    n_anomalies : int, default=8
        Anomalies of each series; they never touch each other.
    freq : str, default="5m"
        Time step: a whole number and one of ``s m h d w``.
    seed : int, default=0
        Seed of the generator, 0 or more.
    kinds : sequence of {"spike", "shift", "flat", "noise"}
        Kinds to take in turn: one high or low step, a moved level, a stuck value, a
        stretch of strong noise. All but the spike last 20 to 60 steps.
    strength : float, default=8.0
        Size of spike, shift and noise, in standard deviations of the normal noise.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id``, ``ds``, ``y``, ``label`` (Boolean), ``kind`` (String, null
        where normal).

    Raises
    ------
    DatasetError
        If a number is out of range, or ``freq`` or a kind is unknown.

    Examples
    --------
    >>> frame = make_anomalies(length=1_000, n_anomalies=4)
    >>> frame["kind"].drop_nulls().unique().sort().to_list()
    ['flat', 'noise', 'shift', 'spike']
    """
    check_at_least("n_anomalies", n_anomalies, 1)
    _check_counts(n_series, length, seed, least_length=100 * n_anomalies)
    check_at_least("strength", strength, 0.0)
    check_at_least("len(kinds)", len(kinds), 1)
    for kind in kinds:
        check_choice("kinds", kind, ANOMALY_KINDS)
    elapsed = np.arange(length, dtype=np.float64) * _parse_freq(freq)
    frames = []
    for number in range(n_series):
        rng = np.random.default_rng([seed, number])
        y = 100.0 + _season(rng, elapsed, 10.0, 4.0) + _autoregressive(rng, length, 1.0)
        names = _inject(rng, y, [kinds[i % len(kinds)] for i in range(n_anomalies)], strength)
        kind_column = pl.Series("kind", names, dtype=pl.String)
        frame = _stamped(number, n_series, elapsed, y)
        frames.append(frame.with_columns(kind_column.is_not_null().alias("label"), kind_column))
    return pl.concat(frames)


def make_long_memory(
    n_series: int = 8,
    length: int = 20_000,
    delay: int = 4_096,
    seed: int = 0,
    *,
    strength: float = 5.0,
    noise: float = 0.5,
) -> pl.DataFrame:
    """Make series where a short cue decides the level that comes ``delay`` steps later.

    Use it to see whether a model remembers: up to the cue nothing tells the next level,
    so a context shorter than ``delay`` can do no better than guess its sign.

    Parameters
    ----------
    n_series : int, default=8
        Number of series.
    length : int, default=20_000
        Steps of each series, more than ``delay``.
    delay : int, default=4_096
        Steps from the start of a cue to the start of its level, at least 16.
    seed : int, default=0
        Seed of the generator, 0 or more.
    strength : float, default=5.0
        Height of cues and levels.
    noise : float, default=0.5
        Standard deviation of the white noise on top.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id``, ``ds`` (Int64 step from 0), ``y``, and the truth without
        noise: ``cue`` (Float64, a pulse of 4 steps, up or down) and ``level`` (Float64, of
        the same sign, for ``delay // 4`` steps). An episode of ``delay + delay // 4`` steps
        is repeated with a new sign until the series ends.

    Raises
    ------
    DatasetError
        If a number is out of range.

    Examples
    --------
    >>> frame = make_long_memory(n_series=1, length=640, delay=512, seed=3)
    >>> bool(frame["cue"][0] == frame["level"][512])
    True
    """
    check_at_least("delay", delay, 16)
    _check_counts(n_series, length, seed, least_length=delay + 1)
    check_at_least("strength", strength, 0.0)
    check_at_least("noise", noise, 0.0)
    place = np.arange(length) % (delay + delay // 4)
    episode = np.arange(length) // (delay + delay // 4)
    frames = []
    for number in range(n_series):
        rng = np.random.default_rng([seed, number])
        signed = strength * rng.choice([-1.0, 1.0], size=episode[-1] + 1)[episode]
        cue = np.where(place < 4, signed, 0.0)
        level = np.where(place >= delay, signed, 0.0)
        y = cue + level + noise * rng.standard_normal(length)
        columns = {"ds": np.arange(length), "y": y, "cue": cue, "level": level}
        frames.append(_named(number, n_series, pl.DataFrame(columns)))
    return pl.concat(frames)


def make_irregular(
    n_series: int = 1,
    length: int = 2_000,
    mean_gap: str = "10m",
    seed: int = 0,
    *,
    daily: float = 10.0,
    noise: float = 1.0,
) -> pl.DataFrame:
    """Make series of a daily season that is measured at uneven times, in bursts and gaps.

    Use it for models that take the time between measurements into account.

    Parameters
    ----------
    n_series : int, default=1
        Number of series.
    length : int, default=2_000
        Measurements of each series.
    mean_gap : str, default="10m"
        Mean time between two measurements: a whole number and one of ``s m h d w``.
    seed : int, default=0
        Seed of the generator, 0 or more.
    daily : float, default=10.0
        Amplitude of the daily season.
    noise : float, default=1.0
        Standard deviation of the white measurement noise.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id``, ``ds`` (Datetime us, strictly increasing), ``y``; gaps
        follow a gamma law of shape 0.5, with a coefficient of variation of 1.4.

    Raises
    ------
    DatasetError
        If a number is out of range or ``mean_gap`` cannot be read.

    Examples
    --------
    >>> make_irregular(length=500)["ds"].diff().n_unique() > 100
    True
    """
    _check_counts(n_series, length, seed)
    check_at_least("daily", daily, 0.0)
    check_at_least("noise", noise, 0.0)
    seconds = _parse_freq(mean_gap)
    frames = []
    for number in range(n_series):
        rng = np.random.default_rng([seed, number])
        gaps = rng.gamma(0.5, 2.0 * seconds, size=length)
        # A millisecond at least, so that no two measurements share a stamp.
        elapsed = np.cumsum(np.round(gaps, 3) + 0.001)
        y = 100.0 + _season(rng, elapsed, daily, 0.0) + noise * rng.standard_normal(length)
        frames.append(_stamped(number, n_series, elapsed, y))
    return pl.concat(frames)


def _check_counts(n_series: int, length: int, seed: int, least_length: int = 1) -> None:
    """Check the three numbers that all makers share."""
    check_at_least("n_series", n_series, 1)
    check_at_least("length", length, least_length)
    check_at_least("seed", seed, 0)


def _parse_freq(text: str) -> int:
    """Read a time step such as 15m as seconds."""
    match = re.fullmatch(r"([1-9]\d*)([smhdw])", text)
    if match is None:
        raise DatasetError(
            f"time step {text!r} cannot be read; accepted: a whole number from 1 up and one of "
            "s, m, h, d, w. Pass for instance '1h' or '15m'."
        )
    return int(match[1]) * _UNITS[match[2]]


def _season(rng: np.random.Generator, elapsed: Array, daily: float, weekly: float) -> Array:
    """Return a daily wave with its second harmonic and a weekly wave, at random phases."""
    first, second, week = rng.uniform(0.0, 2.0 * np.pi, size=3)
    day_angle = 2.0 * np.pi * elapsed / _DAY
    wave = np.sin(day_angle + first) + 0.3 * np.sin(2.0 * day_angle + second)
    season: Array = daily * wave + weekly * np.sin(2.0 * np.pi * elapsed / _WEEK + week)
    return season


def _autoregressive(rng: np.random.Generator, length: int, deviation: float) -> Array:
    """Return AR(1) noise as a moving average, cut where its weights are below 1e-9."""
    weights = _AR ** np.arange(_AR_TAPS, dtype=np.float64)
    white = rng.standard_normal(length + _AR_TAPS - 1)
    noise: Array = np.convolve(white, weights, mode="valid")
    noise *= deviation * np.sqrt(1.0 - _AR**2)
    return noise


def _inject(
    rng: np.random.Generator, y: Array, kinds: list[str], strength: float
) -> list[str | None]:
    """Change ``y`` in place, one anomaly in each slot behind the normal part."""
    names: list[str | None] = [None] * len(y)
    first = int(np.ceil(_NORMAL_SHARE * len(y)))
    edges = np.linspace(first, len(y), len(kinds) + 1).astype(int)
    for kind, start, end in zip(kinds, edges[:-1], edges[1:], strict=True):
        width = 1 if kind == "spike" else int(rng.integers(20, 61))
        begin = int(rng.integers(start + 1, end - width))
        span = slice(begin, begin + width)
        sign = float(rng.choice([-1.0, 1.0]))
        if kind in {"spike", "shift"}:
            y[span] += sign * strength
        elif kind == "flat":
            y[span] = y[begin]
        else:
            y[span] += strength * rng.standard_normal(width)
        names[span] = [kind] * width
    return names


def _stamped(number: int, n_series: int, elapsed: Array, y: Array) -> pl.DataFrame:
    """Build the long frame of one series from seconds since the start."""
    micros = pl.Series("ds", np.round(elapsed * 1e6).astype(np.int64)).cast(pl.Duration("us"))
    start = pl.lit(_START, dtype=pl.Datetime("us"))
    frame = pl.DataFrame({"ds": micros, "y": y}).with_columns((start + pl.col("ds")).alias("ds"))
    return _named(number, n_series, frame)


def _named(number: int, n_series: int, frame: pl.DataFrame) -> pl.DataFrame:
    """Put the id before a series, padded with zeros so that ids sort by number."""
    width = len(str(n_series - 1))
    return frame.select(pl.lit(f"s{number:0{width}d}").alias("unique_id"), pl.all())
