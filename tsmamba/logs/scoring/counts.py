"""Distance of a session's counts to the nearest session of a clean training log."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NearestCounts"]


class NearestCounts:
    """Counts of templates of the sessions that were seen, each kind once.

    Useful only if all that is normal was seen, and nothing else: after a change of the log's habits
    everything is far away (Landauer et al. 2024 show how much counts alone solve on clean data).

    Parameters
    ----------
    max_sessions : int
        Kinds of sessions that are kept, the first ones.

    Examples
    --------
    >>> seen = NearestCounts()
    >>> seen.add([1, 2, 2, 3])
    >>> seen.distance([3, 2, 1, 2]), round(seen.distance([1, 2, 2]), 2)
    (0.0, 0.69)
    """

    def __init__(self, max_sessions: int = 4_096) -> None:
        self.max_sessions = max_sessions
        self._kinds: dict[tuple[tuple[int, int], ...], None] = {}
        self._columns: dict[int, int] = {}
        self._rows: NDArray[np.float32] = np.zeros((0, 0), np.float32)

    def distance(self, sequence: list[int]) -> float:
        """Sum of the differences of log counts to the nearest kind of session."""
        if not self._kinds:
            return 0.0
        counts = _counts(sequence)
        rows = self._matrix()
        point = np.zeros(rows.shape[1], np.float32)
        unknown = 0.0
        for template, count in counts:
            column = self._columns.get(template)
            if column is None:
                unknown += float(np.log1p(count))
            else:
                point[column] = np.log1p(count)
        return float(np.abs(rows - point).sum(axis=1).min()) + unknown

    def add(self, sequence: list[int]) -> None:
        """Take in a session."""
        if len(self._kinds) < self.max_sessions:
            self._kinds.setdefault(_counts(sequence))

    def rename(self, old: int, new: int) -> None:
        """Count what was seen as template `old` for template `new`."""
        kinds = list(self._kinds)
        self._kinds = {}
        for kind in kinds:
            self.add([new if t == old else t for t, count in kind for _ in range(count)])
        self._rows = self._rows[:0]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {"max_sessions": self.max_sessions, "kinds": list(self._kinds)}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "NearestCounts":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["max_sessions"])
        for kind in state["kinds"]:
            new._kinds[tuple((template, count) for template, count in kind)] = None
        return new

    def _matrix(self) -> NDArray[np.float32]:
        """Log counts of all kinds, with room for those that come."""
        if len(self._rows) != len(self._kinds):
            names = sorted({template for kind in self._kinds for template, _ in kind})
            self._columns = {name: i for i, name in enumerate(names)}
            self._rows = np.zeros((len(self._kinds), len(names)), np.float32)
            for row, kind in zip(self._rows, self._kinds, strict=True):
                for template, count in kind:
                    row[self._columns[template]] = np.log1p(count)
        return self._rows


def _counts(sequence: list[int]) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for template in sequence:
        counts[template] = counts.get(template, 0) + 1
    return tuple(sorted(counts.items()))
