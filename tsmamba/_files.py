"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

from tsmamba.errors import ModelFileError

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file, so that nobody ever sees a part of it.

    Parameters
    ----------
    path : str or path
        The file; replaced if it exists.
    data : bytes
        All of it.

    Raises
    ------
    ModelFileError
        If the folder does not exist or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "model", b"weights")
    ...     (Path(folder) / "model").read_bytes()
    b'weights'
    """
    target = Path(path)
    try:
        # Beside the target, so that the last step is a rename, and with the rights of a new file.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as folder:
            whole = Path(folder) / "model"
            whole.write_bytes(data)
            whole.replace(target)
    except OSError as error:
        raise ModelFileError(f"cannot write {str(target)!r}: {error.strerror}") from error
