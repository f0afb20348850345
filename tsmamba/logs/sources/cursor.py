"""A file, how far it was read and given, and what it showed on the way."""

import os
from typing import Any

from tsmamba.logs.record import Line
from tsmamba.logs.sources.buffered import BLOCK
from tsmamba.logs.sources.logfile import DAMAGE, HEAD, TAIL, Excerpt, LogFile, Mark
from tsmamba.logs.sources.splitter import Splitter

__all__ = ["Cursor"]

Excerpts = tuple[Excerpt, ...]


class Cursor:
    """Reads a file block by block and notices when it is no longer the same.

    Parameters
    ----------
    file : LogFile
        Open.
    source : str
        Name for people.
    stream : str
        Identity of the bytes; empty until the first line is whole.
    number, offset : int
        Lines and bytes given before.
    head, tail : tuple of Excerpt
        What the file showed at its start, and before `offset`.

    Attributes
    ----------
    splitter : Splitter
        Takes what `block` returns.
    first_line : bytes
        How the file starts, at most 1 KB of it; known for certain if `first_line_is_whole`.
    damage : str
        Why reading ended before the file did.
    """

    def __init__(
        self,
        file: LogFile,
        source: str,
        stream: str = "",
        *,
        number: int = 0,
        offset: int = 0,
        head: Excerpts = (),
        tail: Excerpts = (),
    ) -> None:
        self.file = file
        self.splitter = Splitter(source, stream, number=number, offset=offset)
        self.damage = ""
        self.first_line = b""
        self.first_line_is_whole = False
        self._read_to = offset
        # A log may be copied and cut before its first block is read: until then it is known by
        # what it showed when it was opened.
        self._head = head
        self._start = file.start
        self._read_tail = tail
        self._last_bytes = b""
        self._number = number
        self._offset = offset
        self._given_tail = tail

    @classmethod
    def at_end(cls, file: LogFile, source: str) -> "Cursor":
        """Return a cursor behind the last whole line of the file."""
        size = file.size()
        start = max(0, size - BLOCK)
        last = file.read(start, size - start)
        offset = start + (last.rfind(b"\n") + 1 or len(last) * bool(start))
        head = file.read(0, min(HEAD, offset))
        before = file.read(max(0, offset - TAIL), min(TAIL, offset))
        return cls(
            file,
            source,
            offset=offset,
            head=(Excerpt.of(0, head),),
            tail=(Excerpt.of(offset - len(before), before),),
        )

    @classmethod
    def resumed(cls, file: LogFile, source: str, position: dict[str, Any]) -> "Cursor":
        """Return a cursor at a position."""
        return cls(
            file,
            source,
            position["stream"],
            number=position["number"],
            offset=position["offset"],
            head=_excerpts(position["head"]),
            tail=_excerpts(position["tail"]),
        )

    @staticmethod
    def mark_of(position: dict[str, Any]) -> Mark:
        """Return what the file of a position must show."""
        return Mark(position["inode"], _excerpts(position["head"]) + _excerpts(position["tail"]))

    @property
    def mark(self) -> Mark:
        """What the file must show to be the one that was read so far."""
        return Mark(self.file.inode, (self._head or self._start) + self._read_tail)

    def block(self) -> bytes | None:
        """Read on: return nothing at the end, and None if the file was cut meanwhile."""
        if self.damage:
            return b""
        try:
            block = self.file.read(self._read_to, BLOCK)
            head = self._head if self._head_is_full else self._see_head(len(block))
        except DAMAGE as error:
            self.damage = str(error)
            return b""
        # Looked at after all was read: a cut in between shows too. A compressed file is never
        # cut, and going back in it is slow.
        if not self.file.packed and not self.file.shows(self.mark.excerpts):
            return None
        if block:
            self._head = head
            self._read_to += len(block)
            self._last_bytes = (self._last_bytes + block)[-TAIL:]
            self._read_tail = (Excerpt.of(self._read_to - len(self._last_bytes), self._last_bytes),)
        return block

    def _see_head(self, more: int) -> Excerpts:
        data = self.file.read(0, min(HEAD, self._read_to + more))
        self.first_line = data.partition(b"\n")[0]
        self.first_line_is_whole = len(self.first_line) < len(data) or len(data) == HEAD
        return (Excerpt.of(0, data),)

    @property
    def _head_is_full(self) -> bool:
        return bool(self._head) and self._head[0].length == HEAD

    def is_copy_of(self, other: LogFile) -> bool:
        """Return whether another file starts with all that was read here."""
        return bool(self._read_tail) and other.shows(self.mark.excerpts)

    def replace(self, file: LogFile) -> None:
        """Read on in another file that holds the same bytes."""
        self.file.close()
        self.file = file

    @property
    def has_more(self) -> bool:
        """Whether the file has grown since it was read to its end."""
        return not self.file.packed and self.file.size() > self._read_to

    def given(self, line: Line) -> None:
        """Note the last line that was handed out."""
        self._number, self._offset = line.number, line.end
        # A line may be empty, so its end is remembered too, if it has one.
        ends = (Excerpt.of(line.end - 1, b"\n"),) if line.end - line.offset > len(line.text) else ()
        self._given_tail = (Excerpt.of(line.offset, line.text), *ends)

    def position(self) -> dict[str, Any]:
        """Return the place after the last line that was handed out, as JSON can hold it."""
        return {
            "inode": self.file.inode,
            "path": os.path.realpath(self.file.path),
            "stream": self.splitter.stream,
            "number": self._number,
            "offset": self._offset,
            "head": [list(excerpt) for excerpt in self._head or self._start],
            "tail": [list(excerpt) for excerpt in self._given_tail],
            "size": self.file.size(),
            "time": self.file.time(),
        }


def _excerpts(saved: list[list[Any]]) -> Excerpts:
    return tuple(Excerpt(*excerpt) for excerpt in saved)
