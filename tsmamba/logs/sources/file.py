"""Lines of a log file, through all the names and forms that its bytes take."""

import os
from pathlib import Path
from typing import Any, Literal

from tsmamba.errors import ParameterError
from tsmamba.logs.record import Line
from tsmamba.logs.sources import rotation
from tsmamba.logs.sources.buffered import Buffered
from tsmamba.logs.sources.cursor import Cursor
from tsmamba.logs.sources.logfile import LogFile, digest_of
from tsmamba.logs.sources.pause import wait_for
from tsmamba.logs.sources.source import Loss, Positions

__all__ = ["FileSource"]

_FIRST_LINES = 100
"""How many first lines are remembered, so that files that start alike get streams of their own."""


class FileSource(Buffered):
    """Lines of a file; after it was rotated, those of the old file and then those of the new one.

    Parameters
    ----------
    path : str or path
        The log, plain or compressed by gzip.
    follow : bool, default False
        Wait for more at the end, as ``tail -F`` does, also for a file that is not there yet.
    read_from : {"beginning", "end"}, default "beginning"
        Where to start in a file that exists and has no position yet. Lines are counted from there.

    Raises
    ------
    ParameterError
        If `path` is no file, may not be read, or does not exist and is not followed; if it is
        compressed and to be followed or read from its end; if `read_from` is something else.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "app.log")
    >>> _ = path.write_bytes(b"started" + bytes([10]) + b"stopped")
    >>> source = FileSource(path)
    >>> [line.text for line in source.read(1)]
    [b'started']
    >>> later = FileSource(path)
    >>> later.seek(source.positions())
    >>> [(line.number, line.text) for line in later.read(100)]
    [(2, b'stopped')]
    >>> source.close(), later.close(), folder.cleanup()
    (None, None, None)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        follow: bool = False,
        read_from: Literal["beginning", "end"] = "beginning",
    ) -> None:
        super().__init__(os.fspath(path))
        if read_from not in ("beginning", "end"):
            raise ParameterError(f'read_from is {read_from!r}; give "beginning" or "end"')
        self._path = str(Path(path).absolute())
        self._follow = follow
        self._done = False
        self._cursor: Cursor | None = None
        self._position: dict[str, Any] | None = None  # where to start; None if nothing is known
        self._streams: dict[str, int] = {}
        # What the path named when there was nothing to go on to.
        self._quiet: tuple[int, bool] | Literal["not looked"] | None = "not looked"
        self._from_end = read_from == "end"
        self._check()

    @property
    def done(self) -> bool:
        """Whether nothing will ever come; never so while it is followed."""
        return self._done and self._empty

    def read(self, max_lines: int) -> list[Line]:
        """Return lines that are there, without waiting.

        Parameters
        ----------
        max_lines : int
            At most so many.

        Returns
        -------
        list of Line
        """
        self._has_lines()
        lines = self._give(max_lines)
        if lines and self._cursor is not None:
            self._cursor.given(lines[-1])
        return lines

    def wait(self, timeout: float) -> bool:
        """Sleep until there is a line.

        Parameters
        ----------
        timeout : float
            Seconds, at most.

        Returns
        -------
        bool
            Whether there is something to read.
        """
        return wait_for(lambda: self._has_lines() or self._done, timeout) and not self._empty

    def positions(self) -> Positions:
        """Return where to go on, and what the file must show there.

        Asked before the first line, it tells which file is the first one, so that a reader that
        dies early does not start at a later one.

        Returns
        -------
        mapping
        """
        if self._position is None and self._cursor is None:
            self._begin()
        if self._cursor is None:
            return {self._path: dict(self._position or {})}
        return {self._path: {**self._cursor.position(), "streams": list(self._streams.items())}}

    def seek(self, positions: Positions) -> None:
        """Go on from there, wherever these bytes are now.

        Parameters
        ----------
        positions : mapping
            As `positions` returned them; those of other sources are ignored.
        """
        if self._path in positions:
            self.close()
            self._position = positions[self._path]
            self._streams = dict(self._position.get("streams", ()))

    def close(self) -> None:
        """Close the file; the position stays."""
        if self._cursor is not None:
            self._position = self.positions()[self._path]
            self._cursor.file.close()
            self._cursor = None
        self._lines, self._next, self._done = [], 0, False

    def _check(self) -> None:
        """Refuse what cannot be read, before anything is."""
        try:
            file = LogFile(self._path)
        except FileNotFoundError:
            self._not_there()
            return
        packed = file.packed
        file.close()
        if packed and (self._follow or self._from_end):
            raise ParameterError(
                f"{self._name!r} is compressed and will not grow; "
                "read it from the beginning and do not follow it"
            )

    def _missing(self) -> ParameterError:
        return ParameterError(
            f"there is no file {self._name!r}; check the path, or follow it to wait for it"
        )

    # Each of the methods below makes one step: it reads a block or goes from file to file. They
    # return whether to go on; False means that there is nothing to read now.

    def _has_lines(self) -> bool:
        while self._empty and not self._done and self._step():
            pass
        return not self._empty

    def _step(self) -> bool:
        if self._cursor is None:
            return self._begin()
        block = self._cursor.block()
        if block is None:
            return self._after_cut(self._cursor)
        if not block:
            return self._after_end(self._cursor)
        if self._cursor.first_line_is_whole:
            self._name_stream(self._cursor)
        self._offer(self._cursor.splitter.feed(block), self._cursor.splitter)
        return True

    def _begin(self) -> bool:
        if self._position is not None:
            return self._resume(self._position)
        try:
            file = LogFile(self._path)
        except FileNotFoundError:  # It was there when this source was made.
            return self._not_there()
        self._enter(Cursor.at_end(file, self._name) if self._from_end else Cursor(file, self._name))
        return True

    def _resume(self, position: dict[str, Any]) -> bool:
        was_read = position["inode"] is not None
        if was_read:
            file = rotation.find(self._path, Cursor.mark_of(position), position["path"])
            if file is not None:
                self._enter(Cursor.resumed(file, self._name, position))
                return True
        file = rotation.find_oldest(self._path, position["time"])
        if file is None:
            return self._not_there()
        if was_read:
            self._lose(
                position["stream"],
                position["offset"],
                max(0, position["size"] - position["offset"]),
                "the file was cut or removed while nobody read it, and no copy lies beside it",
            )
        self._enter(Cursor(file, self._name))
        return True

    def _not_there(self) -> bool:
        if not self._follow:
            raise self._missing()
        if self._position is None:
            # Whatever is written after the last change of the folder is new.
            self._position = {"inode": None, "time": rotation.time_of(str(Path(self._path).parent))}
        return False

    def _after_cut(self, cursor: Cursor) -> bool:
        copy = rotation.find(self._path, cursor.mark)
        if copy is not None:
            cursor.replace(copy)
            return True
        splitter = cursor.splitter
        self._lose(
            splitter.stream,
            splitter.offset,
            splitter.pending,
            "the file was cut or written anew, and no copy of it lies beside it",
        )
        cursor.file.see_start()
        self._enter(Cursor(cursor.file, self._name))
        return True

    def _after_end(self, cursor: Cursor) -> bool:
        following = None
        beside = _look(self._path)
        if beside is not None and beside[0] == cursor.file.inode:
            if self._follow:
                return False
        else:
            if self._follow and beside == self._quiet:
                return False
            following = rotation.find_next(self._path, cursor.file, cursor.mark)
            # As long as the new file is empty, its writer may still have the old one open.
            if self._follow and (following is None or self._is_empty_log(following)):
                self._quiet = beside
                _close(following)
                return False
            if following is not None and cursor.is_copy_of(following):
                # A log that is about to be cut: whoever rotates it has copied it already.
                cursor.replace(following)
                return True
            if cursor.has_more:  # Written before the new file was, or before the log was cut.
                _close(following)
                return True
        return self._go_on(cursor, following)

    def _go_on(self, cursor: Cursor, following: LogFile | None) -> bool:
        """Leave a file that is complete: give its unfinished last line, then enter the next."""
        if cursor.damage:
            splitter = cursor.splitter
            reason = f"the file is damaged ({cursor.damage}); copy it anew"
            self._lose(splitter.stream, splitter.offset, splitter.pending, reason)
        elif cursor.splitter.pending:
            self._name_stream(cursor)
            self._offer(cursor.splitter.finish(), cursor.splitter)
            _close(following)
            return True
        if following is None:
            self._done = True
            return False
        cursor.file.close()
        self._enter(Cursor(following, self._name))
        return True

    def _enter(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._quiet = "not looked"

    def _is_empty_log(self, file: LogFile) -> bool:
        return file.path == os.path.realpath(self._path) and not file.size()

    def _name_stream(self, cursor: Cursor) -> None:
        """Name the bytes by how they start; by a count too, if others started the same way."""
        if cursor.splitter.stream:
            return
        # The path is part of it: other logs may start the same way.
        name = digest_of(os.fsencode(self._path) + b"\0" + cursor.first_line)
        count = self._streams.pop(name, 0) + 1
        self._streams[name] = count
        while len(self._streams) > _FIRST_LINES:
            del self._streams[next(iter(self._streams))]
        cursor.splitter.stream = name if count == 1 else f"{name}.{count}"

    def _lose(self, stream: str, offset: int, n_bytes: int, reason: str) -> None:
        known = f", {n_bytes} bytes at least," if n_bytes else ", if anything,"
        message = f"{self._name!r}: {reason}; what followed byte {offset}{known} is lost"
        self._losses.append(Loss(self._name, stream, offset, n_bytes, message))


def _look(path: str) -> tuple[int, bool] | None:
    """Return which file a path names and whether anything is in it."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size > 0


def _close(file: LogFile | None) -> None:
    if file is not None:
        file.close()
