"""From the names on a command line to a source."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tsmamba.logs.sources.file import FileSource
from tsmamba.logs.sources.multi import MultiSource
from tsmamba.logs.sources.source import Source
from tsmamba.logs.sources.stdin import StdinSource

__all__ = ["open_sources"]


def open_sources(
    names: Sequence[str | os.PathLike[str]],
    *,
    follow: bool = False,
    read_from: Literal["beginning", "end"] = "beginning",
) -> MultiSource:
    """Return the source that reads all of these.

    Parameters
    ----------
    names : sequence of str or path
        Files and named pipes; ``"-"`` is standard input. None means standard input.
    follow : bool, default False
        Wait for more at the end of files.
    read_from : {"beginning", "end"}, default "beginning"
        Where to start in files without a position.

    Returns
    -------
    MultiSource

    Raises
    ------
    ParameterError
        If one of them cannot be read.

    Examples
    --------
    >>> open_sources(["missing.log"], follow=True).name
    'missing.log'
    """

    def source_of(name: str) -> Source:
        if name == "-":
            return StdinSource()
        if _is_pipe(name):
            return StdinSource(os.open(name, os.O_RDONLY | os.O_CLOEXEC), name)
        return FileSource(name, follow=follow, read_from=read_from)

    return MultiSource([source_of(os.fspath(name)) for name in names or ("-",)])


def _is_pipe(name: str) -> bool:
    """Return whether it can be read once only, as what ``<(command)`` stands for."""
    try:
        mode = Path(name).stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
