"""When templates that differ in one word only are one template with a wild word there."""

from collections.abc import Iterable
from operator import ne

from tsmamba.logs.templates.masks import WILD
from tsmamba.logs.templates.similarity import Words
from tsmamba.logs.templates.status import is_status

__all__ = ["VALUES", "is_value", "odd_place"]

VALUES = 4
"""From so many on, words that share a place are values of one template."""

_CONSTANT = 2  # words that have to stay


def is_value(words: Words, place: int) -> bool:
    """Return whether the word at a place may be one value of several.

    Parameters
    ----------
    words : tuple of str
        Of a template.
    place : int
        Index into it.

    Returns
    -------
    bool
        False for a status, a word that is wild already, and where too little else is constant.

    Examples
    --------
    >>> words = ("service", "cron", "has", "stopped")
    >>> [is_value(words, place) for place in range(4)]
    [True, True, True, False]
    """
    word = words[place]
    if word == WILD or is_status(word):
        return False
    return _constant(words[:place]) + _constant(words[place + 1 :]) >= _CONSTANT


def _constant(words: Iterable[str]) -> int:
    return sum(WILD not in word for word in words)


def odd_place(ours: Words, theirs: Words) -> int | None:
    """Return the one place where two templates of as many words differ.

    Parameters
    ----------
    ours, theirs : tuple of str
        Words.

    Returns
    -------
    int or None
        None if there is no such place, or more than one.

    Examples
    --------
    >>> odd_place(("user", "ann", "left"), ("user", "bob", "left"))
    1
    """
    differs = list(map(ne, ours, theirs))
    return differs.index(True) if sum(differs) == 1 else None
