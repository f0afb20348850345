"""Lines from standard input, or from any other pipe."""

import os
import selectors
import uuid

from tsmamba.errors import ParameterError
from tsmamba.logs.record import Line
from tsmamba.logs.sources.buffered import BLOCK, Buffered
from tsmamba.logs.sources.source import Positions
from tsmamba.logs.sources.splitter import Splitter

__all__ = ["StdinSource"]


class StdinSource(Buffered):
    r"""Lines from a file descriptor that can be read once: a pipe, a terminal, a socket.

    Nothing of it can be read again. Its position counts lines and bytes and goes on counting after
    a restart, but what was in the pipe when the reader died is gone.

    Parameters
    ----------
    fd : int, default 0
        The descriptor. It stays open.
    name : str, default "-"
        Name for people.

    Examples
    --------
    >>> import os
    >>> out, into = os.pipe()
    >>> os.write(into, b"one\ntwo")
    7
    >>> os.close(into)
    >>> source = StdinSource(out)
    >>> while not source.done:
    ...     for line in source.read(100):
    ...         line.text
    b'one'
    b'two'
    """

    def __init__(self, fd: int = 0, name: str = "-") -> None:
        super().__init__(name)
        self._fd = fd
        self._at_end = False
        # Two runs read other bytes at the same offset: each has a stream of its own.
        self._splitter = Splitter(name, f"pipe-{uuid.uuid4().hex[:16]}")
        self._given = {"number": 0, "offset": 0}
        # The poll selector also takes `< file`, which epoll refuses.
        self._selector = selectors.PollSelector()
        try:
            self._selector.register(fd, selectors.EVENT_READ)
            os.fstat(fd)
        except (OSError, ValueError) as error:
            raise ParameterError(
                f"{self._label} is not open; pipe a log into the command or name a file"
            ) from error

    @property
    def _label(self) -> str:
        return "standard input" if self._name == "-" else repr(self._name)

    @property
    def done(self) -> bool:
        """Whether the other side has closed and everything was given."""
        return self._at_end and self._empty

    def read(self, max_lines: int) -> list[Line]:
        """Return the lines that have arrived, without waiting.

        Parameters
        ----------
        max_lines : int
            At most so many.

        Returns
        -------
        list of Line
        """
        if self._empty and not self._at_end and self._selector.select(0):
            self._fill()
        lines = self._give(max_lines)
        if lines:
            self._given = {"number": lines[-1].number, "offset": lines[-1].end}
        return lines

    def wait(self, timeout: float) -> bool:
        """Sleep until something arrives.

        Parameters
        ----------
        timeout : float
            Seconds, at most.

        Returns
        -------
        bool
            Whether there is something to read.
        """
        if not self._empty or self._at_end:
            return not self._empty
        return bool(self._selector.select(max(0.0, timeout)))

    def positions(self) -> Positions:
        """Return the lines and bytes given so far.

        Returns
        -------
        mapping
        """
        return {self._name: dict(self._given)}

    def seek(self, positions: Positions) -> None:
        """Go on counting from there; the bytes themselves cannot be read again.

        Parameters
        ----------
        positions : mapping
            As `positions` returned them.
        """
        if self._name in positions:
            self._given = dict(positions[self._name])
            self._splitter.number = self._given["number"]
            self._splitter.offset = self._given["offset"]

    def close(self) -> None:
        """Stop reading; the descriptor stays open."""
        self._selector.close()

    def _fill(self) -> None:
        try:
            block = os.read(self._fd, BLOCK)
        except BlockingIOError:
            return
        except OSError as error:
            raise ParameterError(
                f"{self._label} cannot be read ({error.strerror}); "
                "pipe a log into the command or name a file"
            ) from error
        self._at_end = not block
        lines = self._splitter.feed(block) if block else self._splitter.finish()
        self._offer(lines, self._splitter)
