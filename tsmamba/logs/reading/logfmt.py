"""Lines of keys and values, ``level=info msg="started" port=80``."""

import re

from tsmamba.logs.reading.misfit import Misfit
from tsmamba.logs.reading.objects import ObjectReader
from tsmamba.logs.record import LogRecord

__all__ = ["LogfmtReader", "looks_like_logfmt"]

# A key is tried from its first character only: a word of a megabyte must not cost its square.
_PAIR = re.compile(
    r"""(?<![^\s="])([^\s="]++)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))(?!\S)""", re.DOTALL
)
_HEAD = re.compile(r"""[A-Za-z_@][\w.@/-]*=(?:"|\S*\s+[\w.@/-]+=)""")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def looks_like_logfmt(text: str) -> bool:
    """Tell whether a line begins with pairs and has hardly anything else.

    Examples
    --------
    >>> looks_like_logfmt('level=info msg="up"'), looks_like_logfmt("user=eve tried to log in")
    (True, False)
    """
    if _HEAD.match(text) is None or " msg=audit(" in text:  # that one has its time in brackets
        return False
    pairs = list(_PAIR.finditer(text))
    return len(pairs) >= 2 and sum(len(pair[0]) + 1 for pair in pairs) >= 0.9 * len(text)


class LogfmtReader:
    """Reads logfmt.

    Parameters
    ----------
    objects : ObjectReader
        What finds message, time and severity among the keys.
    """

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects

    def read(self, text: str) -> list[LogRecord]:
        """Read one line; words that belong to no pair are left out."""
        values = {}
        for key, quoted, bare in _PAIR.findall(text):
            values[key] = _unescape(quoted) if quoted else bare
        if not values:
            raise Misfit("not logfmt")
        return [self._objects.read(values, text)]


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)
