"""An open log file, plain or compressed, and the excerpts by which it is known again."""

import gzip
import hashlib
import os
import stat
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from tsmamba.errors import ParameterError

__all__ = ["DAMAGE", "HEAD", "TAIL", "Excerpt", "LogFile", "Mark", "digest_of"]

HEAD = 1024
"""Bytes at the start of a file by which it is known."""
TAIL = 256
"""Bytes before the place of reading by which it is known that the file is still the same."""
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a damaged compressed file raises."""


def digest_of(data: bytes) -> str:
    """Return a short digest of bytes.

    Parameters
    ----------
    data : bytes
        Any.

    Returns
    -------
    str
        16 hexadecimal digits.

    Examples
    --------
    >>> digest_of(b"started")
    'da430a537328ea1b'
    """
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class Excerpt(NamedTuple):
    """Some bytes that a file showed."""

    offset: int
    length: int
    digest: str

    @classmethod
    def of(cls, offset: int, data: bytes) -> "Excerpt":
        """Return the excerpt of these bytes at this offset."""
        return cls(offset, len(data), digest_of(data))


class Mark(NamedTuple):
    """What a file must show to be the one that was read: its inode, or another's copy of it."""

    inode: int
    excerpts: tuple[Excerpt, ...]


class LogFile:
    """A file read by offset; a compressed one by the offsets of what it holds.

    Parameters
    ----------
    path : str
        A regular file. Whether it is compressed is seen from its first bytes.

    Attributes
    ----------
    start : tuple of Excerpt
        What it showed at its start when it was opened or last looked at; nothing if it was empty or
        is compressed.

    Raises
    ------
    ParameterError
        If it is something else or may not be read.
    FileNotFoundError
        If it does not exist.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ParameterError(
                f"{path!r} cannot be read ({error.strerror}); give this user the right to read it"
            ) from error
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise ParameterError(_not_a_file(path, status.st_mode))
        self.inode = status.st_ino
        self._raw = os.fdopen(fd, "rb", buffering=0)
        packed = os.pread(fd, 2, 0) == b"\x1f\x8b"
        self._unpacked = gzip.GzipFile(fileobj=self._raw) if packed else None
        self.start: tuple[Excerpt, ...] = ()
        self.see_start()

    @property
    def packed(self) -> bool:
        """Whether it is compressed."""
        return self._unpacked is not None

    def see_start(self) -> None:
        """Look at the start; a compressed file is never cut, so there nothing needs to be known."""
        first = b"" if self.packed else os.pread(self._raw.fileno(), HEAD, 0)
        self.start = (Excerpt.of(0, first),) if first else ()

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes there, fewer at the end.

        Parameters
        ----------
        offset, length : int
            Of what the file holds, uncompressed.

        Returns
        -------
        bytes
        """
        if self._unpacked is None:
            return os.pread(self._raw.fileno(), length, offset)
        self._unpacked.seek(offset)
        pieces: list[bytes] = []
        while length > 0:
            try:
                piece = self._unpacked.read1(length)
            except DAMAGE:
                if not pieces:
                    raise
                break  # What came before the damage is good; the next call meets it again.
            if not piece:
                break
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def shows(self, excerpts: Iterable[Excerpt]) -> bool:
        """Return whether the file still holds all of these.

        Parameters
        ----------
        excerpts : iterable of Excerpt
            What it held once.

        Returns
        -------
        bool
        """
        try:
            return all(
                digest_of(self.read(offset, length)) == digest
                for offset, length, digest in excerpts
            )
        except DAMAGE:
            return False

    def size(self) -> int:
        """Return the bytes in the file as it lies on the disk."""
        return os.fstat(self._raw.fileno()).st_size

    def time(self) -> int:
        """Return when it was last written, in nanoseconds."""
        return os.fstat(self._raw.fileno()).st_mtime_ns

    def close(self) -> None:
        """Close it."""
        if self._unpacked is not None:
            self._unpacked.close()
        self._raw.close()


def _not_a_file(path: str, mode: int) -> str:
    if stat.S_ISDIR(mode):
        return f"{path!r} is a folder; name the files in it: {path.rstrip('/')}/*.log"
    return f"{path!r} is no regular file; pipe it into standard input"
