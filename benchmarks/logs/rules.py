"""The trivial rules that a model of sessions has to beat: what is new, how long, how many."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rules"]

Sessions = list[list[int]]


class Rules:
    """Unseen templates, length, and the distance of log counts to the nearest training session.

    After Landauer, Skopik and Wurzenberger (2024), who show how far these go on public sets.
    """

    def __init__(self, train: Sessions) -> None:
        self.known = {template for session in train for template in session}
        self.columns = {template: i for i, template in enumerate(sorted(self.known))}
        lengths = [len(session) for session in train]
        self.shortest, self.longest = min(lengths), max(lengths)
        kinds = {tuple(sorted(Counter(session).items())) for session in train}
        self.rows = np.array([self._row(dict(kind)) for kind in kinds])

    def scores(self, sessions: Sessions) -> dict[str, NDArray[np.float64]]:
        """Score of each session by each rule, and by all of them fused."""
        parts = np.array([self._parts(session) for session in sessions])
        unseen, length, counts = parts.T
        return {
            "unseen template": unseen,
            "length": length,
            "counts": counts,
            "all three": counts + 10.0 * (unseen + length),
        }

    def _parts(self, session: list[int]) -> tuple[float, float, float]:
        unseen = sum(template not in self.known for template in session)
        beyond = max(self.shortest - len(session), len(session) - self.longest, 0)
        far = np.abs(self.rows - self._row(Counter(session))).sum(axis=1).min()
        return float(unseen), float(beyond), float(far)

    def _row(self, counts: dict[int, int]) -> NDArray[np.float64]:
        row = np.zeros(len(self.columns) + 1)
        for template, count in counts.items():
            row[self.columns.get(template, -1)] += np.log1p(count)
        return row
