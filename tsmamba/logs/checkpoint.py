"""A checkpoint: where the sources stand and what is known there, written together or not at all.

One SQLite file, so that a power cut in the middle leaves the checkpoint before. Beside it lies its
journal, ``-wal``, as long as it is open.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tsmamba.errors import CheckpointError

__all__ = ["Checkpoint"]

FORMAT_VERSION = 1

# Marks the file as one of ours, where SQLite keeps a number for that: "tsml".
_APPLICATION = 0x74736D6C

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE blobs (name TEXT PRIMARY KEY, data BLOB NOT NULL, digest BLOB NOT NULL);
"""


class Checkpoint:
    """Positions and states in one file that survives a crash at any moment.

    Write outputs first, then commit. What was given after the last commit is given again after a
    restart, with the same streams and offsets. One thread at a time may use it.

    Parameters
    ----------
    path : str or path
        The file; made if it does not exist.
    model : str
        Digest of the model and its settings. States of another model are refused.

    Raises
    ------
    CheckpointError
        If another process has it open, it belongs to another model or a later version, it is
        damaged or something else, or its place cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "app.checkpoint")
    >>> with Checkpoint(path, model="5f2c") as checkpoint:
    ...     checkpoint.load() is None
    ...     checkpoint.commit({"app.log": {"offset": 120}}, {"templates": b"..."})
    True
    >>> with Checkpoint(path, model="5f2c") as checkpoint:
    ...     checkpoint.load()
    ({'app.log': {'offset': 120}}, {'templates': b'...'})
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, model: str) -> None:
        self._path = Path(path)
        self._check_place()
        with self._explained():
            # Statements are given with their transactions; nobody is waited for. Threads may take
            # turns: a service opens the file in one and commits in another.
            self._base = sqlite3.connect(
                self._path, timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._open(model)
        except CheckpointError:
            self._base.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def load(self) -> tuple[dict[str, Any], dict[str, bytes]] | None:
        """Return what was committed last.

        Returns
        -------
        positions : dict
            Where to go on.
        blobs : dict of str to bytes
            Every state by name.

        Returns None in place of both before the first commit.

        Raises
        ------
        CheckpointError
            If it is damaged.
        """
        with self._explained():
            positions = self._fact("positions")
            if positions is not None and self._fact("digest") != _digest(positions.encode()).hex():
                raise CheckpointError(self._damaged("the positions were altered"))
            rows = self._base.execute("SELECT name, data, digest FROM blobs ORDER BY name")
            blobs = {}
            for name, data, digest in rows:
                if _digest(data) != digest:
                    raise CheckpointError(self._damaged(f"state {name!r} was altered"))
                blobs[name] = data
        return None if positions is None else (json.loads(positions), blobs)

    def commit(
        self,
        positions: Mapping[str, Any],
        blobs: Mapping[str, bytes],
        *,
        delete: Iterable[str] = (),
    ) -> None:
        """Replace the positions and some states, in one transaction.

        Parameters
        ----------
        positions : mapping
            Where to go on; JSON must be able to hold it.
        blobs : mapping of str to bytes
            States that changed. Others stay as they are.
        delete : iterable of str
            Names of states to forget.

        Raises
        ------
        CheckpointError
            If they cannot be written, as on a full disk. The checkpoint before stays valid.
        """
        text = json.dumps(positions, allow_nan=False)
        rows = [(name, data, _digest(data)) for name, data in blobs.items()]
        with self._transaction():
            self._set_fact("positions", text)
            self._set_fact("digest", _digest(text.encode()).hex())
            self._base.executemany("DELETE FROM blobs WHERE name = ?", [(name,) for name in delete])
            self._base.executemany("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        """Let go of the file; another process may open it then."""
        self._base.close()

    def _check_place(self) -> None:
        if self._path.is_dir():
            raise CheckpointError(f"{self._name} is a folder; name a file in it")
        if not self._path.parent.is_dir():
            raise CheckpointError(
                f"there is no folder {str(self._path.parent)!r} for the checkpoint; make it first"
            )

    def _open(self, model: str) -> None:
        # The lock is kept until the file is closed or the process dies. Asked for before anything
        # is read, it needs no memory shared with other processes, so any file system will do.
        self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
        application = self._pragma("application_id")
        if application != _APPLICATION and not self._is_empty():
            raise CheckpointError(
                f"{self._name} is a database, but no checkpoint of tsmamba; name another file"
            )
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            if self._is_empty():
                for statement in _TABLES.strip().splitlines():
                    self._base.execute(statement)
                self._base.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._set_fact("format_version", str(FORMAT_VERSION))
                self._set_fact("model", model)
        self._check_version(model)

    def _check_version(self, model: str) -> None:
        version, owner = self._fact("format_version"), self._fact("model")
        if version != str(FORMAT_VERSION):
            raise CheckpointError(
                f"{self._name} has format version {version}, this tsmamba reads {FORMAT_VERSION}; "
                "upgrade tsmamba or name another file"
            )
        if owner != model:
            raise CheckpointError(
                f"{self._name} belongs to the model {owner}, not to {model}; "
                "use that model, or name another file to start anew"
            )

    @property
    def _name(self) -> str:
        return repr(str(self._path))

    def _damaged(self, what: str) -> str:
        return (
            f"{self._name} is no whole checkpoint ({what}); restore it, or remove it and start anew"
        )

    def _is_empty(self) -> bool:
        return not self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]

    def _pragma(self, name: str) -> int:
        value: int = self._base.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def _fact(self, name: str) -> str | None:
        row = self._base.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _set_fact(self, name: str, value: str) -> None:
        self._base.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._base.execute("COMMIT")
            finally:
                # Some failures have rolled it back already.
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what to do about what SQLite refuses."""
        try:
            yield
        except sqlite3.Error as error:
            raise CheckpointError(self._explain(error)) from error

    def _explain(self, error: sqlite3.Error) -> str:
        # The low byte is the kind; the others say where it happened.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return f"{self._name} is in use by another process; stop it, or name another file"
        if kind == sqlite3.SQLITE_FULL:
            return (
                f"the disk is full: {self._name} was not written and is still what it was; "
                "make room and try again"
            )
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            return self._damaged(str(error))
        return f"{self._name} cannot be written ({error}); name a file in a folder that can be"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
