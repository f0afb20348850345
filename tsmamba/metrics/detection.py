"""Ranking of scores, events found by alerts and how late, and the trap of point adjustment."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import average_precision_score, precision_recall_curve

from tsmamba.errors import ParameterError
from tsmamba.metrics.checks import check_marks, check_pair, check_scores, check_whole
from tsmamba.metrics.ranges import ranges_of, touched


class Found(NamedTuple):
    """How many alerts were right, how many events were found, and both in one.

    Parameters
    ----------
    precision : float
        From 0 to 1; NaN where there was no alert.
    recall : float
        From 0 to 1.
    f1 : float
        Harmonic mean of both; 0 where there was no alert.

    Examples
    --------
    >>> event_f1([0, 1, 1, 0], [0, 0, 1, 0]).f1
    1.0
    """

    precision: float
    recall: float
    f1: float


class PointAdjusted(NamedTuple):
    """Point-adjusted F1, and what chance makes of it.

    Parameters
    ----------
    f1 : float
        Of the scores given, at the best threshold.
    random_f1 : float
        Of random scores on the same labels, at the best threshold.

    Examples
    --------
    >>> point_adjusted_f1([0, 1, 1, 0], [0.0, 0.9, 0.1, 0.0], acknowledge="misleading").f1
    1.0
    """

    f1: float
    random_f1: float


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the curve of precision and recall, step by step.

    Use it where single steps matter and labels are exact to the step. Where labels are ranges, a
    score that is one step off gets nothing and a long event outweighs many short ones: prefer
    `vus_pr`.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one 1.
    scores : array-like of shape (T,)
        Higher is worse.

    Returns
    -------
    float
        From 0 to 1, 1 is best; random scores get about the share of steps inside events.

    Raises
    ------
    ParameterError
        If arrays do not fit each other, no step is labelled, or scores hold a NaN or an infinity.

    References
    ----------
    ``sklearn.metrics.average_precision_score`` does the work.

    Examples
    --------
    >>> average_precision([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.8])
    1.0
    """
    ranked = check_scores(scores)
    return float(average_precision_score(check_pair(labels, ranked, "scores"), ranked))


def event_f1(labels: ArrayLike, alerts: ArrayLike) -> Found:
    """Precision and recall of events, however long they are.

    An event is found when any alert lies inside it. A run of alerts that touches no event is one
    false event; what a run covers beside an event costs nothing. Precision is the share of found
    events among found and false ones.

    Use it for alerts whose threshold was fixed before, on the training part. A threshold chosen on
    the labels that are scored (the "oracle" threshold of many papers) makes every detector look
    good. Do not use it for detectors that alert nearly always: one run over the whole series finds
    every event and is never false. The precision of `affiliation` shows that.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one 1.
    alerts : array-like of shape (T,)
        1 where there is an alert.

    Returns
    -------
    Found
        ``precision``, ``recall`` and ``f1``.

    Raises
    ------
    ParameterError
        If arrays do not fit each other, hold anything but 0 and 1, or no step is labelled.

    References
    ----------
    Hundman et al., "Detecting spacecraft anomalies using LSTMs and nonparametric dynamic
    thresholding", 2018.

    Examples
    --------
    >>> labels = [0, 1, 1, 0, 0, 0, 1, 0]
    >>> event_f1(labels, [0, 0, 1, 1, 0, 1, 0, 0])
    Found(precision=0.5, recall=0.5, f1=0.5)
    """
    fired = check_marks(alerts, "alerts")
    marks = check_pair(labels, fired, "alerts")
    hits = touched(ranges_of(marks), fired)
    false = int(np.count_nonzero(~touched(ranges_of(fired), marks)))
    found = int(np.count_nonzero(hits))
    precision = found / (found + false) if fired.any() else float("nan")
    return Found(precision, found / len(hits), 2 * found / (found + false + len(hits)))


def detection_delay(labels: ArrayLike, alerts: ArrayLike) -> np.ndarray:
    """Count the steps from the start of each event to the first alert inside it.

    Report it beside recall, with the number of missed events: the mean over found events alone gets
    better when late ones are missed. An alert before the event counts for nothing here.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one 1.
    alerts : array-like of shape (T,)
        1 where there is an alert.

    Returns
    -------
    float ndarray of shape (events,)
        In order of time: 0 where the first step of the event is alerted, NaN where none is.

    Raises
    ------
    ParameterError
        If arrays do not fit each other, hold anything but 0 and 1, or no step is labelled.

    Examples
    --------
    >>> detection_delay([0, 1, 1, 1, 0, 1], [1, 0, 0, 1, 0, 0])
    array([ 2., nan])
    """
    fired = check_marks(alerts, "alerts")
    events = ranges_of(check_pair(labels, fired, "alerts"))
    times = np.append(np.flatnonzero(fired), len(fired))
    next_alert = times[np.searchsorted(times, events.starts)]
    return np.where(next_alert <= events.ends, next_alert - events.starts, np.nan)


