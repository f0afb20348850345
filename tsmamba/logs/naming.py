"""Which template a record has: the one it carries, or the one its message is given."""

from collections.abc import Iterable, Iterator
from typing import Any

from tsmamba.logs.record import LogRecord
from tsmamba.logs.templates import UNKNOWN, TemplateMiner

__all__ = ["Templates"]

# Templates that records bring along are numbered from here; the miner counts from 0.
_GIVEN = 1 << 31
# Texts at hand.
_REMEMBERED = 16_384


class Templates:
    """A miner, and the templates that records bring along.

    Examples
    --------
    >>> templates = Templates(TemplateMiner())
    >>> templates.id_of(LogRecord("took 3 ms")), templates.id_of(LogRecord("took 12 ms"))
    (0, 0)
    >>> given = templates.id_of(LogRecord("took 3 ms", template="took {time} ms"))
    >>> templates.text(given)
    'took {time} ms'
    """

    def __init__(self, miner: TemplateMiner) -> None:
        self.miner = miner
        self._given: dict[str, int] = {}
        self._numbered = 0
        self._texts: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.miner) + len(self._given)

    def items(self) -> list[tuple[int, str]]:
        """Return number and text of every template that is known by now."""
        mined = [(number, self.text(number)) for number in self.miner.ids()]
        return mined + [(number, text) for text, number in self._given.items()]

    def id_of(self, record: LogRecord) -> int:
        """Return the template of a record; learns it unless the miner is frozen."""
        if record.template is None:
            return self.miner.add(record.body)
        known = self._given.get(record.template)
        if known is None:
            if self.miner.frozen:
                return UNKNOWN
            if len(self._given) >= self.miner.max_templates:
                oldest = next(iter(self._given))
                self._texts.pop(self._given.pop(oldest), None)
            known = self._given[record.template] = _GIVEN + self._numbered
            self._numbered += 1
            self._texts[known] = record.template
        return known

    def numbers(self, record: LogRecord, template: int) -> tuple[float, ...]:
        """Numbers in the wild places of a message."""
        if record.template is not None or self.miner.root(template) is None:
            return ()
        return self.miner.values(record.body, template)

    def text(self, template: int) -> str:
        """Template as a line; empty for one that nobody knows."""
        text = self._texts.get(template)
        if text is None:
            known = self.miner.root(template) is not None
            text = self._texts[template] = self.miner.template(template) if known else ""
            if len(self._texts) > len(self._given) + _REMEMBERED:
                self._forget_texts()
        return text

    def renames(self) -> Iterable[tuple[int, int]]:
        """Templates that became another one since the last call: old and new number."""
        return self._renames() if self.miner.has_events else ()

    def _renames(self) -> Iterator[tuple[int, int]]:
        for event in self.miner.drain_events():
            self._forget_texts()
            if event.kind == "alias":
                yield event.id, event.root

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "miner": self.miner.to_dict(),
            "given": list(self._given.items()),
            "numbered": self._numbered,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Templates":
        """Build it again from :meth:`to_dict`."""
        new = cls(TemplateMiner.from_dict(state["miner"]))
        new._given = dict(state["given"])
        new._numbered = state["numbered"]
        new._forget_texts()
        return new

    def _forget_texts(self) -> None:
        """Keep the texts that came with records; the miner's are asked for again."""
        self._texts = {number: text for text, number in self._given.items()}
