"""The tree in which templates are found: number of words, then first and last word."""

from collections import defaultdict
from collections.abc import Iterator

from tsmamba.logs.templates.cardinality import VALUES, is_value, odd_place
from tsmamba.logs.templates.masks import WILD
from tsmamba.logs.templates.similarity import Words, covers, distance

__all__ = ["Group", "Template"]


_LEAF = 256  # learned templates that share number of words, first and last word


class Template:
    """A template that is alive.

    Parameters
    ----------
    id : int
        Its number.
    words : tuple of str
        Masked words.
    fixed : bool
        Whether it was given and not learned: it never changes.
    used : int
        When it was last the answer, as a count of answers.
    """

    __slots__ = ("constant", "fixed", "id", "text", "used", "words")

    def __init__(self, id: int, words: Words, fixed: bool, used: int) -> None:
        self.id = id
        self.fixed = fixed
        self.used = used
        self.change(words)

    def change(self, words: Words) -> None:
        """Give it other words, and what follows from them."""
        self.words = words
        self.constant = frozenset(word for word in words if WILD not in word)
        self.text = " ".join(words)


class Group:
    """All templates of one number of words, in leaves by first and last word.

    A word with a wild part is one branch, ``<*>``: its form may differ from line to line.

    Attributes
    ----------
    version : int
        Grows whenever an answer that was found before may no longer hold.
    """

    __slots__ = ("_leaves", "_without_first", "_without_last", "version")

    def __init__(self) -> None:
        self._leaves: dict[Words, list[Template]] = {}
        self._without_first: dict[Words, list[Template]] = {}
        self._without_last: dict[Words, list[Template]] = {}
        self.version = 0

    def insert(self, template: Template) -> None:
        """Put a template into its place."""
        words = template.words
        self._leaves.setdefault(_ends(words), []).append(template)
        self._without_first.setdefault(words[1:], []).append(template)
        self._without_last.setdefault(words[:-1], []).append(template)

    def remove(self, template: Template) -> None:
        """Take a template out."""
        words = template.words
        _drop(self._leaves, _ends(words), template)
        _drop(self._without_first, words[1:], template)
        _drop(self._without_last, words[:-1], template)

    def leaf(self, words: Words) -> list[Template]:
        """Return the templates with the same first and last word."""
        return self._leaves.get(_ends(words), [])

    def crowded(self, words: Words) -> list[Template]:
        """Return the learned templates with the same ends if they are too many, else none."""
        leaf = self.leaf(words)
        if len(leaf) <= _LEAF:
            return []
        learned = [template for template in leaf if not template.fixed]
        return learned if len(learned) > _LEAF else []

    def nearest(self, words: Words, farthest: float) -> tuple[float, Template | None]:
        """Return the least distance and its template, of equals the oldest; None if all are far."""
        first, last = _ends(words)
        most = farthest / (1 - farthest) * len(words)  # as if all other words were equal
        best, found = farthest, None
        for ends in {(first, last), (first, WILD), (WILD, last), (WILD, WILD)}:
            for template in self._leaves.get(ends, ()):
                # Quickly passes by most of a leaf that has many templates.
                if template.constant.isdisjoint(words) and template.words != words:
                    continue
                far = distance(template.words, words, most)
                if far < best or (far == best and (found is None or template.id < found.id)):
                    best, found = far, template
        return best, found

    def covered(self, words: Words) -> Iterator[Template]:
        """Yield the learned templates that these words cover."""
        first, last = _ends(words)
        for ends, leaf in self._leaves.items():
            if first in (WILD, ends[0]) and last in (WILD, ends[1]):
                for template in leaf:
                    if not template.fixed and covers(words, template.words):
                        yield template

    def alike(self, template: Template) -> list[Template]:
        """Return the learned templates that differ from a learned one at the same single place.

        Returns
        -------
        list of Template
            With itself; empty if there is no place at which enough of them differ.
        """
        words = template.words
        last = len(words) - 1
        by_place: defaultdict[int, list[Template]] = defaultdict(list)
        if len(first := self._without_first[words[1:]]) >= VALUES:
            by_place[0] += first
        if len(final := self._without_last[words[:-1]]) >= VALUES:
            by_place[last] += final
        if len(leaf := self.leaf(words)) >= VALUES:
            for other in leaf:
                if not template.constant.isdisjoint(other.constant):
                    place = odd_place(words, other.words)
                    if place is not None and 0 < place < last:
                        by_place[place].append(other)
        for place in sorted(by_place):  # the order of a leaf is not part of the state
            if is_value(words, place):
                values = {
                    other.id: other
                    for other in (template, *by_place[place])
                    if not other.fixed and is_value(other.words, place)
                }
                if len(values) >= VALUES:
                    return list(values.values())
        return []


def _ends(words: Words) -> Words:
    if not words:
        return "", ""
    first, last = words[0], words[-1]
    return WILD if WILD in first else first, WILD if WILD in last else last


def _drop(places: dict[Words, list[Template]], place: Words, template: Template) -> None:
    templates = places[place]
    templates.remove(template)
    if not templates:
        del places[place]
