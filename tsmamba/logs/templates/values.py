"""Numbers that stand in the wild places of a template."""

import re
from functools import lru_cache
from math import isfinite, nan

from tsmamba.logs.templates.masks import MORE, WILD, folded, opening, shape, split

__all__ = ["numbers"]

_MOST = 4  # numbers of a template
_MARKS = r"[^\w<*>+-]*+"
_KEY = r"(?:[A-Za-z_][\w.-]*+[=:])?+"
_UNIT = r"[A-Za-z%/]{0,6}"
_PLACE = re.compile(rf"{_MARKS}{_KEY}{re.escape(WILD)}{_UNIT}{_MARKS}")
_NUMBER = re.compile(rf"{_MARKS}{_KEY}([+-]?[0-9]++(?:\.[0-9]++)?){_UNIT}{_MARKS}")


_QUICK_NUMBER = r"([+-]?[0-9]++(?:\.[0-9]++)?)"


@lru_cache(10_000)
def _places(template: str) -> tuple[tuple[int, ...], int]:
    """Return where numbers may stand, and the number of words."""
    words = template.split()
    places = [place for place, word in enumerate(words) if _PLACE.fullmatch(word)]
    return tuple(places[:_MOST]), len(words)


@lru_cache(10_000)
def _quick(template: str) -> re.Pattern[str] | None:
    """Return a pattern that finds the numbers of most messages; None if there cannot be one."""
    places = _places(template)[0]
    words = template.split()
    if any(word.endswith(MORE) for word in words):
        return None
    parts = []
    for place, word in enumerate(words):
        gap = _QUICK_NUMBER if place in places else r"\S*"
        parts.append(re.escape(word).replace(re.escape(WILD), gap))
    return re.compile(r"\s+".join(parts))


def numbers(body: str, template: str) -> tuple[float, ...]:
    """Return the numbers of a message in the wild places of its template.

    Parameters
    ----------
    body : str
        Message.
    template : str
        Its template.

    Returns
    -------
    tuple of float
        One for each of the first four places where a number may stand: a wild word, alone or with
        a key, a unit or marks, but not a wild part of a name. NaN where the message has no number.

    Examples
    --------
    >>> numbers("block_12 has size=512 KB after 0.25s", "block_<*> has size=<*> KB after <*>s")
    (512.0, 0.25)
    """
    places, length = _places(template)
    if not places:
        return ()
    quick = _quick(template)
    found = None if quick is None else quick.fullmatch(body)
    if found is not None:
        return tuple([_number(text) for text in found.groups()])
    words = _words(opening(body))
    if len(words) != length:
        words = folded(words)
    if len(words) != length:
        return (nan,) * len(places)
    return tuple([_number(words[place]) for place in places])


def _words(text: str) -> list[str]:
    if ":" in text or "<" in text or "B)" in text:  # without these, there is nothing to mask
        return split(text, shape(text).decode("utf-8", "surrogatepass"))
    return text.split()


def _number(word: str) -> float:
    if word.isdecimal():
        value = float(word)
    else:
        found = _NUMBER.fullmatch(word)
        value = float(found[1]) if found else nan
    return value if isfinite(value) else nan
