"""False alarms a day on clean scores, beside what `Rate` was asked for.

    python -m benchmarks.anomaly_rate
    python -m benchmarks.anomaly_rate real
    python -m benchmarks.anomaly_rate true

prints tables of achieved over wanted rate. Simulated scores hang together over tens to hundreds of
steps, as scores of overlapping windows do; a calibration is fitted to some days and judged on 150
later ones. ``real`` takes the anomaly-free training parts of SMD and ASD and the eventless rows of
GECCO in the folder named by ``TSMAMBA_DATA``: fitted to the first half, judged on the second.
``true`` puts true anomalies into simulated scores, to show what they do to a threshold that follows
the stream.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d
from scipy.signal import lfilter

from benchmarks.forecast.run import environment
from tsmamba.anomaly.calibration import Rate
from tsmamba.anomaly.calibration.clusters import count_episodes

Scores = NDArray[np.float64]
Generator = np.random.Generator

SEEDS = 20
LATER_DAYS = 150
MINUTES, FIVE_MINUTES = 1_440, 288
SETTINGS = ((MINUTES, 3), (MINUTES, 7), (MINUTES, 20), (FIVE_MINUTES, 7), (FIVE_MINUTES, 30))
GAINS = (0.0, 0.2)


def _smoothed(values: Scores, width: int) -> Scores:
    smooth: Scores = uniform_filter1d(values, width)
    return np.maximum(smooth, 0)  # running sums leave rounding below it


def _autoregressive(rng: Generator, n: int, memory: int) -> Scores:
    decay = np.exp(-1 / memory)
    filtered: Scores = lfilter([np.sqrt(1 - decay**2)], [1, -decay], rng.normal(size=n))
    return filtered


def _oscillating(rng: Generator, n: int, memory: int) -> Scores:
    decay, angle = np.exp(-1 / memory), np.pi / memory
    weights = [1, -2 * decay * np.cos(angle), decay**2]
    filtered: Scores = lfilter([1], weights, rng.normal(size=n))
    return filtered


KINDS: dict[str, Callable[[Generator, int], Scores]] = {
    "mean of abs. normal, 16": lambda rng, n: _smoothed(np.abs(rng.normal(size=n)), 16),
    "mean of abs. normal, 64": lambda rng, n: _smoothed(np.abs(rng.normal(size=n)), 64),
    "mean of abs. normal, 200": lambda rng, n: _smoothed(np.abs(rng.normal(size=n)), 200),
    "mean of abs. Student t3, 16": lambda rng, n: _smoothed(np.abs(rng.standard_t(3, n)), 16),
    "mean of abs. Student t3, 200": lambda rng, n: _smoothed(np.abs(rng.standard_t(3, n)), 200),
    "root mean square, 64": lambda rng, n: np.sqrt(_smoothed(rng.normal(size=n) ** 2, 64)),
    "abs. AR(1), memory 20": lambda rng, n: np.abs(_autoregressive(rng, n, 20)),
    "abs. AR(1), memory 100": lambda rng, n: np.abs(_autoregressive(rng, n, 100)),
    "log-normal AR(1), memory 30": lambda rng, n: np.exp(_autoregressive(rng, n, 30) / 2),
    "abs. AR(2), memory 30": lambda rng, n: np.abs(_oscillating(rng, n, 30)),
}


def false_alarms(rate: Rate, before: Scores, later: Scores, steps_per_day: int) -> float:
    """Fit to some scores, and count the alarms a day among later ones.

    Parameters
    ----------
    rate : Rate
        What to fit.
    before, later : ndarray
        Scores of normal operation.
    steps_per_day : int
        Steps of a day.

    Returns
    -------
    float
        Achieved over wanted rate.
    """
    calibrator = rate.fit(before, steps_per_day=steps_per_day)
    thresholds, _ = calibrator.step(later)
    alarms = count_episodes(later >= thresholds, calibrator.run)
    return alarms / (later.size / steps_per_day) / rate.per_day


def simulated(kind: str, steps_per_day: int, days: int, gain: float, seeds: int) -> Scores:
    """Return achieved over wanted rates, one for each seed.

    Parameters
    ----------
    kind : str
        Key of ``KINDS``.
    steps_per_day, days : int
        Steps of a day, and days to fit to.
    gain : float
        Of `Rate`.
    seeds : int
        Draws.

    Returns
    -------
    ndarray of shape (seeds,)
        Of one alarm a day.

    Examples
    --------
    >>> simulated("mean of abs. normal, 16", 288, 7, 0.0, seeds=2).shape
    (2,)
    """
    ratios = np.empty(seeds)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        scores = KINDS[kind](rng, (days + LATER_DAYS) * steps_per_day)
        before, later = np.split(scores, [days * steps_per_day])
        ratios[seed] = false_alarms(Rate(gain=gain), before, later, steps_per_day)
    return ratios


def simulated_lines(seeds: int = SEEDS) -> Iterator[str]:
    """Yield the lines of one table for each gain.

    Parameters
    ----------
    seeds : int
        Draws of each cell.

    Yields
    ------
    str
        Mean, and least and greatest, over seeds.
    """
    for gain in GAINS:
        heads = [f"{days} days of {steps:,}" for steps, days in SETTINGS]
        yield f"gain={gain:g}: achieved over wanted rate, mean (least to greatest of {seeds} seeds)"
        yield "| scores | " + " | ".join(heads) + " |"
        yield "| --- |" + " --- |" * len(heads)
        columns: list[list[Scores]] = [[] for _ in SETTINGS]
        for kind in KINDS:
            for column, (steps, days) in zip(columns, SETTINGS, strict=True):
                column.append(simulated(kind, steps, days, gain, seeds))
            last = [column[-1] for column in columns]
            cells = [f"{r.mean():.2f} ({r.min():.2f} to {r.max():.2f})" for r in last]
            yield f"| {kind} | " + " | ".join(cells) + " |"
        pooled = [np.concatenate(column) for column in columns]
        yield f"| all, mean | {' | '.join(f'{r.mean():.2f}' for r in pooled)} |"
        yield f"| within a factor 2 | {' | '.join(f'{_within(r, 2):.0%}' for r in pooled)} |"
        yield f"| within a factor 1.3 | {' | '.join(f'{_within(r, 1.3):.0%}' for r in pooled)} |"


def _within(ratios: Scores, factor: float) -> float:
    return float(((ratios >= 1 / factor) & (ratios <= factor)).mean())


def clean_parts(folder: Path) -> Iterator[tuple[str, NDArray[np.float64], int]]:
    """Yield name, rows and steps a day of the sets' parts without anomalies.

    Parameters
    ----------
    folder : Path
        Where the sets lie.

    Yields
    ------
    tuple
        Rows are of shape (n, channels).
    """
    for pattern, steps in (("smd/*_train.parquet", MINUTES), ("asd/*_train.parquet", FIVE_MINUTES)):
        for path in sorted(folder.glob(pattern)):
            yield path.name.removesuffix("_train.parquet"), pl.read_parquet(path).to_numpy(), steps
    rows = pl.read_parquet(folder / "gecco2018" / "gecco2018.parquet").filter(pl.col("event") == 0)
    values = rows.drop("idx", "event").fill_nan(None).drop_nulls().to_numpy()
    yield "gecco", values, MINUTES


def simple_scores(rows: NDArray[np.float64], kind: str, width: int) -> Scores:
    """Return scores of plain detectors: the mean of the three channels that stand out most.

    Parameters
    ----------
    rows : ndarray of shape (n, channels)
        Values.
    kind : {"level", "change"}
        Distance from the median, or from the row before, in units of the first half.
    width : int
        Steps that the scores are means of.

    Returns
    -------
    ndarray of shape (n,)
        At least 0.
    """
    first = rows[: len(rows) // 2]
    spread = 0.3 * first.std(0) + 1e-9
    if kind == "level":
        middle = np.median(first, axis=0)
        away = np.abs(rows - middle) / (np.median(np.abs(first - middle), axis=0) + spread)
    else:
        moved = np.abs(np.diff(rows, axis=0, prepend=rows[:1]))
        away = moved / (moved[: len(first)].mean(0) + spread)
    return _smoothed(np.sort(away, axis=1)[:, -3:].mean(1), width)


def real_lines(folder: Path) -> Iterator[str]:
    """Yield the lines of the table on real data.

    Parameters
    ----------
    folder : Path
        Where the sets lie.

    Yields
    ------
    str
        Achieved over wanted rate, fixed and following.
    """
    kinds = [(kind, width) for kind in ("level", "change") for width in (5, 30)]
    heads = [f"{kind}, {width}" for kind, width in kinds]
    yield "achieved over wanted rate: gain=0, then gain=0.2"
    yield "| series | " + " | ".join(heads) + " |"
    yield "| --- |" + " --- |" * len(heads)
    found = []
    for name, rows, steps in clean_parts(folder):
        pairs = []
        for kind, width in kinds:
            before, later = np.array_split(simple_scores(rows, kind, width), 2)
            pairs.append([false_alarms(Rate(gain=gain), before, later, steps) for gain in GAINS])
        found.append(pairs)
        yield f"| {name} | " + " | ".join(f"{a:.2f}, {b:.2f}" for a, b in pairs) + " |"
    for gain, ratios in zip(GAINS, np.moveaxis(np.array(found), -1, 0), strict=True):
        yield (
            f"gain={gain:g}: mean {ratios.mean():.2f}, {_within(ratios.ravel(), 2):.0%} within a "
            f"factor 2, {_within(ratios.ravel(), 1.3):.0%} within 1.3"
        )


def with_true_anomalies(kind: str, per_day: float, gain: float, seed: int) -> Scores:
    """Fit to a week of minutes, and judge 60 days into which true anomalies were put.

    Each lasts half an hour, at one and a half times the fitted threshold.

    Parameters
    ----------
    kind : str
        Key of ``KINDS``.
    per_day : float
        True anomalies a day.
    gain : float
        Of `Rate`.
    seed : int
        Of scores and places.

    Returns
    -------
    ndarray of shape (3,)
        False alarms a day, share of true anomalies found, and last over fitted threshold.

    Examples
    --------
    >>> bool(with_true_anomalies("mean of abs. normal, 16", 1.0, gain=0.0, seed=0)[1] == 1)
    True
    """
    days, quarter, length = 60, MINUTES // 4, 30
    rng = np.random.default_rng(seed)
    before, later = np.split(KINDS[kind](rng, (7 + days) * MINUTES), [7 * MINUTES])
    calibrator = Rate(gain=gain).fit(before, steps_per_day=MINUTES)
    starts = quarter * rng.choice(4 * days, int(days * per_day), replace=False)
    places = starts[:, None] + np.arange(length)
    later[places] = 1.5 * calibrator.fitted
    thresholds, _ = calibrator.step(later)
    alerts = later >= thresholds
    found = alerts[places].any(1).mean()
    alerts[places] = False
    false = count_episodes(alerts, calibrator.run) / days
    return np.array([false, found, thresholds[-1] / calibrator.fitted])


def true_lines(seeds: int = 5) -> Iterator[str]:
    """Yield the lines of the table with true anomalies.

    Parameters
    ----------
    seeds : int
        Draws of each row.

    Yields
    ------
    str
        Means over seeds, of two kinds of scores.
    """
    yield "| scores | true a day | gain | false alarms a day | found | last over fitted threshold |"
    yield "| --- |" + " --- |" * 5
    for kind in ("mean of abs. normal, 64", "mean of abs. Student t3, 16"):
        for per_day in (0.2, 1.0, 3.0):
            for gain in GAINS:
                drawn = [with_true_anomalies(kind, per_day, gain, seed) for seed in range(seeds)]
                false, found, ratio = np.mean(drawn, axis=0)
                yield (
                    f"| {kind} | {per_day:g} | {gain:g} | {false:.2f} | {found:.0%} | {ratio:.2f} |"
                )


if __name__ == "__main__":
    lines = simulated_lines()
    if "true" in sys.argv[1:]:
        lines = true_lines()
    if "real" in sys.argv[1:]:
        lines = real_lines(Path(os.environ["TSMAMBA_DATA"]))
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{environment()}\n")
