"""Contestants that take turns, so that what disturbs the machine disturbs all of them."""

import math
import time
from collections.abc import Callable, Mapping
from statistics import quantiles

TURN_SECONDS = 0.2
ROUNDS = 5


def race(runs: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the seconds of each contestant's best call.

    In each round every contestant has a turn of 0.2 s, or of one call where that is longer.

    Parameters
    ----------
    runs : dict of str to callable
        The contestants.
    seconds : float
        After this time no further round begins.

    Returns
    -------
    dict of str to float
        Seconds by name.

    Examples
    --------
    >>> race({"nothing": lambda: None}, seconds=0.0)["nothing"] < 0.1
    True
    """
    best = dict.fromkeys(runs, math.inf)
    began = time.perf_counter()
    for done in range(ROUNDS):
        if done and time.perf_counter() - began > seconds:
            break
        for name, run in runs.items():
            best[name] = min(best[name], _best_of_turn(run))
    return best


def _best_of_turn(run: Callable[[], object]) -> float:
    best, began = math.inf, time.perf_counter()
    while True:
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        best = min(best, end - start)
        if end - began >= TURN_SECONDS:
            return best


def percentiles(
    runs: Mapping[str, Callable[[], object]], calls: int
) -> dict[str, tuple[float, float]]:
    """Return the median and the 99th percentile of the seconds of a call.

    Parameters
    ----------
    runs : dict of str to callable
        The contestants; each has its calls in four turns, after a tenth as many to warm up.
    calls : int
        Calls of each.

    Returns
    -------
    dict of str to (float, float)
        Seconds by name.

    Examples
    --------
    >>> median, p99 = percentiles({"nothing": lambda: None}, calls=400)["nothing"]
    >>> median <= p99
    True
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(4):
        for name, run in runs.items():
            for _ in range(calls // 40):
                run()
            for _ in range(calls // 4):
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
    cuts = {name: quantiles(seconds, n=100) for name, seconds in times.items()}
    return {name: (cut[49], cut[98]) for name, cut in cuts.items()}
