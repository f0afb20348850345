"""The score of the Numenta Anomaly Benchmark: early alerts are rewarded, false ones cost."""

import operator
from collections.abc import Sequence
from numbers import Real
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from tsmamba.errors import ParameterError
from tsmamba.metrics.checks import check_scores, check_whole

Profile = Literal["standard", "reward_low_FP_rate", "reward_low_FN_rate"]

# What a false alert costs, and what a missed window costs; a window found at once earns 1.
_COSTS = {
    "standard": (0.11, 1.0),
    "reward_low_FP_rate": (0.22, 1.0),
    "reward_low_FN_rate": (0.11, 2.0),
}


_Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class NabFile(NamedTuple):
    """Scores of one series, and where its anomalies are.

    Parameters
    ----------
    scores : array-like of shape (T,)
        Higher is worse.
    windows : sequence of (int, int)
        First and last row of each anomaly, both inside it, counted from 0, in order of time and
        apart from each other; may be empty.
    probation : int >= 0, optional
        How many first rows are not judged; by default 15 % of the rows, of at most 5,000.

    Examples
    --------
    >>> NabFile(np.zeros(1000), [(300, 349)]).probation is None
    True
    """

    scores: ArrayLike
    windows: Sequence[tuple[int, int]]
    probation: int | None = None


class NabScore(NamedTuple):
    """How a threshold does on a corpus.

    Parameters
    ----------
    score : float
        100 is perfect and 0 is no alert at all; false alerts may bring it below.
    threshold : float
        Scores from here on are alerts; infinite where it is best never to alert.
    found, missed : int
        Windows with and without an alert.
    false_alerts : int
        Alerts outside windows.

    Examples
    --------
    >>> nab_score([NabFile([0, 0, 0, 1, 0], [(2, 3)], probation=0)], threshold=1.0).found
    1
    """

    score: float
    threshold: float
    found: int
    missed: int
    false_alerts: int


class _Gains(NamedTuple):
    """What the total gains as the threshold falls to each score.

    Parameters
    ----------
    scores, gains : float ndarray of shape (rows,)
        Only rows that change the total as they are alerted.
    finds, false : bool ndarray of shape (rows,)
        Whether the row is the first of its window to be alerted, or lies outside windows.
    windows : int
        How many windows there are to be found.
    """

    scores: np.ndarray
    gains: np.ndarray
    finds: np.ndarray
    false: np.ndarray
    windows: int


def nab_score(
    files: Sequence[NabFile], threshold: float, profile: Profile = "standard"
) -> NabScore:
    """Score of a corpus at one threshold for all its files.

    The first alert in a window earns up to 1, the earlier the more; later ones in it count for
    nothing. An alert outside costs, less shortly after a window. A window without alert costs too.
    The sum is scaled so that no alert at all gives 0 and an alert at the start of each window 100.

    Use it for online detectors whose early alerts are worth more than late ones, with scores that
    were made in order of time. It is no fit for detectors that see the whole series, and its
    windows are wide: about a tenth of each file of the benchmark lies in them.

    Parameters
    ----------
    files : sequence of NabFile
        Scores and windows of each series.
    threshold : float
        Scores from here on are alerts. One that was tuned on these windows gives the published kind
        of number, which says more than new data would; see `best_nab_threshold`.
    profile : "standard", "reward_low_FP_rate" or "reward_low_FN_rate", default "standard"
        The second doubles the cost of false alerts, the third that of missed windows.

    Returns
    -------
    NabScore
        The score, and what was found, missed and falsely alerted.

    Raises
    ------
    ParameterError
        If no file has a window to be found, windows overlap or lie outside the scores, scores hold
        a NaN or an infinity, the threshold is NaN, or the profile is none of the three.

    References
    ----------
    Lavin and Ahmad, "Evaluating real-time anomaly detection algorithms: the Numenta anomaly
    benchmark", 2015; the formulas are those of its published scores.

    Examples
    --------
    >>> scores = np.zeros(1000)
    >>> scores[[310, 700]] = 1.0
    >>> result = nab_score([NabFile(scores, [(300, 349)])], threshold=0.5)
    >>> round(result.score, 1), result.found, result.false_alerts
    (93.4, 1, 1)
    """
    if not isinstance(threshold, Real) or np.isnan(threshold):
        raise ParameterError(f"threshold={threshold!r}; pass a number")
    gains = _gains(files, profile)
    alerted = gains.scores >= threshold
    return _result(gains, alerted, float(gains.gains[alerted].sum()), threshold, profile)


