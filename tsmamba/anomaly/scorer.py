"""What a stream needs of the scores it is made of."""

from typing import Any, Protocol

import numpy as np

from tsmamba.anomaly.plan import Plan


class ScorerState(Protocol):
    """What the score of the next row of one stream depends on."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state as arrays, whose shapes never change."""


class StreamScorer(Protocol):
    """Scores that look back only.

    Attributes
    ----------
    plan : Plan
        What is compared, and the delay.
    past : int
        Missing rows after which nothing of the past is left.
    reach : int
        Rows before the newest whose gaps count for its score.
    warm_up : int
        Rows before the first score.
    """

    plan: Plan
    past: int
    reach: int

    @property
    def warm_up(self) -> int:
        """Rows before the first score."""

    def arrays(self) -> list[np.ndarray]:
        """Return all numbers that scores depend on."""

    def start(self) -> ScorerState:
        """Return the state of a new stream."""

    def restored(self, arrays: dict[str, np.ndarray]) -> ScorerState:
        """Make a state again of its arrays, bit for bit."""

    def advance(self, states: list[Any], rows: np.ndarray) -> np.ndarray:
        """Score rows, (n_streams, n_rows, n_channels), by channel; move the states past them.

        Rows hold NaN where a value is missing.
        """

    def sparse(self, absent: np.ndarray, n: int, usual: np.ndarray) -> np.ndarray:
        """Tell where the last `n` rows have too few values for a channel to say anything.

        Rows before them, (..., n_rows, n_channels), are there as far as `reach`.
        """
