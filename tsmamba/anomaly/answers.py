"""Results of a stream that waits before it scores: one for each row given, in their order."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tsmamba.anomaly.result import Result, Status, Time

# Of a row: whether it is missing, warm and at a change of level, score, p-value, parts by channel.
Told: TypeAlias = tuple[bool, bool, bool, float, float, np.ndarray]


@dataclass
class Answers:
    """Rows of one series that were given and have no result yet.

    They are as many as the delay at any time. Rows that the times left out are scored, too, to let
    time pass, and have no result. So more than one row may get its score when a row comes after a
    gap; the results then wait here, and each row given takes one out.

    Parameters
    ----------
    given : deque of bool
        Whether the rows not yet scored were given.
    times : deque of int, datetime or None
        Times of those that were.
    ready : deque of Result
        Of the rows before them.
    """

    given: deque[bool]
    times: deque[Time | None]
    ready: deque[Result]

    @classmethod
    def start(cls, delay: int) -> "Answers":
        """Return what the first rows of a series are answered with: warm-up."""
        return cls(deque([True] * delay), deque([None] * delay), deque())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the part of the state whose size never changes."""
        return {"given": np.array(self.given, dtype=bool)}

    def take(
        self,
        key: str | None,
        rows: Iterable[Told],
        given: Iterable[bool],
        times: Sequence[Time | None],
    ) -> list[Result]:
        """Take in rows and scores, and hand out a result for each row given.

        Parameters
        ----------
        key : str or None
            The series.
        rows : iterable of tuple
            What `Scored.told` said of them.
        given : iterable of bool
            Whether the rows were given.
        times : sequence of int, datetime or None
            Times of those that were.

        Returns
        -------
        list of Result
            One for each time.
        """
        self.given.extend(given)
        self.times.extend(times)
        for row in rows:
            if self.given.popleft():
                self.ready.append(_result(key, row, self.times.popleft()))
        return [self.ready.popleft() for _ in times]


def _result(key: str | None, row: Told, t: Time | None) -> Result:
    """Put the score of a row into words."""
    missing, warm, drifted, score, p_value, parts = row
    if missing or not warm:
        return Result(None, None, False, "missing" if missing else "warmup", None, t, key)
    status: Status = "drift" if drifted else "ok"
    # A copy, as a view would keep all rows alive.
    return Result(score, p_value, score >= 1.0, status, parts.copy(), t, key)
