"""The state of one stream, and how rows move it on."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tsmamba.anomaly.answers import Answers
from tsmamba.anomaly.calibration import Drift, Watch
from tsmamba.anomaly.fusion import shared
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
        return cls(
            causal=model.causal.start(),
            watch=drift.watch(model.causal_calibrator.copy()),
            gone=0,
            since=0,
            absent=np.zeros((model.causal.reach, len(model.units.mean)), dtype=bool),
            answers=Answers.start(model.causal.plan.delay),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays; the same after any number of rows."""
        arrays = (*self.causal.arrays().values(), self.absent, self.answers.given)
        watch = self.watch.state().values()
        return sum(array.nbytes for array in arrays) + sum(part.nbytes for part in watch)


class Scored(NamedTuple):
    """Scores of some rows of a stream; each stands for the row that is `delay` earlier.

    Attributes
    ----------
    raw, thresholds, scores, p_values : ndarray of shape (n_rows,)
        ``scores`` are ``raw / thresholds``. All but the thresholds are NaN where there is none.
    contributions : ndarray of shape (n_rows, n_channels)
        They add up to the score.
    warm : ndarray of shape (n_rows,), bool
        False in warm-up.
    missing, drifted : ndarray of shape (n_rows,), bool
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


def advance(model: DetectorModel, states: list[StreamState], values: np.ndarray) -> list[Scored]:
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
    list of Scored
        One a stream.
    """
    absent = np.isnan(values)
    fused = model.causal.advance([state.causal for state in states], model.units.apply(values))
    return [
        _judge(model, state, one, gone)
        for state, one, gone in zip(states, fused, absent, strict=True)
    ]


def _judge(
    model: DetectorModel, state: StreamState, fused: np.ndarray, absent: np.ndarray
) -> Scored:
    """Turn the scores by channel of one stream into calibrated ones."""
    n = len(fused)
    missing = np.asarray(absent.all(axis=-1))
    warm = _count(state, missing, model.causal.past) > model.causal.warm_up
    absent = np.concatenate([state.absent, absent])
    state.absent = absent[n:].copy()
    newest = len(absent) - model.causal.plan.delay
    gone = absent[newest - n : newest].all(axis=-1)
    parts = shared(fused, model.causal.sparse(absent, n, model.units.known))
    raw = np.where(warm & ~gone, parts.sum(axis=-1), np.nan)
    thresholds, p_values, drifted = state.watch.step(raw)
    return Scored(
        raw=raw,
        thresholds=thresholds,
        scores=raw / thresholds,
        p_values=p_values,
        contributions=parts / thresholds[:, None],
        warm=warm,
        missing=gone | (warm & np.isnan(raw)),
        drifted=drifted,
    )


def _count(state: StreamState, missing: np.ndarray, past: int) -> np.ndarray:
    """Count rows since the start or since a gap that left nothing of the past."""
    rows = np.arange(len(missing))
    if state.gone == 0 and not missing.any():
        since = state.since + 1 + rows
    else:
        present = np.maximum.accumulate(np.where(missing, -1, rows))
        run = np.where(present < 0, state.gone + 1 + rows, rows - present)
        run = np.where(missing, run, 0)
        restart = np.maximum.accumulate(np.where(run > past, rows, -1))
        since = np.where(restart < 0, state.since + 1 + rows, rows - restart)
        state.gone = min(int(run[-1]), past + 1)
    state.since = int(since[-1])
    return since
