"""Metrics of the scores of one series, and of all files of NAB together."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import polars as pl

from benchmarks.anomaly.problem import Problem, filled
from tsmamba.metrics import (
    NabFile,
    affiliation,
    average_precision,
    best_nab_threshold,
    detection_delay,
    event_f1,
    ucr_hit,
    vus,
    window_of,
)
from tsmamba.metrics.nab import Profile

# Share of the training part that lies below the threshold of every method.
TRAINING_QUANTILE = 0.999
_QUIET = 200  # rows after an alarm in which only a higher score is another
_DIGITS = 4

PROFILES: tuple[Profile, ...] = get_args(Profile)


def without_gaps(scores: np.ndarray) -> np.ndarray:
    """Let rows without a score have the last one before them, or else the first of all.

    Parameters
    ----------
    scores : ndarray of shape (T,)
        NaN where there is none.

    Returns
    -------
    ndarray of shape (T,)

    Raises
    ------
    ValueError
        If no score is finite, or one is infinite.

    Examples
    --------
    >>> without_gaps(np.array([np.nan, 1.0, np.nan])).tolist()
    [1.0, 1.0, 1.0]
    """
    if np.isinf(scores).any() or np.isnan(scores).all():
        raise ValueError(f"{np.isfinite(scores).sum():,} of {len(scores):,} scores are finite")
    complete: np.ndarray = filled(scores[:, None])[:, 0]
    return complete


def metrics(problem: Problem, scores: np.ndarray) -> dict[str, Any]:
    """Judge the scores of a series.

    Parameters
    ----------
    problem : Problem
        With its labels.
    scores : ndarray of shape (T,)
        Finite.

    Returns
    -------
    dict
        Rounded; but the share of rows with an alert, ``alerted``, where no scored row is labelled.
    """
    threshold = np.quantile(scores[: problem.n_train], TRAINING_QUANTILE)
    counted = slice(problem.scored_from, None)
    labels, judged = problem.labels[counted], scores[counted]
    alerts = judged > threshold
    if not labels.any() or labels.all():
        return rounded({"alerted": alerts.mean()})
    volume = vus(labels, judged, window_of(filled(problem.values[:, :1])))
    event, near = event_f1(labels, alerts), affiliation(labels, alerts)
    delays = detection_delay(labels, alerts)
    found: dict[str, Any] = {
        "vus_pr": volume.pr,
        "vus_roc": volume.roc,
        "auc_pr": average_precision(labels, judged),
        "f1": event.f1,
        "recall": event.recall,
        "delay": np.nanmedian(delays) if np.isfinite(delays).any() else None,
        "affiliation": near.f1,
    }
    if problem.set == "UCR":
        ((start, stop),) = problem.events
        shift = problem.scored_from
        found["hit"] = int(ucr_hit(judged, start - shift, stop - 1 - shift))
    return rounded(found)


def right_channels(problem: Problem, contributions: np.ndarray) -> float:
    """Return the share of events whose largest contribution comes from a channel at fault.

    Parameters
    ----------
    problem : Problem
        With causes.
    contributions : ndarray of shape (T, C)
        What each channel adds to the score of each row; NaN counts as 0.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from benchmarks.anomaly.problem import Cause
    >>> labels = np.array([False, True])
    >>> causes = (Cause(1, 2, frozenset({1})),)
    >>> problem = Problem("set", "series", np.zeros((2, 2)), labels, 1, 1, causes)
    >>> right_channels(problem, np.array([[9.0, 0.0], [1.0, 2.0]]))
    1.0
    """
    known = np.nan_to_num(contributions)
    tops = [int(known[cause.start : cause.stop].sum(0).argmax()) for cause in problem.causes]
    right = [top in cause.channels for top, cause in zip(tops, problem.causes, strict=True)]
    return float(np.mean(right))


def rounded(found: Mapping[str, Any]) -> dict[str, Any]:
    """Round to four digits that count, so that lines stay short.

    Examples
    --------
    >>> rounded({"vus_pr": 0.123456, "hit": 1, "delay": None})
    {'vus_pr': 0.1235, 'hit': 1, 'delay': None}
    """
    return {
        name: float(f"{x:.{_DIGITS}g}") if isinstance(x, float) else x for name, x in found.items()
    }


def nab_file(problem: Problem, scores: np.ndarray) -> NabFile:
    """Return scores of a file of NAB in units of their spread in the probationary part.

    One threshold has to serve all files, so their scores must have one scale.

    Parameters
    ----------
    problem : Problem
        A file of NAB.
    scores : ndarray of shape (T,)
        Finite.
    """
    before = scores[: problem.n_train]
    scale = max(float(before.std()), float(np.finfo(np.float32).eps))
    windows = [(start, stop - 1) for start, stop in problem.events]
    return NabFile((scores - before.mean()) / scale, windows, problem.n_train)


def records(scores: np.ndarray) -> np.ndarray:
    """Keep scores that are the highest of the last 200 rows, so that a long alarm is one.

    Parameters
    ----------
    scores : ndarray of shape (T,)
        Finite.

    Returns
    -------
    ndarray of shape (T,)
        All others are the lowest.

    Examples
    --------
    >>> records(np.array([1.0, 3.0, 2.0, 4.0])).tolist()
    [1.0, 3.0, 1.0, 4.0]
    """
    highest = pl.Series(scores).rolling_max(_QUIET, min_samples=1).to_numpy()
    return np.where(scores >= highest, scores, scores.min())


def nab_scores(files: Sequence[NabFile]) -> dict[str, Any]:
    """Return the score of each profile, with the threshold that is best for all files.

    Parameters
    ----------
    files : sequence of NabFile
        All of the benchmark.

    Returns
    -------
    dict
        By profile, and what the standard profile found, missed and falsely alerted; also the score
        of the standard profile where only records are alarms.
    """
    best = {profile: best_nab_threshold(files, profile) for profile in PROFILES}
    standard = best[PROFILES[0]]
    alarms = [file._replace(scores=records(np.asarray(file.scores))) for file in files]
    found = {f"nab_{profile}": float(result.score) for profile, result in best.items()}
    found["nab_records"] = float(best_nab_threshold(alarms).score)
    return rounded(found) | {
        "found": standard.found,
        "missed": standard.missed,
        "false_alerts": standard.false_alerts,
    }
