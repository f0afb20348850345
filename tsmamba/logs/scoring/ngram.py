"""What follows what: a back-off n-gram over templates with absolute discount."""

import math
from typing import Any

__all__ = ["START", "STOP", "NGram"]

# Marks around a session. Templates are numbered from 0, and -1 is one that nobody knows.
START = -2
STOP = -3

# Taken from every count and given to the shorter context (Ney, Essen and Kneser 1994).
_DISCOUNT = 0.5


class NGram:
    """Cost of a template after the templates before it.

    Parameters
    ----------
    order : int
        Length of the longest sequence that is counted: the next template and ``order - 1`` before.
    max_contexts : int
        Bound of the table. Beyond it all counts are halved and what was seen once is forgotten.

    Examples
    --------
    >>> model = NGram(order=3)
    >>> for _ in range(50):
    ...     model.add((1, 2), 3)
    >>> round(model.cost((1, 2), 3), 2), round(model.cost((1, 2), 9), 2)
    (0.0, 14.51)
    """

    def __init__(self, order: int = 4, max_contexts: int = 200_000) -> None:
        self.order = order
        self.max_contexts = max_contexts
        self.table: dict[tuple[int, ...], dict[int, float]] = {}
        self.totals: dict[tuple[int, ...], float] = {}

    def cost(self, before: tuple[int, ...], template: int) -> float:
        """Minus the logarithm of the probability of a template; longer contexts weigh first."""
        table, totals = self.table, self.totals
        known = table.get(())
        if not known:
            return 0.0
        p = 1.0 / (len(known) + 1)
        length = len(before)
        for start in range(length, max(length - self.order, -1), -1):
            context = before[start:]
            counts = table.get(context)
            if not counts:
                break
            total = totals[context]
            p *= _DISCOUNT * len(counts)
            count = counts.get(template)
            if count is not None:
                p += count - _DISCOUNT
            p /= total
        return -math.log(p)

    def add(self, before: tuple[int, ...], template: int) -> None:
        """Count a template after the templates before it."""
        table, totals = self.table, self.totals
        length = len(before)
        for start in range(length, max(length - self.order, -1), -1):
            context = before[start:]
            counts = table.get(context)
            if counts is None:
                table[context] = {template: 1.0}
                totals[context] = 1.0
            else:
                counts[template] = counts.get(template, 0.0) + 1.0
                totals[context] += 1.0
        if len(table) > self.max_contexts:
            self._fade()

    def step(self, before: tuple[int, ...], template: int) -> float:
        """Cost of a template after the templates before it, which is counted."""
        table, totals = self.table, self.totals
        p = 1.0 / (len(table.get((), ())) + 1)
        known = True
        for start in range(len(before), max(len(before) - self.order, -1), -1):
            context = before[start:]
            counts = table.get(context)
            if not counts:
                known = False
                table[context] = {template: 1.0}
                totals[context] = 1.0
                continue
            count = counts.get(template, 0.0)
            if known:
                total = totals[context]
                p *= _DISCOUNT * len(counts)
                if count:
                    p += count - _DISCOUNT
                p /= total
            counts[template] = count + 1.0
            totals[context] += 1.0
        if len(table) > self.max_contexts:
            self._fade()
        return -math.log(p)

    def costs(self, sequence: list[int]) -> list[float]:
        """Cost of each template of a whole session, and of its end."""
        marked = (START, *sequence, STOP)
        reach = self.order - 1
        return [self.cost(marked[max(0, i - reach) : i], marked[i]) for i in range(1, len(marked))]

    def add_sequence(self, sequence: list[int]) -> None:
        """Count a whole session."""
        marked = (START, *sequence, STOP)
        reach = self.order - 1
        for i in range(1, len(marked)):
            self.add(marked[max(0, i - reach) : i], marked[i])

    def rename(self, old: int, new: int) -> None:
        """Count what was seen as template `old` for template `new`."""
        if old not in self.table.get((), {}):
            return
        before, self.table, self.totals = self.table, {}, {}
        for context, counts in before.items():
            name = tuple(new if part == old else part for part in context)
            merged = self.table.setdefault(name, {})
            for template, count in counts.items():
                target = new if template == old else template
                merged[target] = merged.get(target, 0.0) + count
            self.totals[name] = sum(merged.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "order": self.order,
            "max_contexts": self.max_contexts,
            "table": [[context, list(counts.items())] for context, counts in self.table.items()],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "NGram":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["order"], state["max_contexts"])
        new.table = {tuple(context): dict(counts) for context, counts in state["table"]}
        new.totals = {context: sum(counts.values()) for context, counts in new.table.items()}
        return new

    def _fade(self) -> None:
        faded = {}
        for context, counts in self.table.items():
            left = {t: c / 2.0 for t, c in counts.items() if c / 2.0 >= 1.0}
            if left or not context:
                faded[context] = left
        self.table = faded
        self.totals = {context: sum(counts.values()) for context, counts in faded.items()}