def best_nab_threshold(files: Sequence[NabFile], profile: Profile = "standard") -> NabScore:
    """Find the threshold with the best score of a corpus: how published scores are made.

    It chooses on the windows that it is scored on. For an honest number, choose on some files and
    pass the threshold to `nab_score` with the others.

    Parameters
    ----------
    files : sequence of NabFile
        Scores and windows of each series.
    profile : "standard", "reward_low_FP_rate" or "reward_low_FN_rate", default "standard"
        See `nab_score`.

    Returns
    -------
    NabScore
        The score at the best of all thresholds, the highest of equally good ones.

    Raises
    ------
    ParameterError
        As `nab_score`.

    Examples
    --------
    >>> scores = np.zeros(1000)
    >>> scores[310], scores[700] = 1.0, 0.8
    >>> best_nab_threshold([NabFile(scores, [(300, 349)])]).threshold
    1.0
    """
    gains = _gains(files, profile)
    order = np.argsort(-gains.scores)
    falling = gains.scores[order]
    # Equal scores are alerted together, so totals are read where the next score is lower.
    steps = np.flatnonzero(np.append(np.diff(falling) < 0, len(falling) > 0))
    totals = np.append(0.0, np.cumsum(gains.gains[order])[steps])
    best = int(totals.argmax())
    threshold = float(np.append(np.inf, falling[steps])[best])
    return _result(gains, gains.scores >= threshold, float(totals[best]), threshold, profile)


def _result(
    gains: _Gains, alerted: np.ndarray, total: float, threshold: float, profile: Profile
) -> NabScore:
    found = int(np.count_nonzero(gains.finds & alerted))
    return NabScore(
        score=100 * total / (gains.windows * (1 + _COSTS[profile][1])),
        threshold=float(threshold),
        found=found,
        missed=gains.windows - found,
        false_alerts=int(np.count_nonzero(gains.false & alerted)),
    )


def _gains(files: Sequence[NabFile], profile: Profile) -> _Gains:
    if profile not in _COSTS:
        raise ParameterError(
            f"profile={profile!r}; pass one of {', '.join(map(repr, get_args(Profile)))}"
        )
    false_cost, miss_cost = _COSTS[profile]
    parts, counted = [], 0
    for number, file in enumerate(files):
        scores = check_scores(file.scores, f"files[{number}].scores")
        windows = _checked_windows(file, number, len(scores))
        begin = _probation(file, number, len(scores))
        parts.append(_outside(scores, windows, begin, false_cost))
        judged = [window for window in windows if window[1] >= begin]
        parts += [_inside(scores, window, begin, miss_cost) for window in judged]
        counted += len(judged)
    if not counted:
        raise ParameterError(
            f"files holds {len(files)} files and no window after the probation of its file; this "
            "score is not defined without an anomaly to be found"
        )
    scores, gains, finds, false = map(np.concatenate, zip(*parts, strict=True))
    return _Gains(scores, gains, finds, false, counted)


def _outside(scores: np.ndarray, windows: np.ndarray, begin: int, cost: float) -> _Part:
    """Every alert outside windows costs, but little shortly after one."""
    firsts, lasts = windows.T
    rows = np.arange(begin, len(scores))
    ended = np.searchsorted(lasts, rows)
    outside = ended == np.searchsorted(firsts, rows, side="right")
    rows, last = rows[outside], ended[outside] - 1
    places = np.full(len(rows), np.inf)
    after = last >= 0
    last = last[after]
    places[after] = (rows[after] - lasts[last]) / np.maximum(lasts[last] - firsts[last], 1)
    marks = np.ones(len(rows), dtype=bool)
    return scores[rows], cost * _worth(places), ~marks, marks


def _inside(scores: np.ndarray, window: np.ndarray, begin: int, cost: float) -> _Part:
    """Only the first alert counts, so only rows higher than all before them change the total."""
    first, last = window
    rows = np.arange(max(first, begin), last + 1)
    highest = np.maximum.accumulate(scores[rows])
    rows = rows[np.append(True, highest[1:] > highest[:-1])]
    worth = _worth((rows - last - 1) / (last + 1 - first)) / _worth(-1.0)
    finds = rows == rows[-1]
    return scores[rows], worth - np.append(worth[1:], -cost), finds, np.zeros_like(finds)


def _worth(place: ArrayLike) -> np.ndarray:
    """Near 1 at the start of a window, place -1; 0 at its end, place 0; -1 from place 3 on."""
    place = np.asarray(place, dtype=float)
    return np.where(place >= 3, -1.0, 2 / (1 + np.exp(5 * np.minimum(place, 3))) - 1)


def _probation(file: NabFile, number: int, rows: int) -> int:
    if file.probation is None:
        return int(0.15 * min(rows, 5000))
    return check_whole(file.probation, f"files[{number}].probation")


def _checked_windows(file: NabFile, number: int, rows: int) -> np.ndarray:
    refusal = ParameterError(
        f"files[{number}].windows={file.windows!r} with {rows:,} scores; pass first and last row "
        "of each window, counted from 0, in order of time and without overlap"
    )
    try:
        pairs = [(operator.index(first), operator.index(last)) for first, last in file.windows]
    except (TypeError, ValueError):
        raise refusal from None
    edges = np.array(pairs, dtype=int).ravel()
    lengths, gaps = np.diff(edges)[::2], np.diff(edges)[1::2]
    inside = (edges[:1] >= 0).all() and (edges[-1:] < rows).all()
    if not (inside and (lengths >= 0).all() and (gaps > 0).all()):
        raise refusal
    return edges.reshape(-1, 2)
