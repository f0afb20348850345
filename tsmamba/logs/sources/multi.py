"""Several sources as one."""

from collections.abc import Sequence
from typing import Any

from tsmamba.errors import ParameterError
from tsmamba.logs.record import Line
from tsmamba.logs.sources.pause import wait_for
from tsmamba.logs.sources.source import Loss, Positions, Source

__all__ = ["MultiSource"]


class MultiSource:
    """Reads sources in turn, so that a busy one does not keep a quiet one waiting.

    Parameters
    ----------
    sources : sequence of Source
        At least one, with names of their own.

    Raises
    ------
    ParameterError
        If there is none, or one is given twice.

    Examples
    --------
    >>> from tsmamba.logs.sources import LinesSource
    >>> both = MultiSource([LinesSource(["a", "b"], "one"), LinesSource(["c"], "two")])
    >>> [(line.source, line.text) for line in both.read(2)]
    [('one', b'a'), ('two', b'c')]
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources:
            raise ParameterError("there is no source; give a file, or - for standard input")
        names = [source.name for source in sources]
        for name in names:
            if names.count(name) > 1:
                raise ParameterError(f"source {name!r} is given twice; give each once")
        self._sources = list(sources)
        self._others: dict[str, dict[str, Any]] = {}

    @property
    def name(self) -> str:
        """Names of all, for people."""
        return ", ".join(source.name for source in self._sources)

    @property
    def done(self) -> bool:
        """Whether all are done."""
        return all(source.done for source in self._sources)

    def read(self, max_lines: int) -> list[Line]:
        """Return lines of all sources, each with an equal share if it has as many.

        Parameters
        ----------
        max_lines : int
            At most so many.

        Returns
        -------
        list of Line
        """
        lines: list[Line] = []
        share = max(1, max_lines // len(self._sources))
        busy = []
        for source in self._sources:
            part = source.read(min(share, max_lines - len(lines)))
            lines += part
            if len(part) == share:
                busy.append(source)
        for source in busy:
            if len(lines) < max_lines:
                lines += source.read(max_lines - len(lines))
        # Who was first is last the next time.
        self._sources.append(self._sources.pop(0))
        return lines

    def wait(self, timeout: float) -> bool:
        """Sleep until one of them has something.

        Parameters
        ----------
        timeout : float
            Seconds, at most.

        Returns
        -------
        bool
            Whether there is something to read.
        """
        if len(self._sources) == 1:
            # A pipe wakes its reader up, and several can only be looked at.
            return self._sources[0].wait(timeout)
        return (
            wait_for(lambda: self.done or any(source.wait(0) for source in self._sources), timeout)
            and not self.done
        )

    def positions(self) -> Positions:
        """Return the positions of all, and those of sources that are not read this time.

        Returns
        -------
        mapping
        """
        positions = dict(self._others)
        for source in self._sources:
            positions.update(source.positions())
        return positions

    def seek(self, positions: Positions) -> None:
        """Let each go on from its place.

        Parameters
        ----------
        positions : mapping
            As `positions` returned them.
        """
        self._others = dict(positions)
        for source in self._sources:
            source.seek(positions)

    def losses(self) -> list[Loss]:
        """Return what any of them lost since the last call.

        Returns
        -------
        list of Loss
        """
        return [loss for source in self._sources for loss in source.losses()]

    def close(self) -> None:
        """Close all."""
        for source in self._sources:
            source.close()
