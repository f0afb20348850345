"""Where the model comes from, and what serves it."""

import hashlib
from pathlib import Path
from typing import Any, Protocol

from tsmamba.anomaly.estimator import MambaDetector
from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.forecast import MambaForecaster
from tsmamba.logs.estimator import LogDetector
from tsmamba.serving.app.engine import Engine
from tsmamba.serving.app.forecasts import ForecastEngine
from tsmamba.serving.app.lines import LineEngine
from tsmamba.serving.app.rows import RowEngine
from tsmamba.serving.loading import ESTIMATORS, load_any

__all__ = ["FileModel", "ModelSource", "engine_of"]


class ModelSource(Protocol):
    """A place that has a model now, and perhaps a newer one later."""

    name: str
    alias: str

    def newest(self) -> str:
        """Return the version that is to be served now."""

    def load(self, version: str) -> Any:
        """Return the fitted estimator of that version."""


class FileModel:
    """A model file, whose version is the start of its check sum.

    Parameters
    ----------
    path : Path
        What `save` of a `MambaForecaster`, `MambaDetector` or `LogDetector` wrote.

    Examples
    --------
    >>> FileModel(Path("models/pumps.tsm")).name
    'pumps.tsm'
    """

    alias = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.name

    def newest(self) -> str:
        """Return the start of the file's check sum."""
        try:
            return hashlib.sha256(self._path.read_bytes()).hexdigest()[:12]
        except OSError as error:
            raise ModelFileError(f"cannot read {str(self._path)!r}: {error.strerror}") from error

    def load(self, version: str) -> Any:
        """Return the estimator in the file as it is now."""
        return load_any(self._path)


def engine_of(model: Any, max_series: int) -> Engine:
    """Return what serves a fitted estimator.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted.
    max_series : int
        Series or streams at most.

    Returns
    -------
    Engine

    Raises
    ------
    ParameterError
        If it is none of them.
    """
    if isinstance(model, MambaDetector):
        return RowEngine(model, max_series)
    if isinstance(model, LogDetector):
        return LineEngine(model, max_series)
    if isinstance(model, MambaForecaster):
        return ForecastEngine(model)
    raise ParameterError(
        f"a {type(model).__name__} cannot be served; give one of {', '.join(ESTIMATORS)}"
    )
