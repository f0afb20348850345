"""Scores of the rows of a frame, side by side in a frame."""

from typing import Any

import polars as pl

from tsmamba.anomaly.estimator import MambaDetector


def score_table(detector: MambaDetector, X: Any) -> pl.DataFrame:
    """Score rows once and say all that users ask of them.

    Parameters
    ----------
    detector : MambaDetector
        Fitted.
    X : array-like of shape (n_rows, n_channels) or frame
        As for its `anomaly_score`.

    Returns
    -------
    polars.DataFrame of n_rows rows
        ``score`` and ``p_value``, null where a row has none, ``is_anomaly``, and ``status``: "ok",
        "drift" as of a stream, or why there is no score: "missing", "warmup" or "delayed".

    Raises
    ------
    NotFittedError, ParameterError, FrameError
        As `anomaly_score` does.

    Examples
    --------
    >>> import numpy as np
    >>> detector = MambaDetector("tiny").fit(np.arange(50.0)[:, None] % 5)
    >>> score_table(detector, [[2.0], [99.0], [np.nan]]).select("is_anomaly", "status").rows()
    [(False, 'ok'), (True, 'ok'), (False, 'missing')]
    """
    scored = detector._score(X)
    table = pl.DataFrame({"score": scored.scores, "p_value": scored.p_values}).fill_nan(None)
    return table.with_columns(
        is_anomaly=pl.col("score").ge(1.0).fill_null(value=False),
        status=pl.Series(scored.statuses.tolist(), dtype=pl.String),
    )
