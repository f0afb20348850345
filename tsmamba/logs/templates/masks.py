"""Masks: what varies in a message by its form alone becomes ``<*>``.

Patterns see the shape of a message, in which every digit is 0: two messages that differ in their
digits have the same masked words. Quantifiers that could try a stretch of text twice are
possessive, so that time is linear in the length of the text.
"""

import re
from functools import lru_cache
from itertools import groupby

__all__ = ["LENGTH", "MORE", "WILD", "folded", "mask", "mask_word", "opening", "shape", "split"]

LENGTH = 1_024
"""Characters of a message that are looked at."""

WILD = "<*>"
"""Stands for what varies."""

MORE = "<*>..."
"""Stands for the further words of a list."""

_LIST = 3  # words from which a run of equal ones is a list of any length
_CACHED_WORDS = 20_000
_ZEROS = bytes.maketrans(b"123456789", b"000000000")

# The size once more in other units, as in "1190 bytes (1.16 KB)": left out of small ones.
_SIZE = re.compile(r" \([0-9]++(?:\.[0-9]++)? [kKMGTP]i?B\)")
# What is one thing in several words: "Sat Jun 11 03:28:22 2005" and "<1 sec".
_DATE = re.compile(
    r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)  ?[0-9]{1,2}"
    r"(?: [0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?(?: [0-9]{4})?\b"
)
_BELOW = re.compile(r"<[0-9]++ [a-z]++")
_WORD = re.compile(
    r"(?<==)[^0-9=,;&]*+[0-9][^=,;&]*+"  # value of a key
    r"|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?<![0-9A-Za-z_])(?:[0-9]x[0-9a-fA-F]++|(?=[a-fA-F]*+[0-9])[0-9a-fA-F]{6,}+)(?![0-9A-Za-z_])"
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]{1,5})?"
    r"|-?[0-9]++(?:\.[0-9]++)?"
)


def opening(body: str) -> str:
    r"""Return what is looked at of a message: its first line, cut to a length.

    Parameters
    ----------
    body : str
        Message, of any length.

    Returns
    -------
    str
        At most `LENGTH` characters and ``<*>``, which stands for what was cut.

    Examples
    --------
    >>> opening("disk failed\n  at Disk.java:17")
    'disk failed'
    """
    if len(body) <= LENGTH and "\n" not in body:
        return body
    head = body[:LENGTH].lstrip()
    line, end, _ = head.partition("\n")
    if end or len(body) <= LENGTH:
        return line
    whole, _, _ = line.rpartition(" ")
    return f"{whole} {WILD}"


def shape(body: str) -> bytes:
    """Return a message with every digit made 0.

    Parameters
    ----------
    body : str
        Any text, lone surrogates included.

    Returns
    -------
    bytes
        As UTF-8.

    Examples
    --------
    >>> shape("took 125 ms")
    b'took 000 ms'
    """
    return body.encode("utf-8", "surrogatepass").translate(_ZEROS)


def split(text: str, form: str) -> list[str]:
    """Return the words of a message, where a date and the like are one ``<*>``.

    Parameters
    ----------
    text : str
        A message, or its shape; both have the same number of words.
    form : str
        Its shape.

    Returns
    -------
    list of str
        Unmasked.

    Examples
    --------
    >>> text = "backup of Sat Jun 11 03:28:22 2005 has 1190 bytes (1.16 KB)"
    >>> split(text, shape(text).decode())
    ['backup', 'of', '<*>', 'has', '1190', 'bytes']
    """
    if "B)" in form:
        text = _SIZE.sub("", text)
    if " 00:00" in form:
        text = _DATE.sub(WILD, text)
    if "<0" in form:
        text = _BELOW.sub(WILD, text)
    return text.split()


@lru_cache(_CACHED_WORDS)
def mask_word(word: str) -> str:
    """Return a word with what varies made wild.

    Parameters
    ----------
    word : str
        Of a shape.

    Returns
    -------
    str

    Examples
    --------
    >>> mask_word("eth0:"), mask_word("0x00ff"), mask_word("face")
    ('eth<*>:', '<*>', 'face')
    """
    return _WORD.sub(WILD, word)


def _fold(words: list[str], masked: list[str]) -> list[str]:
    """Return words, of which a run that is equal once masked is its first and `MORE`."""
    if len(words) - len(set(masked)) < _LIST - 1:
        return words
    kept: list[str] = []
    for word, run in groupby(range(len(words)), masked.__getitem__):
        places = list(run)
        if len(places) >= _LIST and WILD in word:
            kept += [words[places[0]], MORE]
        else:
            kept += words[places[0] : places[-1] + 1]
    return kept


def folded(words: list[str]) -> list[str]:
    """Return unmasked words with lists folded, one for each word that `mask` returns.

    Parameters
    ----------
    words : list of str
        From `split`.

    Returns
    -------
    list of str
        As they are; ``<*>...`` for the further words of a list.

    Examples
    --------
    >>> folded(["delete", "blk_1", "blk_22", "blk_3", "now"])
    ['delete', 'blk_1', '<*>...', 'now']
    """
    return _fold(words, [_WORD.sub(WILD, word) for word in words])


def mask(text: bytes) -> tuple[str, ...]:
    """Return the words of a shape, masked and with lists folded.

    Parameters
    ----------
    text : bytes
        From `shape`.

    Returns
    -------
    tuple of str
        None of them holds a digit.

    Examples
    --------
    >>> mask(b"user000 from 00.0.0.000:0000 took 0.00s id=0a0f")
    ('user<*>', 'from', '<*>', 'took', '<*>s', 'id=<*>')
    """
    form = text.decode("utf-8", "surrogatepass")
    masked = [mask_word(word) if "0" in word else word for word in split(form, form)]
    return tuple(_fold(masked, masked))
