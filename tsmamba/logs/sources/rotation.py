"""Where the bytes of a log are after its files were renamed, copied, compressed or removed.

Beside ``app.log`` lie ``app.log.1``, ``app.log-20261130.gz`` and the like. A listing is not one
moment: files may change their names while it is read. So whatever is concluded from a listing is
concluded twice, until both agree.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tsmamba.errors import ParameterError
from tsmamba.logs.sources.logfile import LogFile, Mark

__all__ = ["find", "find_next", "find_oldest", "time_of"]

_ATTEMPTS = 50
_ROTATED = re.compile(r"[._-](\d[\dT:._-]*)(\.gz)?")


class _Entry(NamedTuple):
    path: str
    inode: int


def find(path: str, mark: Mark, last_path: str = "") -> LogFile | None:
    """Return the file that holds what was read before, whatever its name is now.

    Parameters
    ----------
    path : str
        Of the log.
    mark : Mark
        What the file must show.
    last_path : str
        Where it lay when it was read; matters if `path` is a link that points elsewhere now.

    Returns
    -------
    LogFile or None
        Open.
    """
    for _ in range(_ATTEMPTS):
        listed = _siblings(path, last_path)
        # The file itself before a copy of it, a plain copy before a compressed one.
        for entry in sorted(listed, key=lambda e: (e.inode != mark.inode, e.path.endswith(".gz"))):
            file = _open_as(entry.path, mark)
            if file is not None:
                return file
        if _siblings(path, last_path) == listed:
            break
    return None


def find_next(path: str, file: LogFile, mark: Mark) -> LogFile | None:
    """Return the file whose bytes follow those of another.

    Parameters
    ----------
    path : str
        Of the log.
    file : LogFile
        The file that was read to its end.
    mark : Mark
        What it shows, to find its place if it was compressed meanwhile.

    Returns
    -------
    LogFile or None
        Open; None if there is none yet.
    """

    def choose() -> str | None:
        chain = _chain(path)
        places = [n for n, entry in enumerate(chain) if entry.inode == file.inode]
        places = places or [n for n, entry in enumerate(chain) if _holds(entry.path, mark)]
        if not places:
            return _first_after(path, chain, file.time())
        return chain[places[0] + 1].path if places[0] + 1 < len(chain) else None

    return _settle(choose)


def find_oldest(path: str, time: int) -> LogFile | None:
    """Return the oldest file of a log that was written after a time, else the log itself.

    Parameters
    ----------
    path : str
        Of the log.
    time : int
        Nanoseconds.

    Returns
    -------
    LogFile or None
        Open; None if the log does not exist.
    """
    return _settle(lambda: _first_after(path, _chain(path), time))


def _settle(choose: Callable[[], str | None]) -> LogFile | None:
    """Open the chosen file, once the choice is the same before and after."""
    for _ in range(_ATTEMPTS):
        name = choose()
        file = None if name is None else _open(name)
        steady = choose() == name and (None if name is None else _inode(name)) == (
            None if file is None else file.inode
        )
        if steady:
            return file
        if file is not None:
            file.close()
    return None


def _siblings(path: str, last_path: str = "") -> list[_Entry]:
    """List the log and every file whose name begins with its name."""
    real = Path(os.path.realpath(path))
    try:
        with os.scandir(real.parent) as listing:
            entries = [
                _Entry(entry.path, entry.inode())
                for entry in listing
                if entry.name.startswith(real.name) and entry.is_file()
            ]
    except OSError:  # A folder that may be entered and not listed.
        entries = [_Entry(str(real), inode)] if (inode := _inode(str(real))) is not None else []
    inode = _inode(last_path)
    if inode is not None and all(entry.path != last_path for entry in entries):
        entries.append(_Entry(last_path, inode))
    return sorted(entries)


def _chain(path: str) -> list[_Entry]:
    """List the files of a log, oldest first, itself last if it is there."""
    real = os.path.realpath(path)
    rotated: dict[str, _Entry] = {}
    itself: list[_Entry] = []
    for entry in _siblings(path):
        suffix = _ROTATED.fullmatch(entry.path.removeprefix(real))
        if entry.path == real:
            itself = [entry]
        elif suffix is not None:
            # Sorted: a plain file comes before what is being made of it, its compressed form.
            rotated.setdefault(suffix[1], entry)
    if all(len(suffix) < 5 and suffix.isdecimal() for suffix in rotated):
        order = sorted(rotated, key=int, reverse=True)
    else:
        order = sorted(rotated, key=lambda suffix: (time_of(rotated[suffix].path), suffix))
    return [rotated[suffix] for suffix in order] + itself


def _first_after(path: str, chain: list[_Entry], time: int) -> str | None:
    real = os.path.realpath(path)
    for entry in chain:
        if entry.path == real or time_of(entry.path) > time:
            return entry.path
    return None


def _open_as(path: str, mark: Mark) -> LogFile | None:
    """Open a file if it shows what the mark says."""
    try:
        file = _open(path)
    except ParameterError:  # Not ours to read, so it was not read before.
        return None
    if file is None:
        return None
    if (mark.excerpts or file.inode == mark.inode) and file.shows(mark.excerpts):
        return file
    file.close()
    return None


def _holds(path: str, mark: Mark) -> bool:
    file = _open_as(path, mark)
    if file is not None:
        file.close()
    return file is not None


def _open(path: str) -> LogFile | None:
    """Open a file that may just have been renamed."""
    try:
        return LogFile(path)
    except FileNotFoundError:
        return None


def _inode(path: str) -> int | None:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def time_of(path: str) -> int:
    """Return when a file or folder was last changed.

    Parameters
    ----------
    path : str
        Of either.

    Returns
    -------
    int
        Nanoseconds; 0 if there is none.
    """
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0
