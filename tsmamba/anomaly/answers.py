"""Results of a stream that waits before it scores: one for each row given, in their order."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tsmamba.anomaly.result import Result, Status, Time

if TYPE_CHECKING:
    from tsmamba.anomaly.state import Scored


@dataclass
class Answers:
    """Rows of one series that were given and have no result yet.

    They are as many as the delay at any time. Rows that the times left out are scored, too, to let
    time pass, and have no result. So more than one row may get its score when a row comes after a
    gap; the results then wait here, and each row given takes one out.

    Parameters
    ----------
    given : ndarray of shape (delay,), bool
        Whether the rows not yet scored were given.
    times : list of int, datetime or None
        Times of those that were.
    ready : list of Result
        Of the rows before them.
    """

    given: np.ndarray
    times: list[Time | None]
    ready: list[Result]

    @classmethod
    def start(cls, delay: int) -> "Answers":
        """Return what the first rows of a series are answered with: warm-up."""
        return cls(np.ones(delay, dtype=bool), [None] * delay, [])

    def take(
        self, key: str | None, scored: "Scored", given: np.ndarray, times: list[Time | None]
    ) -> list[Result]:
        """Take in rows and scores, and hand out a result for each row given.

        Parameters
        ----------
        key : str or None
            The series.
        scored : Scored
            What `advance` said of the rows.
        given : ndarray of shape (n_rows,), bool
            Whether the rows were given.
        times : list of int, datetime or None
            Times of those that were.

        Returns
        -------
        list of Result
            One for each time.
        """
        n = len(given)
        rows = np.concatenate([self.given, given])
        waiting = [*self.times, *times]
        places = np.flatnonzero(rows[:n]).tolist()
        ready = [*self.ready]
        ready += [
            _result(key, scored, i, t) for i, t in zip(places, waiting[: len(places)], strict=True)
        ]
        self.given, self.times = rows[n:].copy(), waiting[len(places) :]
        self.ready = ready[len(times) :]
        return ready[: len(times)]


def _result(key: str | None, scored: "Scored", i: int, t: Time | None) -> Result:
    """Put the score of row `i` into words."""
    status = _status(scored, i)
    if status in ("warmup", "missing"):
        return Result(None, None, False, status, None, t, key)
    score = float(scored.scores[i])
    return Result(
        score=score,
        p_value=float(scored.p_values[i]),
        is_anomaly=score >= 1.0,
        status=status,
        channel_contrib=scored.contributions[i].copy(),  # a view would keep all rows alive
        t=t,
        key=key,
    )


def _status(scored: "Scored", i: int) -> Status:
    if scored.missing[i]:
        return "missing"
    if not scored.warm[i]:
        return "warmup"
    return "drift" if scored.drifted[i] else "ok"
