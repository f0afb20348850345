"""How much two sequences of masked words differ, and what covers both."""

from functools import reduce
from math import inf

from tsmamba.logs.templates.masks import WILD

__all__ = ["covers", "distance", "generalise", "generalise_word"]

Words = tuple[str, ...]

# Costs of two words that differ, and the worth of two equal ones without a wild part.
_BOTH_WILD = 0.1
_ONE_WILD = 0.3
_NAMES = 1.0
_PLAIN = 2.0  # two plain words more often say something else than two names do


def distance(known: Words, words: Words, most: float = inf) -> float:
    """Return how far a message is from a template of as many words.

    Parameters
    ----------
    known, words : tuple of str
        Words of the template and of the message.
    most : float, optional
        Cost from which on the distance is 1 whatever comes, to be done sooner.

    Returns
    -------
    float
        Cost of words that differ over cost and equal words: from 0, the template covers the
        message, to 1. It is 1, too, if no word without a wild part is the same.

    Examples
    --------
    >>> distance(("user", "<*>", "logged", "in"), ("user", "ann", "logged", "in"))
    0.0
    >>> distance(("user", "bob", "logged", "in"), ("user", "ann", "logged", "in"))
    0.4
    """
    if known == words:
        return 0.0
    cost = 0.0
    equal = 0
    for ours, theirs in zip(known, words, strict=True):
        if ours == theirs:
            equal += WILD not in ours
        elif ours != WILD and not _same_key(ours, theirs):
            cost += _cost(ours, theirs)
            if cost > most:
                return 1.0
    return cost / (cost + equal) if equal else 1.0


def _cost(ours: str, theirs: str) -> float:
    wild = (WILD in ours) + (WILD in theirs)
    if wild:
        return _BOTH_WILD if wild == 2 else _ONE_WILD
    return _PLAIN if ours.isalpha() and theirs.isalpha() else _NAMES


def _same_key(ours: str, theirs: str) -> bool:
    """Return whether our word is a key whose value is wild, and theirs has any value."""
    key, sign, value = ours.partition("=")
    return value == WILD and len(theirs) > len(key) + 1 and theirs.startswith(key + sign)


def covers(known: Words, words: Words) -> bool:
    """Return whether a template is at least as general as another of as many words.

    Parameters
    ----------
    known, words : tuple of str
        Of the template that may cover the other, and of the other.

    Returns
    -------
    bool
        Whether every word is the same or wild.

    Examples
    --------
    >>> covers(("user=<*>", "<*>"), ("user=ann", "left"))
    True
    """
    pairs = zip(known, words, strict=True)
    return all(ours in (theirs, WILD) or _same_key(ours, theirs) for ours, theirs in pairs)


def generalise_word(ours: str, theirs: str) -> str:
    """Return the word that covers two; the name of a key stays.

    Parameters
    ----------
    ours, theirs : str
        Masked words.

    Returns
    -------
    str
        Masked word.

    Examples
    --------
    >>> generalise_word("user=ann", "user=bob"), generalise_word("ann", "bob")
    ('user=<*>', '<*>')
    """
    if ours == theirs:
        return ours
    key, _, value = ours.partition("=")
    other, _, new = theirs.partition("=")
    return f"{key}={WILD}" if value and new and key == other else WILD


def generalise(*sequences: Words) -> Words:
    """Return the template that covers messages or templates of as many words.

    Parameters
    ----------
    *sequences : tuple of str
        One or more.

    Returns
    -------
    tuple of str
        Words.

    Examples
    --------
    >>> generalise(("ann", "left"), ("bob", "left"))
    ('<*>', 'left')
    """
    return tuple(reduce(generalise_word, column) for column in zip(*sequences, strict=True))
