"""Scores of a whole series at once, in either mode."""

from typing import NamedTuple

import numpy as np

from tsmamba.anomaly.calibration import Drift
from tsmamba.anomaly.model import DetectorModel, PatchModel
from tsmamba.anomaly.state import Scored, StreamState, advance


class Batch(NamedTuple):
    """Scores of rows.

    Attributes
    ----------
    raw : ndarray of shape (n_rows,)
        Before calibration; higher is worse. NaN where a row has no score.
    scores, p_values : ndarray of shape (n_rows,)
        Calibrated: 1.0 is the alert threshold.
    contributions : ndarray of shape (n_rows, n_channels)
        They add up to the score.
    statuses : ndarray of shape (n_rows,), str
        "ok", "drift" as of a stream, or why a row has no score: "missing", "warmup", or "delayed"
        where a stream waits for later rows.
    """

    raw: np.ndarray
    scores: np.ndarray
    p_values: np.ndarray
    contributions: np.ndarray
    statuses: np.ndarray

    def at(self, places: np.ndarray) -> "Batch":
        """Return some rows."""
        return Batch(*(part[places] for part in self))


def score_offline(model: PatchModel, values: np.ndarray) -> Batch:
    """Score rows with what lies before and after them.

    Parameters
    ----------
    model : PatchModel
        Fitted.
    values : ndarray of shape (n_rows, n_channels)
        Raw rows, NaN where missing.

    Returns
    -------
    Batch
        With a score for every row that is not far inside a gap.
    """
    parts = model.offline_contributions(values)
    raw = parts.sum(axis=1)
    thresholds, p_values = model.offline_calibrator.copy().step(raw)
    statuses = np.where(np.isnan(raw), "missing", "ok")
    return Batch(raw, raw / thresholds, p_values, parts / thresholds[:, None], statuses)


def score_streaming(model: DetectorModel, values: np.ndarray, drift: Drift) -> Batch:
    """Score rows as a new stream would.

    Parameters
    ----------
    model : DetectorModel
        Fitted.
    values : ndarray of shape (n_rows, n_channels)
        Raw rows, NaN where missing.
    drift : Drift
        Of the stream.

    Returns
    -------
    Batch
        Without a score in warm-up, where a row is missing, and for the last rows of a stream with a
        delay.
    """
    streams = advance(model, [StreamState.start(model, drift)], values[None])
    scored = Scored(*(part[0] for part in streams))
    delay = model.causal.plan.delay
    parts = np.where(np.isnan(scored.scores)[:, None], np.nan, scored.contributions)
    statuses = np.select(
        [scored.missing, ~scored.warm, scored.drifted], ["missing", "warmup", "drift"], "ok"
    )
    return Batch(
        _earlier(scored.raw, delay),
        _earlier(scored.scores, delay),
        _earlier(scored.p_values, delay),
        _earlier(parts, delay),
        _earlier(statuses, delay, "delayed"),
    )


def _earlier(scores: np.ndarray, delay: int, last: float | str = np.nan) -> np.ndarray:
    """Move each score to the row it is of; the last rows have none."""
    out = np.full_like(scores, last)
    out[: max(0, len(scores) - delay)] = scores[delay:]
    return out
