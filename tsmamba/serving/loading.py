"""Saved models of any class: the file says which."""

import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from tsmamba.anomaly.estimator import MambaDetector
from tsmamba.errors import ModelFileError
from tsmamba.forecast import MambaForecaster
from tsmamba.logs.estimator import LogDetector

_GZIP = b"\x1f\x8b"
ESTIMATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (MambaForecaster, MambaDetector, LogDetector)
}


def load_any(path: str | os.PathLike[str]) -> Any:
    """Read a model of any class.

    Parameters
    ----------
    path : str or path
        A file that ``save`` of an estimator wrote.

    Returns
    -------
    MambaForecaster, MambaDetector or LogDetector
        Whichever was saved.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged or altered, or holds something else.

    Examples
    --------
    >>> import tempfile
    >>> from tsmamba import MambaForecaster
    >>> from tsmamba_datasets import make_seasonal
    >>> model = MambaForecaster(24, mode="base").fit(make_seasonal(length=400))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.tsm")
    ...     type(load_any(Path(folder) / "model.tsm")).__name__
    'MambaForecaster'
    """
    kind = _kind_of(Path(path))
    if kind not in ESTIMATORS:
        raise ModelFileError(
            f"{str(path)!r} holds {kind or 'no model of tsmamba'}; give a file that save() of "
            f"{', '.join(ESTIMATORS)} wrote"
        )
    model = ESTIMATORS[kind].load(path)
    if hasattr(model, "codes_"):
        raise ModelFileError(
            f"{str(path)!r} holds a {kind} of events, and series alone can be sent to services and "
            f"jobs; load it with {kind}.load and call predict(df=)"
        )
    return model


def _kind_of(path: Path) -> str | None:
    """Return the class that a file names."""
    try:
        with path.open("rb") as file:
            if file.read(len(_GZIP)) == _GZIP:
                return "LogDetector"
        with safe_open(path, framework="pt") as file:
            header: dict[str, str] = file.metadata() or {}
        return header.get("kind")
    except OSError as error:
        raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except SafetensorError:
        return None
