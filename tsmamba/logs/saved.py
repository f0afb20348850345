"""Model files of log detectors: JSON, packed, under a version and a check sum. No pickle."""

import gzip
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

from tsmamba._files import write_whole
from tsmamba.errors import ModelFileError

__all__ = ["digest_of", "load_state", "save_state"]

_KIND = "LogDetector"
_VERSION = 2
# Fast, and within a tenth of the smallest.
_PACKED = 6


def digest_of(state: dict[str, Any]) -> str:
    """Name of a state: the same for the same values."""
    return hashlib.sha256(_text(state)).hexdigest()


def save_state(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write a model file, whole or not at all.

    Raises
    ------
    ModelFileError
        If the folder does not exist or cannot be written.
    """
    body = _text(state)
    head = {"kind": _KIND, "version": _VERSION, "sha256": hashlib.sha256(body).hexdigest()}
    packed = gzip.compress(json.dumps(head).encode() + b"\n" + body, _PACKED, mtime=0)
    write_whole(path, packed)


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a model file.

    Raises
    ------
    ModelFileError
        If there is no such file, or it is damaged, altered, of another kind or too new.
    """
    name = str(Path(path))
    try:
        packed = Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read {name!r}: {error.strerror}") from error
    try:
        line, _, body = gzip.decompress(packed).partition(b"\n")
        head = json.loads(line)
        kind, version, digest = head["kind"], head["version"], head["sha256"]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(
            f"{name!r} is no model of a log detector, or is cut short; give a file that "
            f"'tsmamba logs fit' or LogDetector.save wrote"
        ) from error
    if kind != _KIND or version != _VERSION:
        raise ModelFileError(
            f"{name!r} holds {kind} of version {version}; this version of tsmamba reads {_KIND} "
            f"of version {_VERSION}. Fit it again"
        )
    if hashlib.sha256(body).hexdigest() != digest:
        raise ModelFileError(f"{name!r} was altered: its check sum is wrong. Fit it again")
    state: dict[str, Any] = json.loads(body)
    return state


def _text(state: dict[str, Any]) -> bytes:
    return json.dumps(state, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
