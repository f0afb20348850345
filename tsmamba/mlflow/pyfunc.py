"""What MLflow loads to score: the interface of every serving tool that builds on it."""

import logging
import os
from collections.abc import Mapping
from typing import Any

from tsmamba._optional import require
from tsmamba.errors import FrameError, ParameterError
from tsmamba.mlflow.files import read_estimator
from tsmamba.serving.frames import score_frame

_PARAMS = ("horizon", "quantiles")
_logger = logging.getLogger(__name__)


class Scorer:
    """A fitted estimator as MLflow calls it; see `tsmamba.serving.frames.score_frame`.

    Errors are MLflow's: a frame or a parameter that cannot be used is ``INVALID_PARAMETER_VALUE``,
    which a server answers with status 400, anything else is ``INTERNAL_ERROR``, status 500, and
    told to nobody but the log. Any number of threads may call `predict` at once.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tsmamba import MambaDetector
    >>> scorer = Scorer(MambaDetector("tiny").fit(np.arange(50.0)[:, None] % 5))
    >>> scorer.predict(pd.DataFrame({"x": [2.0, 99.0]}))["is_anomaly"].tolist()
    [False, True]
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Score a frame.

        Parameters
        ----------
        model_input : pandas.DataFrame
            What `score_frame` takes.
        params : mapping, optional
            ``horizon`` and ``quantiles``, of forecasts; no quantiles are the model's own.

        Returns
        -------
        pandas.DataFrame
            None where there is no number, since JSON knows no NaN.

        Raises
        ------
        MlflowException
            If the frame or a parameter cannot be used, or this fails.
        """
        exceptions = require("mlflow.exceptions", extra="mlflow")
        try:
            return _without_nan(score_frame(self._model, model_input, **_options(params or {})))
        except (FrameError, ParameterError) as error:
            raise exceptions.MlflowException.invalid_parameter_value(str(error)) from None
        except Exception:
            _logger.exception("the model failed on a frame")
            raise exceptions.MlflowException(
                "the model failed on these rows, which is no fault of the request; the log of the "
                "server says why"
            ) from None

    def get_raw_model(self) -> Any:
        """Return the estimator."""
        return self._model


def _load_pyfunc(path: str | os.PathLike[str], model_config: Any = None) -> Scorer:
    """Load what `mlflow.pyfunc` calls; MLflow looks for a function of this name.

    Parameters
    ----------
    path : str or path
        Folder of the model file.
    model_config : None
        Not used.

    Returns
    -------
    Scorer

    Raises
    ------
    ModelFileError
        If the file is damaged or altered.
    """
    return Scorer(read_estimator(path))


def _options(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in params if name not in _PARAMS]
    if unknown:
        raise ParameterError(
            f"unknown parameters {', '.join(map(repr, unknown))}; 'horizon' and 'quantiles' are "
            "accepted"
        )
    # MLflow needs a default for a list, and an empty one stands for the model's own.
    given = {name: value for name, value in params.items() if value is not None}
    return {name: value for name, value in given.items() if name == "horizon" or len(value)}


def _without_nan(frame: Any) -> Any:
    missing = frame.isna()
    if not missing.to_numpy().any():
        return frame
    gaps = dict.fromkeys(frame.columns[missing.any()], object)
    return frame.astype(gaps).mask(missing, None)
