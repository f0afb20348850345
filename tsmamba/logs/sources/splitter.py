"""From blocks of bytes to lines with their places."""

from collections.abc import Callable
from functools import partial
from itertools import accumulate, count, repeat
from operator import add

from tsmamba.logs.record import Line

__all__ = ["MAX_LINE", "Splitter"]

MAX_LINE = 10_000_000
"""Bytes of one line that are kept; the rest is skipped and counted."""

# Straight from a tuple: half the time of a call of the class, and most of the time of a line.
_new_line: Callable[[tuple[str, str, int, int, int, bytes]], Line] = partial(tuple.__new__, Line)


class Splitter:
    r"""Cuts blocks at line ends and counts lines and bytes.

    Parameters
    ----------
    source : str
        Name for people, handed on in each line.
    stream : str
        Identity of the bytes, handed on in each line; may be set until the first line is whole.
    number, offset : int
        Lines and bytes that lie before the first block.
    limit : int
        Bytes of one line that are kept.

    Attributes
    ----------
    number, offset : int
        Lines given, and the byte at which the first line that was not given starts.
    cuts : list of (Line, int)
        Lines that were too long and the bytes they lack; the owner empties it.

    Examples
    --------
    >>> splitter = Splitter("app.log", "1")
    >>> [line.text for line in splitter.feed(b"one\ntwo\r\nthr")]
    [b'one', b'two']
    >>> splitter.feed(b"ee\n")
    [Line(source='app.log', stream='1', number=3, offset=9, end=15, text=b'three')]
    """

    def __init__(
        self,
        source: str,
        stream: str = "",
        *,
        number: int = 0,
        offset: int = 0,
        limit: int = MAX_LINE,
    ) -> None:
        self.source = source
        self.stream = stream
        self.number = number
        self.offset = offset
        self.cuts: list[tuple[Line, int]] = []
        self._limit = limit
        self._pieces: list[bytes] = []  # of the line that is not whole yet
        self._held = 0  # bytes in them
        self._skipped = 0  # bytes of that line beyond the limit

    @property
    def pending(self) -> int:
        """Bytes of the line that is not whole yet."""
        return self._held + self._skipped

    def feed(self, block: bytes) -> list[Line]:
        """Return the lines that end in this block.

        Parameters
        ----------
        block : bytes
            What follows the blocks before.

        Returns
        -------
        list of Line
        """
        if b"\n" not in block:
            self._hold(block)
            return []
        whole = b"".join((*self._pieces, block))
        *texts, rest = whole.split(b"\n")
        lengths = list(map(len, texts))
        # A line end is one byte more: the counter adds it.
        ends = list(map(add, accumulate(lengths), count(self.offset + self._skipped + 1)))
        lost = {}
        if self._skipped or max(lengths) > self._limit:
            lengths[0] += self._skipped
            lost = {n: k - self._limit for n, k in enumerate(lengths) if k > self._limit}
            texts = [text[: self._limit] for text in texts]
        if b"\r" in whole:
            texts = [text[:-1] if text.endswith(b"\r") else text for text in texts]
        self._pieces, self._held, self._skipped = [], 0, 0
        self._hold(rest)
        return self._lines(texts, ends, lost)

    def finish(self) -> list[Line]:
        """Return the last line if it has no line end, else nothing.

        Returns
        -------
        list of Line
        """
        if not self._held:
            return []
        text, end = b"".join(self._pieces), self.offset + self.pending
        lost = {0: self._skipped} if self._skipped else {}
        self._pieces, self._held, self._skipped = [], 0, 0
        return self._lines([text], [end], lost)

    def _hold(self, piece: bytes) -> None:
        room = self._limit - self._held
        if piece[:room]:
            self._pieces.append(piece[:room])
            self._held += len(self._pieces[-1])
        self._skipped += max(0, len(piece) - room)

    def _lines(self, texts: list[bytes], ends: list[int], lost: dict[int, int]) -> list[Line]:
        starts = [self.offset, *ends[:-1]]
        numbers = count(self.number + 1)
        columns = zip(repeat(self.source), repeat(self.stream), numbers, starts, ends, texts)
        lines = list(map(_new_line, columns))
        self.cuts += [(lines[place], n_bytes) for place, n_bytes in lost.items()]
        self.number += len(lines)
        self.offset = ends[-1]
        return lines
