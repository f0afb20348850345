"""Volume under the surface: ranking of scores against events whose edges are not sharp."""

from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from tsmamba.errors import ParameterError
from tsmamba.metrics.checks import check_pair, check_scores, check_whole
from tsmamba.metrics.ranges import Ranges, ranges_of

# Part of the definition: as many thresholds, evenly spaced over the ranks of the scores.
_THRESHOLDS = 250
# How TSB-AD finds a window: in so many steps it looks for a peak from one lag to another, takes
# the highest if it lies in a range that is not quite the same, and falls back on a number.
_STEPS, _FIRST_LAG, _LAGS, _LEAST, _MOST, _FALLBACK = 20_000, 3, 400, 6, 303, 125


class VolumeUnderSurface(NamedTuple):
    """Both volumes, each from 0 to 1.

    Parameters
    ----------
    roc : float
        Volume under the curves of true against false positive rates.
    pr : float
        Volume under the curves of precision against recall: the one to report, since events are
        rare.

    Examples
    --------
    >>> vus([0, 1, 0, 0], [0.0, 1.0, 0.0, 0.0], window=0).pr
    1.0
    """

    roc: float
    pr: float


def vus(labels: ArrayLike, scores: ArrayLike, window: SupportsIndex) -> VolumeUnderSurface:
    """Area under the curves of a range-aware ranking, averaged over widths of the events' edges.

    Labels of events are rarely exact. Here each event gets a buffer of ``w // 2`` steps on both
    sides, in which an alert still counts, the less the farther it is from the event; a threshold
    is worth the more, the more of the events it finds. The area under the curve over 250 thresholds
    is averaged over ``w = 0, 1, ..., window``.

    Use it to compare detectors on the same series with the same window: it needs no threshold and
    forgives small shifts. Do not compare numbers of different windows: wider ones give higher
    values. Other implementations use other windows and thresholds; this one equals TSB-AD's
    ``get_metrics(version="opt", thre=250)`` to rounding. It does not tell how a fixed threshold
    would have done, nor how late an event was found.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one of each.
    scores : array-like of shape (T,)
        Higher is worse. Only their order matters.
    window : int >= 0
        Widest buffer, in steps, both sides together; `window_of` gives the one that TSB-AD takes.

    Returns
    -------
    VolumeUnderSurface
        ``roc`` and ``pr``, 1 is best. Random scores get a half or more for ``roc``, and for ``pr``
        somewhat more than the share of steps inside events.

    Raises
    ------
    ParameterError
        If arrays do not fit each other, labels hold but one of 0 and 1, scores hold a NaN or an
        infinity, or the window is negative.

    References
    ----------
    Paparrizos et al., "Volume under the surface: a new accuracy evaluation measure for time-series
    anomaly detection", 2022. Liu and Paparrizos, "The elephant in the room: towards a reliable
    time-series anomaly detection benchmark", 2024.

    Examples
    --------
    >>> labels = [0, 0, 0, 1, 1, 0, 0, 0]
    >>> early = [0, 0, 1, 1, 0, 0, 0, 0]
    >>> round(vus(labels, early, window=0).pr, 3), round(vus(labels, early, window=4).pr, 3)
    (0.375, 0.63)
    """
    ranked = check_scores(scores)
    marks = check_pair(labels, ranked, "scores", normal=True)
    widest = check_whole(window, "window")

    admitted, entry = _entries(ranked)
    found, buffered = _buffers(marks, entry, widest)
    # Half of what is alerted in buffers counts as event, so that a wide buffer is no handicap.
    positives = marks.sum() + buffered / 2
    hits = _admitted(entry[marks]) + buffered
    recall = np.minimum(hits / positives, 1.0) * found
    false_rate = (admitted - hits) / (len(marks) - positives)
    roc = np.trapezoid(_with_ends(recall), _with_ends(false_rate))
    pr = np.sum(np.diff(recall, prepend=0.0) * hits / admitted, axis=1)
    return VolumeUnderSurface(float(roc.mean()), float(pr.mean()))


def vus_pr(labels: ArrayLike, scores: ArrayLike, window: SupportsIndex) -> float:
    """Volume under the surface of precision and recall; see `vus`.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one of each.
    scores : array-like of shape (T,)
        Higher is worse.
    window : int >= 0
        Widest buffer, in steps; see `window_of`.

    Returns
    -------
    float
        From 0 to 1, 1 is best.

    Raises
    ------
    ParameterError
        As `vus`.

    Examples
    --------
    >>> round(vus_pr([0, 0, 1, 1, 0, 0], [0.1, 0.2, 0.9, 0.8, 0.3, 0.1], window=0), 3)
    1.0
    """
    return vus(labels, scores, window).pr


def vus_roc(labels: ArrayLike, scores: ArrayLike, window: SupportsIndex) -> float:
    """Volume under the surface of true and false positive rates; see `vus`.

    With rare events it is high for almost every detector; prefer `vus_pr`.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one of each.
    scores : array-like of shape (T,)
        Higher is worse.
    window : int >= 0
        Widest buffer, in steps; see `window_of`.

    Returns
    -------
    float
        From 0 to 1, 1 is best.

    Raises
    ------
    ParameterError
        As `vus`.

    Examples
    --------
    >>> round(vus_roc([0, 0, 1, 1, 0, 0], [0.1, 0.2, 0.9, 0.8, 0.3, 0.1], window=0), 3)
    1.0
    """
    return vus(labels, scores, window).roc


