"""The miner: gives every message the number of its template, and learns templates as it goes."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from heapq import nsmallest
from typing import Any, Literal, Self

from tsmamba.errors import ParameterError
from tsmamba.logs.templates.events import TemplateEvent
from tsmamba.logs.templates.masks import LENGTH, mask, opening, shape
from tsmamba.logs.templates.similarity import Words, generalise
from tsmamba.logs.templates.state import MinerState, read_state, write_state
from tsmamba.logs.templates.tree import Group, Template
from tsmamba.logs.templates.values import numbers

__all__ = ["UNKNOWN", "TemplateMiner"]

UNKNOWN = -1
"""What a frozen miner gives a message that none of its templates fits."""

_EVICTED = 16  # a full miner forgets this part of its templates at once
_REMEMBERED = 4  # aliases, and events that nobody drains, for each template at most


class _Line:
    """Masked words, and the template that was found for them at some version of the group."""

    __slots__ = ("group", "template", "version", "words")

    def __init__(self, words: Words, group: Group) -> None:
        self.words = words
        self.group = group
        self.template: Template | None = None
        self.version = -1


class TemplateMiner:
    """Templates of log messages, learned line by line.

    Parameters
    ----------
    similarity : float in (0, 1], default 0.9
        Share of a message that has to equal a template for the two to join.
    max_templates : int of at least 16, default 4096
        Templates that are kept. When there are more, those not seen for longest are forgotten.
    frozen : bool, default False
        Whether nothing is learned; can be switched at any time.
    cache_size : int, default 20000
        Shapes of messages whose templates are kept at hand; changes speed and memory only.

    Raises
    ------
    ParameterError
        If an argument is outside its range.

    Examples
    --------
    >>> from tsmamba.logs.templates import TemplateMiner
    >>> miner = TemplateMiner()
    >>> [miner.add(line) for line in ("took 12 ms", "took 7 ms", "disk 3 failed")]
    [0, 0, 1]
    >>> miner.template(0), miner.values("took 12 ms", 0)
    ('took <*> ms', (12.0,))
    """

    def __init__(
        self,
        similarity: float = 0.9,
        max_templates: int = 4_096,
        *,
        frozen: bool = False,
        cache_size: int = 20_000,
    ) -> None:
        if not 0 < similarity <= 1:
            raise ParameterError(f"similarity={similarity}: give a number over 0, and 1 at most")
        if max_templates < 16:
            raise ParameterError(f"max_templates={max_templates}: give 16 or more")
        if cache_size < 0:
            raise ParameterError(f"cache_size={cache_size}: give 0 or more")
        self.similarity = similarity
        self.max_templates = max_templates
        self.frozen = frozen
        self.cache_size = cache_size
        self._farthest = round(1 - similarity, 12)
        self._next = 0
        self._clock = 0
        self._templates: dict[int, Template] = {}
        self._aliases: OrderedDict[int, int] = OrderedDict()
        self._events: deque[TemplateEvent] = deque(maxlen=_REMEMBERED * max_templates)
        self._groups: dict[int, Group] = {}
        self._line_of_shape = lru_cache(cache_size)(lambda text: self._line_of_words(mask(text)))
        self._line_of_words = lru_cache(cache_size)(self._line)

    def __len__(self) -> int:
        return len(self._templates)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the caches would answer with the templates of the original.
        return TemplateMiner.from_dict, (self.to_dict(),)

    def add(self, body: str) -> int:
        """Return the template of a message, learning from it.

        Parameters
        ----------
        body : str
            Any text. Of several lines the first counts, of a long one the first 1,024 characters.

        Returns
        -------
        int
            Its id, or `UNKNOWN` if the miner is frozen and knows none.
        """
        if len(body) > LENGTH or "\n" in body:
            body = opening(body)
        line = self._line_of_shape(shape(body))
        template = line.template
        if template is None or line.version != line.group.version:
            template = self._find(line, learn=not self.frozen)
            if template is None:
                return UNKNOWN
        self._clock += 1
        template.used = self._clock
        return template.id

    def match(self, body: str) -> int | None:
        """Return the template of a message without learning anything.

        Parameters
        ----------
        body : str
            As for `add`.

        Returns
        -------
        int or None
            Its id; None if it has none yet.
        """
        template = self._find(self._line_of_shape(shape(opening(body))), learn=False)
        return None if template is None else template.id

    def ids(self) -> list[int]:
        """Return the ids of all templates, oldest first."""
        return sorted(self._templates)

    def root(self, id: int) -> int | None:
        """Return the template that an id stands for by now.

        Parameters
        ----------
        id : int
            Given out by `add`, however long ago.

        Returns
        -------
        int or None
            The id itself or that of the template it was merged into; None if it was evicted.
        """
        while id in self._aliases:
            id = self._aliases[id]
        return id if id in self._templates else None

    def template(self, id: int) -> str:
        """Return a template as a line, ``<*>`` where it varies.

        Parameters
        ----------
        id : int
            Its own or an alias.

        Returns
        -------
        str

        Raises
        ------
        ParameterError
            If no template has the id.
        """
        root = self.root(id)
        if root is None:
            raise ParameterError(
                f"id={id}: no template has it, or it was evicted; ids() lists all {len(self)}"
            )
        return self._templates[root].text

    def values(self, body: str, id: int) -> tuple[float, ...]:
        """Return the numbers of a message in the wild places of its template.

        Parameters
        ----------
        body : str
            Message.
        id : int
            Its template.

        Returns
        -------
        tuple of float
            One for each of the first four places where a number may stand; NaN where there is
            none. Places move when the template changes.

        Raises
        ------
        ParameterError
            If no template has the id.
        """
        return numbers(body, self.template(id))

    @property
    def has_events(self) -> bool:
        """Whether something happened to templates since the last call of `drain_events`."""
        return bool(self._events)

    def drain_events(self) -> list[TemplateEvent]:
        """Return what happened to templates since the last call, oldest first.

        Of events that nobody drains, the newest ``4 * max_templates`` are kept.

        Returns
        -------
        list of TemplateEvent
        """
        events = list(self._events)
        self._events.clear()
        return events

    def seed(self, templates: Iterable[str]) -> list[int]:
        """Give templates that are known beforehand; they are never changed, merged or evicted.

        Parameters
        ----------
        templates : iterable of str
            Lines with ``<*>`` where they vary; numbers may stand as they are.

        Returns
        -------
        list of int
            Their ids.

        Raises
        ------
        ParameterError
            If more than half of `max_templates` would be given ones.
        """
        lines = [self._line_of_shape(shape(opening(text))) for text in templates]
        fixed = {template.words for template in self._templates.values() if template.fixed}
        most = self.max_templates // 2
        if len(fixed | {line.words for line in lines}) > most:
            raise ParameterError(
                f"seed takes {most} templates, half of max_templates={self.max_templates}: "
                f"give fewer, or raise max_templates"
            )
        return [self._seed(line) for line in lines]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values that JSON can hold.

        Returns
        -------
        dict
            The same for the same messages, in every process.
        """
        return write_state(
            MinerState(
                similarity=self.similarity,
                max_templates=self.max_templates,
                frozen=self.frozen,
                cache_size=self.cache_size,
                next_id=self._next,
                clock=self._clock,
                templates=[self._templates[id] for id in self.ids()],
                aliases=list(self._aliases.items()),
                events=list(self._events),
            )
        )

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return a miner that continues where another one stood.

        Parameters
        ----------
        state : mapping
            From `to_dict`, also by way of JSON.

        Returns
        -------
        TemplateMiner

        Raises
        ------
        ModelFileError
            If the state is damaged or of another version.
        """
        read = read_state(state)
        miner = cls(
            read.similarity, read.max_templates, frozen=read.frozen, cache_size=read.cache_size
        )
        miner._next = read.next_id
        miner._clock = read.clock
        for template in read.templates:
            miner._attach(template)
        miner._aliases.update(read.aliases)
        miner._events.extend(read.events)
        return miner

    def _line(self, words: Words) -> _Line:
        return _Line(words, self._groups.setdefault(len(words), Group()))

    def _find(self, line: _Line, *, learn: bool) -> Template | None:
        """Return the template of a line; None if it has none and none is to be learned."""
        if line.template is not None and line.version == line.group.version:
            return line.template
        distance, template = line.group.nearest(line.words, self._farthest)
        if template is None:
            return self._create(line.words, fixed=False) if learn else None
        if distance == 0:
            line.template, line.version = template, line.group.version
        elif learn and not template.fixed:
            return self._unite([template], line.words)
        return template

    def _seed(self, line: _Line) -> int:
        for template in line.group.leaf(line.words):
            if template.words == line.words:
                template.fixed = True
                return template.id
        return self._create(line.words, fixed=True).id

    def _create(self, words: Words, *, fixed: bool) -> Template:
        self._clock += 1
        template = Template(self._next, words, fixed, used=self._clock)
        self._next += 1
        # Older answers hold: of templates that fit as well, the oldest is the answer.
        group = self._attach(template)
        self._tell("new", template.id, template)
        if not fixed and (alike := group.alike(template)):
            return self._unite(alike)
        if crowded := group.crowded(words):
            self._evict(crowded, 1)
        if len(self) > self.max_templates:
            self._evict(self._templates.values(), self.max_templates // _EVICTED)
        return template

    def _unite(self, alike: list[Template], *more: Words) -> Template:
        """Make one template, the oldest of them, that covers templates and further words."""
        while alike:
            words = generalise(*(template.words for template in alike), *more)
            every = {template.id: template for template in alike}
            every |= {template.id: template for template in self._groups[len(words)].covered(words)}
            root, *others = (every[id] for id in sorted(every))
            for template in (root, *others):
                self._detach(template)
            root.change(words)
            group = self._attach(root)
            group.version += 1
            self._tell("changed", root.id, root)
            for template in others:
                self._aliases[template.id] = root.id
                self._tell("alias", template.id, root)
            alike = group.alike(root)
        while len(self._aliases) > _REMEMBERED * self.max_templates:
            self._aliases.popitem(last=False)
        return root

    def _evict(self, candidates: Iterable[Template], count: int) -> None:
        """Forget some learned templates: those not seen for longest."""
        learned = (template for template in candidates if not template.fixed)
        for template in nsmallest(count, learned, key=lambda template: template.used):
            self._detach(template)
            self._groups[len(template.words)].version += 1
            self._tell("evicted", template.id, template)

    def _attach(self, template: Template) -> Group:
        self._templates[template.id] = template
        group = self._groups.setdefault(len(template.words), Group())
        group.insert(template)
        return group

    def _detach(self, template: Template) -> None:
        del self._templates[template.id]
        self._groups[len(template.words)].remove(template)

    def _tell(
        self, kind: Literal["new", "changed", "alias", "evicted"], id: int, root: Template
    ) -> None:
        self._events.append(TemplateEvent(kind, id, root.id, root.text))
