"""What happens to templates while a miner learns."""

from typing import Literal, NamedTuple

__all__ = ["TemplateEvent"]


class TemplateEvent(NamedTuple):
    """One change; a model that counts by template applies them in the order in which they came.

    Attributes
    ----------
    kind : {"new", "changed", "alias", "evicted"}
        ``new``: the id is given out for the first time. ``changed``: the template has become more
        general and keeps its id. ``alias``: from now on the template with this id is the one of
        `root`. ``evicted``: the template is forgotten, and its aliases with it; the id is not used
        again.
    id : int
        Which template.
    root : int
        The template that stands for it now: itself, but for an alias.
    template : str
        Text of `root`; of an evicted template, its last.
    """

    kind: Literal["new", "changed", "alias", "evicted"]
    id: int
    root: int
    template: str
