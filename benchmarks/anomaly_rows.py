"""How long a stream of `MambaDetector` takes for a row, of one series or of many at once.

    OMP_NUM_THREADS=1 python -m benchmarks.anomaly_rows

fits each preset to 3,000 rows of noisy waves and prints the median and the 99th percentile of one
call: `score_one` with one channel and with eight, and `score_batch` with 256 series of one channel,
for each of them, with times and without. Before that, a batch is compared with the same rows one by
one, bit for bit; if they differ, nothing is printed.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

from benchmarks.forecast.run import environment
from tsmamba import MambaDetector
from tsmamba.anomaly.stream import Stream
from tsmamba.benchmark.timing import percentiles

PRESETS = ("auto", "alerts", "tiny")
SERIES, CALLS = 256, 400
FITTED, SEEDED, CHECKED = 3_000, 400, 20


def waves(rows: int, channels: int, seed: int) -> np.ndarray:
    """Return noisy waves of 48 rows.

    Parameters
    ----------
    rows, channels, seed : int
        Shape and noise.

    Returns
    -------
    ndarray of shape (rows, channels)

    Examples
    --------
    >>> waves(100, 2, seed=0).shape
    (100, 2)
    """
    noise = np.random.default_rng(seed).normal(size=(rows, channels))
    phase = np.arange(rows)[:, None] / 48 + np.arange(channels) / 7
    return np.sin(2 * np.pi * phase) + 0.2 * noise


def batches(series: int) -> Iterator[dict[str, float]]:
    """Yield a next row of each series, without end.

    Parameters
    ----------
    series : int
        How many.

    Yields
    ------
    dict of str to float

    Examples
    --------
    >>> list(next(batches(2)))
    ['0', '1']
    """
    rng = np.random.default_rng(1)
    while True:
        yield {str(key): value for key, value in enumerate(rng.normal(size=series).tolist())}


def seeded(detector: MambaDetector, series: int, channels: int) -> Stream:
    """Return a stream whose series are past their warm-up.

    Parameters
    ----------
    detector : MambaDetector
        Fitted.
    series, channels : int
        How many.

    Returns
    -------
    Stream
    """
    stream: Stream = detector.stream()
    for key in range(series):
        stream.seed(waves(SEEDED, channels, seed=key), range(SEEDED), key=str(key))
    return stream


def check(detector: MambaDetector) -> None:
    """Stop where a batch is not what its rows are one by one.

    Parameters
    ----------
    detector : MambaDetector
        Of one channel.

    Raises
    ------
    SystemExit
        If a result differs in any bit.
    """
    together, alone = (seeded(detector, 9, 1) for _ in range(2))
    rows = batches(9)
    for t in range(SEEDED, SEEDED + CHECKED):
        for key, result in together.score_batch(row := next(rows), t).items():
            other = alone.score_one(row[key], t, key=key)
            if (result.score, result.p_value) != (other.score, other.p_value):
                raise SystemExit(f"series {key} of a batch: {result}, by itself: {other}")


def runs(preset: str) -> dict[str, Callable[[], Any]]:
    """Return the calls to be timed, by name.

    Parameters
    ----------
    preset : str
        Of the detector.

    Returns
    -------
    dict of str to callable
    """
    calls: dict[str, Callable[[], Any]] = {}
    for timed in (False, True):
        beside = ", times" if timed else ""
        for channels in (1, 8):
            detector = MambaDetector(preset).fit(waves(FITTED, channels, seed=0))
            rows = iter(waves(10 * CALLS, channels, seed=1).tolist())
            name = f"score_one, channels: {channels}{beside}"
            calls[name] = _scoring(seeded(detector, 1, channels).score_one, rows, timed)
            if channels == 1:
                check(detector)
                many = seeded(detector, SERIES, 1)
                name = f"score_batch, for each of {SERIES}{beside}"
                calls[name] = _scoring(many.score_batch, batches(SERIES), timed)
    return calls


def _scoring(score: Callable[..., Any], rows: Iterator[Any], timed: bool) -> Callable[[], Any]:
    times = count(SEEDED)
    return lambda: score(next(rows), next(times) if timed else None)


def main() -> None:
    """Print the environment and the table.

    Examples
    --------
    >>> callable(main)
    True
    """
    sys.stdout.write(f"{environment(('torch', 'numpy'))}\n")
    sys.stdout.write("| preset | call | p50, us | p99, us |\n| --- | --- | --- | --- |\n")
    for preset in PRESETS:
        for name, seconds in percentiles(runs(preset), CALLS).items():
            series = SERIES if "batch" in name else 1
            p50, p99 = (f"{1e6 * each / series:.3g}" for each in seconds)
            sys.stdout.write(f"| {preset} | {name} | {p50} | {p99} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
