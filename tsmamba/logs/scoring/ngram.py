"""What follows what: a back-off n-gram over templates with absolute discount."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["START", "STOP", "NGram"]

# Marks around a session. Templates are numbered from 0, and -1 is one that nobody knows.
START = -2
STOP = -3

# Taken from every count and given to the shorter context (Ney, Essen and Kneser 1994).
_DISCOUNT = 0.5


class _Context:
    """What came after some templates, and the longer contexts by the template before them."""

    __slots__ = ("counts", "longer", "total")

    def __init__(self) -> None:
        self.counts: dict[int, float] = {}
        self.total = 0.0
        self.longer: dict[int, _Context] = {}


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
    ...     _ = model.step((1, 2), 3)
    >>> round(model.cost((1, 2), 3), 2), round(model.cost((1, 2), 9), 2)
    (0.0, 14.51)
    """

    def __init__(self, order: int = 4, max_contexts: int = 200_000) -> None:
        self.order = order
        self.max_contexts = max_contexts
        self.n_contexts = 1
        self._root = _Context()

    def knows(self, template: int) -> bool:
        """Whether a template was ever counted."""
        return template in self._root.counts

    def cost(self, before: tuple[int, ...], template: int) -> float:
        """Minus the logarithm of the probability of a template; longer contexts weigh first."""
        context = self._root
        p = 1.0 / (len(context.counts) + 1)
        place = len(before)
        last = max(place - self.order + 1, 0)
        while context.counts:
            p *= _DISCOUNT * len(context.counts)
            count = context.counts.get(template)
            if count is not None:
                p += count - _DISCOUNT
            p /= context.total
            place -= 1
            longer = context.longer.get(before[place]) if place >= last else None
            if longer is None:
                break
            context = longer
        return -math.log(p)

    def step(self, before: tuple[int, ...], template: int) -> float:
        """Cost of a template after the templates before it, which is counted."""
        context = self._root
        p = 1.0 / (len(context.counts) + 1)
        place = len(before)
        last = max(place - self.order + 1, 0)
        while True:
            counts = context.counts
            count = counts.get(template, 0.0)
            if counts:
                p *= _DISCOUNT * len(counts)
                if count:
                    p += count - _DISCOUNT
                p /= context.total
            counts[template] = count + 1.0
            context.total += 1.0
            place -= 1
            if place < last:
                break
            longer = context.longer.get(before[place])
            if longer is None:
                longer = context.longer[before[place]] = _Context()
                self.n_contexts += 1
            context = longer
        if self.n_contexts > self.max_contexts:
            self._fade()
        return -math.log(p)

    def costs(self, sequence: list[int]) -> list[float]:
        """Cost of each template of a whole session, and of its end."""
        marked = (START, *sequence, STOP)
        reach = self.order - 1
        return [self.cost(marked[max(0, i - reach) : i], marked[i]) for i in range(1, len(marked))]

    def add(self, sequence: list[int]) -> None:
        """Count a whole session."""
        marked = (START, *sequence, STOP)
        reach = self.order - 1
        for i in range(1, len(marked)):
            self.step(marked[max(0, i - reach) : i], marked[i])

    def rename(self, old: int, new: int) -> None:
        """Count what was seen as template `old` for template `new`."""
        if old not in self._root.counts:
            return
        table: dict[tuple[int, ...], dict[int, float]] = {}
        for before, counts in self._table():
            merged = table.setdefault(tuple(new if part == old else part for part in before), {})
            for template, count in counts.items():
                name = new if template == old else template
                merged[name] = merged.get(name, 0.0) + count
        self._fill(table.items())

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "order": self.order,
            "max_contexts": self.max_contexts,
            "table": [[before, list(counts.items())] for before, counts in self._table()],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "NGram":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["order"], state["max_contexts"])
        new._fill((tuple(before), dict(counts)) for before, counts in state["table"])
        return new

    def _table(self) -> Iterator[tuple[tuple[int, ...], dict[int, float]]]:
        """Give the counts after each context, a context before those that are longer."""
        waiting: list[tuple[tuple[int, ...], _Context]] = [((), self._root)]
        while waiting:
            before, context = waiting.pop()
            yield before, context.counts
            waiting += [((part, *before), longer) for part, longer in context.longer.items()][::-1]

    def _fill(self, table: Iterable[tuple[tuple[int, ...], dict[int, float]]]) -> None:
        self._root = _Context()
        self.n_contexts = 1
        for before, counts in table:
            context = self._root
            for part in reversed(before):
                if part not in context.longer:
                    context.longer[part] = _Context()
                    self.n_contexts += 1
                context = context.longer[part]
            context.counts = counts
            context.total = sum(counts.values())

    def _fade(self) -> None:
        table = []
        for before, counts in self._table():
            left = {t: count / 2.0 for t, count in counts.items() if count >= 2.0}
            if left or not before:
                table.append((before, left))
        self._fill(table)