def ucr_hit(scores: ArrayLike, start: int, end: int, slack: int = 100) -> bool:
    """Tell whether the highest score lies at the only anomaly: the rule of the UCR archive.

    Use it for series with exactly one anomaly, and report the share of series that are hit. It
    needs no threshold, and says nothing of false alerts.

    Parameters
    ----------
    scores : array-like of shape (T,)
        Higher is worse; of equal maxima the first counts. Leave out the training part.
    start, end : int
        First and last step of the anomaly, counted from 0 as ``scores`` are. The numbers in the
        names of the archive's files count from 1, from the start of the training part.
    slack : int >= 0, default 100
        How many steps beside the anomaly still count.

    Returns
    -------
    bool
        Random scores hit with a chance of about ``(end - start + 1 + 2 * slack) / T``.

    Raises
    ------
    ParameterError
        If the anomaly does not lie inside the scores, scores hold a NaN or an infinity, or the
        slack is negative.

    References
    ----------
    Wu and Keogh, "Current time series anomaly detection benchmarks are flawed and are creating the
    illusion of progress", 2021.

    Examples
    --------
    >>> scores = np.zeros(1000)
    >>> scores[420] = 1.0
    >>> ucr_hit(scores, 500, 520), ucr_hit(scores, 500, 520, slack=50)
    (True, False)
    """
    ranked = check_scores(scores)
    first, last = check_whole(start, "start"), check_whole(end, "end")
    if not first <= last < len(ranked):
        raise ParameterError(
            f"start={start} and end={end} with {len(ranked):,} scores; pass first and last step of "
            "the anomaly, counted from 0 in the scores"
        )
    peak, beside = int(ranked.argmax()), check_whole(slack, "slack")
    return first - beside <= peak <= last + beside


def point_adjusted_f1(
    labels: ArrayLike, scores: ArrayLike, *, acknowledge: str | None = None, random_state: int = 0
) -> PointAdjusted:
    """F1 of steps after a whole event is counted as found for a single alert: a misleading number.

    Many papers report it, at the best threshold for the very labels that are scored. A long event
    nearly always holds some high score by chance, so random scores often beat published detectors.
    It is here to repeat such numbers, never to compare detectors: use `vus_pr` for scores and
    `event_f1` or `affiliation` for alerts. Random scores are always measured beside.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one 1.
    scores : array-like of shape (T,)
        Higher is worse.
    acknowledge : "misleading"
        Has to be given.
    random_state : int, default 0
        Seed of the random scores.

    Returns
    -------
    PointAdjusted
        ``f1`` and ``random_f1``, each at its own best threshold.

    Raises
    ------
    ParameterError
        Without ``acknowledge="misleading"``; if arrays do not fit each other, no step is labelled,
        or scores hold a NaN or an infinity.

    References
    ----------
    Kim et al., "Towards a rigorous evaluation of time-series anomaly detection", 2022.

    Examples
    --------
    >>> labels = np.arange(2000) % 500 < 100
    >>> chance = np.random.default_rng(1).random(2000)
    >>> adjusted = point_adjusted_f1(labels, chance, acknowledge="misleading")
    >>> round(adjusted.f1, 2), round(average_precision(labels, chance), 2)
    (0.97, 0.2)
    """
    if acknowledge != "misleading":
        raise ParameterError(
            f"acknowledge={acknowledge!r}; point-adjusted F1 counts a whole event as found for one "
            "alert at the best threshold in hindsight, so random scores get high values. Use "
            'vus_pr or event_f1, or pass acknowledge="misleading" to get it beside that of random '
            "scores"
        )
    ranked = check_scores(scores)
    marks = check_pair(labels, ranked, "scores")
    chance = np.random.default_rng(check_whole(random_state, "random_state")).random(len(marks))
    return PointAdjusted(_adjusted_f1(marks, ranked), _adjusted_f1(marks, chance))


def _adjusted_f1(marks: np.ndarray, scores: np.ndarray) -> float:
    """With adjustment all steps of an event are alerted as soon as its highest score is."""
    events = ranges_of(marks)
    bounds = np.column_stack([events.starts, events.ends + 1]).ravel()
    highest = np.maximum.reduceat(np.append(scores, -np.inf), bounds)[::2]
    adjusted = scores.copy()
    adjusted[marks] = np.repeat(highest, events.ends - events.starts + 1)
    precision, recall, _ = precision_recall_curve(marks, adjusted)
    sums = np.maximum(precision + recall, np.finfo(float).tiny)
    return float(np.max(2 * precision * recall / sums))
