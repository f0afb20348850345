"""Get the verified bytes of a source file: from a folder, or by download into a cache.

The folder named by ``TSMAMBA_DATA`` wins, so that a machine without a network can
use files that were copied there by hand.
"""

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from tsmamba_datasets._catalog import DataFile, find_file
from tsmamba_datasets.errors import ChecksumError, DatasetError, DownloadError

FOLDER_VARIABLE = "TSMAMBA_DATA"
_GZIP_MAGIC = b"\x1f\x8b"


def read_source(path: str) -> bytes:
    """Return the content of one catalogued source file, decompressed if it is a .gz.

    Parameters
    ----------
    path : str
        Path below the data folder, as written in the catalog.

    Returns
    -------
    bytes
        The content, checked against the recorded sha256.

    Raises
    ------
    DatasetError
        If the file is not in the folder, or has no folder and no address.
    ChecksumError
        If the bytes are not the recorded ones.
    DownloadError
        If the download fails.

    Examples
    --------
    >>> content = read_source("ett/ETTh1.csv.gz")
    """
    file = find_file(path)
    folder = os.environ.get(FOLDER_VARIABLE)
    return _from_folder(file, Path(folder)) if folder else _from_network(file)


def _from_folder(file: DataFile, folder: Path) -> bytes:
    """Read a file from the folder of ``TSMAMBA_DATA``, or say what is missing there."""
    place = folder / file.path
    if not place.is_file():
        raise DatasetError(
            f"{FOLDER_VARIABLE}={str(folder)!r} has no file {file.path!r}; expected one with "
            f"sha256 {file.sha256}. Copy it there, or unset {FOLDER_VARIABLE}"
            + (f" to download {file.url}." if file.url else " and use another data set.")
        )
    raw = place.read_bytes()
    _verify(raw, file.sha256, place)
    return _decompress(raw)


def _from_network(file: DataFile) -> bytes:
    """Download a file once into the cache of the operating system and read it there."""
    if not file.url:
        raise DatasetError(
            f"{file.path!r} has no download: it was converted from other files, so no single "
            f"public file has these bytes. Set the environment variable {FOLDER_VARIABLE} to a "
            f"folder that holds {file.path!r} with sha256 {file.sha256}; the page "
            f"descr/{file.dataset}.md names the origin."
        )
    place = _retrieve(file)
    raw = place.read_bytes()
    # A publisher may compress in another way: only the content has a known sum then.
    content = _decompress(raw)
    _verify(content, file.content_sha256, place)
    return content


def _retrieve(file: DataFile) -> Path:
    """Run pooch, turning each of its failures into one of our errors."""
    repair = f"set {FOLDER_VARIABLE} to a folder that holds {file.path!r}"
    try:
        import pooch  # only a download needs it
    except ImportError as error:
        raise DownloadError(
            f"downloading {file.url} needs the package pooch, which is not installed. Run "
            f"pip install 'tsmamba[datasets]', or {repair}."
        ) from error
    # The address is part of the name, so that a file of another commit is never reused.
    name = f"{hashlib.sha256(file.url.encode()).hexdigest()[:12]}-{Path(file.path).name}"
    known = None if file.url.endswith(".gz") else file.content_sha256
    try:
        place = pooch.retrieve(
            file.url, known_hash=known, fname=name, path=pooch.os_cache("tsmamba_datasets")
        )
    except OSError as error:
        raise DownloadError(
            f"cannot download {file.url} ({type(error).__name__}: {error}). Check the network, "
            f"or {repair}."
        ) from error
    except ValueError as error:
        raise ChecksumError(
            f"{file.url} did not send the recorded bytes ({error}); expected sha256 {known}. "
            f"Try again later, or {repair}."
        ) from error
    return Path(place)


def _decompress(raw: bytes) -> bytes:
    """Undo gzip where there is one; a broken stream is left to the checksum to report."""
    if not raw.startswith(_GZIP_MAGIC):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error):
        return raw


def _verify(data: bytes, expected: str, place: Path) -> None:
    """Compare the sha256 of the bytes with the recorded one."""
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise ChecksumError(
            f"{str(place)!r} has sha256 {found}; expected {expected}. The file is cut short or "
            "another version: delete it and get it again."
        )
