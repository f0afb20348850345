"""The state of one stream, and how rows move it on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tsmamba.anomaly.answers import Answers, Told
from tsmamba.anomaly.calibration import Drift, Watch, judged
from tsmamba.anomaly.fusion import joined, shared
from tsmamba.anomaly.model import DetectorModel
from tsmamba.anomaly.result import Time
from tsmamba.anomaly.scorer import ScorerState


@dataclass
class StreamState:
    """All that the next score of a stream depends on.

    Parameters
    ----------
    causal : ScorerState
        Of the scorer.
    watch : Watch
        Threshold, p-values and drift.
    gone : int
        Missing rows since the last one that was there.
    since : int
        Rows since the start, or since a gap as long as a patch.
    absent : ndarray of shape (reach, n_channels), bool
        Which values were missing in the last rows that the next score depends on.
    waiting : ndarray of shape (delay, n_channels)
        Rows not yet scored, standardised, NaN where missing; none where rows are not compared as
        a whole.
    answers : Answers
        Results that the rows not yet scored are to have.
    t : int or datetime, optional
        Time of the newest row.
    late : float
        Steps that it is behind the clock of the series, see `Pace.rows`.
    """

    causal: ScorerState
    watch: Watch
    gone: int
    since: int
    absent: np.ndarray
    waiting: np.ndarray
    answers: Answers
    t: Time | None = None
    late: float = 0.0

    @classmethod
    def start(cls, model: DetectorModel, drift: Drift) -> "StreamState":
        """Return the state before the first row.

        Parameters
        ----------
        model : DetectorModel
            Fitted.
        drift : Drift
            When a new level counts as normal.

        Returns
        -------
        StreamState
        """
        channels, delay = len(model.units.mean), model.causal.plan.delay
        return cls(
            causal=model.causal.start(),
            watch=drift.watch(model.causal_calibrator.copy()),
            gone=0,
            since=0,
            absent=np.zeros((model.causal.reach, channels), dtype=bool),
            waiting=np.full((delay if model.joint else 0, channels), np.nan),
            answers=Answers.start(delay),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays; the same after any number of rows."""
        parts = (self.causal.arrays(), self.watch.state(), self.answers.arrays())
        own = self.absent.nbytes + self.waiting.nbytes
        return own + sum(x.nbytes for part in parts for x in part.values())


class Scored(NamedTuple):
    """Scores of some rows of streams; each stands for the row that is `delay` earlier.

    Attributes
    ----------
    raw, thresholds, scores, p_values : ndarray of shape (n_streams, n_rows)
        ``scores`` are ``raw / thresholds``. All but the thresholds are NaN where there is none.
    contributions : ndarray of shape (n_streams, n_rows, n_channels)
        They add up to the score.
    warm : ndarray of shape (n_streams, n_rows), bool
        False in warm-up.
    missing, drifted : ndarray of shape (n_streams, n_rows), bool
        Rows that are missing, themselves or with too much of what is around them, and rows after
        which a new level counts as normal.
    """

    raw: np.ndarray
    thresholds: np.ndarray
    scores: np.ndarray
    p_values: np.ndarray
    contributions: np.ndarray
    warm: np.ndarray
    missing: np.ndarray
    drifted: np.ndarray

    def told(self) -> Iterator[Iterator[Told]]:
        """Tell of each stream what `Answers.take` asks of its rows."""
        parts = (self.missing, self.warm, self.drifted, self.scores, self.p_values)
        columns = (part.tolist() for part in parts)
        return (
            zip(*stream, strict=True) for stream in zip(*columns, self.contributions, strict=True)
        )


def longest_gap(model: DetectorModel) -> int:
    """Tell after how many missing rows the state no longer changes.

    Parameters
    ----------
    model : DetectorModel
        Fitted.

    Returns
    -------
    int
    """
    return max(model.causal.warm_up, model.causal.past) + model.causal.plan.delay + 1


def advance(model: DetectorModel, states: list[StreamState], values: np.ndarray) -> Scored:
    """Score rows of streams and move the states past them.

    Parameters
    ----------
    model : DetectorModel
        Fitted.
    states : list of StreamState
        One a stream, changed in place.
    values : ndarray of shape (n_streams, n_rows, n_channels)
        Raw rows, NaN where missing.

    Returns
    -------
    Scored
    """
    n, causal = values.shape[1], model.causal
    absent = np.isnan(values)
    rows = model.units.apply(values)
    fused = causal.advance([state.causal for state in states], rows)
    warm = _counted(states, absent.all(axis=-1), causal.past) > causal.warm_up
    around = _around(states, absent)
    newest = around.shape[1] - causal.plan.delay
    gone = around[:, newest - n : newest].all(axis=-1)
    parts = shared(fused, causal.sparse(around, n, model.units.known))
    if model.joint:
        parts = joined(parts, model.joint.excess(_due(states, rows)))
    raw = np.where(warm & ~gone, parts.sum(axis=-1), np.nan)
    thresholds, p_values, drifted = judged([state.watch for state in states], raw)
    return Scored(
        raw=raw,
        thresholds=thresholds,
        scores=raw / thresholds,
        p_values=p_values,
        contributions=parts / thresholds[..., None],
        warm=warm,
        missing=gone | (warm & np.isnan(raw)),
        drifted=drifted,
    )


def _due(states: list[StreamState], rows: np.ndarray) -> np.ndarray:
    """Return the rows that these let be scored, and keep those that wait."""
    delay = len(states[0].waiting)
    if not delay:
        return rows
    waiting = np.concatenate([state.waiting for state in states])
    known = np.concatenate([waiting.reshape(len(states), delay, -1), rows], axis=1)
    for state, last in zip(states, known[:, -delay:], strict=True):
        state.waiting = last.copy()
    return known[:, :-delay]


def _around(states: list[StreamState], absent: np.ndarray) -> np.ndarray:
    """Return which values are missing from `reach` rows before these on, and keep the last."""
    before = np.concatenate([state.absent for state in states])
    before = before.reshape(len(states), *states[0].absent.shape)
    around = np.concatenate([before, absent], axis=1)
    if around.any():  # otherwise what is kept stays as it is
        for state, last in zip(states, around[:, absent.shape[1] :], strict=True):
            state.absent = last.copy()
    return around


def _counted(states: list[StreamState], missing: np.ndarray, past: int) -> np.ndarray:
    """Count rows since the start or since a gap that left nothing of the past."""
    rows = np.arange(missing.shape[1])
    since = np.array([[state.since] for state in states]) + 1 + rows
    if missing.any() or any(state.gone for state in states):
        gone = np.array([[state.gone] for state in states])
        present = np.maximum.accumulate(np.where(missing, -1, rows), axis=1)
        run = np.where(present < 0, gone + 1 + rows, rows - present)
        run = np.where(missing, run, 0)
        restart = np.maximum.accumulate(np.where(run > past, rows, -1), axis=1)
        since = np.where(restart < 0, since, rows - restart)
        for state, newest in zip(states, run[:, -1].tolist(), strict=True):
            state.gone = min(newest, past + 1)
    for state, newest in zip(states, since[:, -1].tolist(), strict=True):
        state.since = newest
    return since