def window_of(series: ArrayLike) -> int:
    """Buffer that TSB-AD takes for a series: the lag at which it is most like itself.

    The highest local maximum of the autocorrelation, over the first 20,000 steps of the first
    channel and lags up to 400. Where there is none, or it lies outside 6 to 303, it is 125.

    Parameters
    ----------
    series : array-like of shape (T,) or (T, channels)
        The values, not the scores. Of several channels the first is read.

    Returns
    -------
    int
        From 6 to 303, to pass on as ``window``.

    Raises
    ------
    ParameterError
        If there is no value, or some are missing or infinite.

    Examples
    --------
    >>> window_of(np.sin(np.arange(1000) * 2 * np.pi / 50))
    50
    >>> window_of(np.arange(1000))
    125
    """
    values = np.asarray(series)
    first = check_scores(values[:, 0] if values.ndim == 2 else values, "series")[:_STEPS]
    if not len(first):
        raise ParameterError("series is empty; pass the values of the series to be scored")
    if first.min() == first.max():
        return _FALLBACK
    deviations = first - first.mean()
    spectrum = np.fft.rfft(deviations, 2 * len(first))
    likeness = np.fft.irfft(np.abs(spectrum) ** 2)[: min(_LAGS + 1, len(first))]
    inner = likeness[_FIRST_LAG + 1 : -1]
    peaks = (inner > likeness[_FIRST_LAG:-2]) & (inner > likeness[_FIRST_LAG + 2 :])
    if not peaks.any():
        return _FALLBACK
    lag = int(np.where(peaks, inner, -np.inf).argmax()) + _FIRST_LAG + 1
    return lag if _LEAST <= lag <= _MOST else _FALLBACK


def _entries(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count what each threshold admits, which is all not below it, and find each step's first."""
    order = np.argsort(-scores)
    falling = scores[order]
    levels = falling[np.linspace(0, len(scores) - 1, _THRESHOLDS).astype(int)]
    admitted = np.searchsorted(-falling, -levels, side="right")
    entry = np.empty(len(scores), dtype=int)
    entry[order] = np.repeat(np.arange(_THRESHOLDS), np.diff(admitted, prepend=0))
    return admitted, entry


def _admitted(entry: np.ndarray) -> np.ndarray:
    """How many of some steps each threshold admits."""
    return np.bincount(entry, minlength=_THRESHOLDS).cumsum()


def _with_ends(rates: np.ndarray) -> np.ndarray:
    """Let curves start at 0 and end at 1."""
    return np.pad(rates, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))


def _buffers(marks: np.ndarray, entry: np.ndarray, widest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what buffers of each width add, both (widest + 1, thresholds).

    First the share of events that a threshold finds, where events whose buffers meet are one;
    second the weight of its alerts in buffers. A step ``d`` from an event weighs
    ``sqrt(1 - d / width)``. Weights of several events add up to at most 1, and each is above a
    half, so a step within reach of two events weighs 1, and it is enough to count steps by distance
    and threshold.
    """
    events, half, last = ranges_of(marks), widest // 2, len(marks) - 1
    nearest, second, entered = _surroundings(events, marks, entry, half)
    cells = np.bincount(nearest * _THRESHOLDS + entered, minlength=(half + 1) * _THRESHOLDS)
    alone = cells.reshape(half + 1, _THRESHOLDS).astype(float)
    shared = np.zeros(_THRESHOLDS)
    # An event is found by the first threshold that any of its steps has.
    bounds = np.column_stack([events.starts, events.ends + 1]).ravel()
    first = np.minimum.reduceat(np.append(entry, _THRESHOLDS), bounds)[::2]
    gaps = np.append(np.inf, events.starts[1:] - events.ends[:-1])
    found, buffered = np.empty((2, widest + 1, _THRESHOLDS))
    for reach in range(half + 1):
        widths = np.arange(2 * reach, min(2 * reach + 1, widest) + 1)
        weights = np.sqrt(1 - np.arange(1, reach + 1) / widths[:, None])
        met = second == reach
        if met.any():
            np.subtract.at(alone, (nearest[met], entered[met]), 1)
            shared += np.bincount(entered[met], minlength=_THRESHOLDS)
        buffered[widths] = weights @ alone[1 : reach + 1] + shared
        first = np.minimum(first, entry[np.maximum(events.starts - reach, 0)])
        first = np.minimum(first, entry[np.minimum(events.ends + reach, last)])
        joined = np.minimum.reduceat(first, np.flatnonzero(gaps > 2 * reach))
        found[widths] = _admitted(joined) / len(joined)
    return found, np.cumsum(buffered, axis=1)


def _surroundings(
    events: Ranges, marks: np.ndarray, entry: np.ndarray, reach: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distances to the two nearest events, and entries, of the steps within reach."""
    steps = np.flatnonzero(~marks)
    far = 2 * len(marks) + reach
    ends = np.concatenate([[-far, -far], events.ends])
    starts = np.concatenate([events.starts, [far, far]])
    before = np.searchsorted(events.starts, steps)
    near = np.minimum(steps - ends[before + 1], starts[before] - steps) <= reach
    steps, before = steps[near], before[near]
    sides = [steps - ends[before], steps - ends[before + 1]]
    sides += [starts[before] - steps, starts[before + 1] - steps]
    nearest, second = np.sort(sides, axis=0)[:2]
    return nearest, second, entry[steps]
