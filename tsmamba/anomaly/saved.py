"""The file of a detector."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tsmamba.anomaly import calibration as kinds
from tsmamba.anomaly.defaults import calibration_for
from tsmamba.anomaly.model import DetectorModel
from tsmamba.anomaly.pace import Pace
from tsmamba.anomaly.parts import from_parts, to_parts
from tsmamba.persistence import load_model, save_model

if TYPE_CHECKING:
    from tsmamba.anomaly.estimator import MambaDetector

_KIND = "MambaDetector"
_CLASS = "class"


def save_detector(
    path: str | Path,
    detector: "MambaDetector",
    model: DetectorModel,
    names: np.ndarray | None,
    pace: Pace | None,
) -> None:
    """Write a fitted detector.

    Parameters
    ----------
    path : str or path
        The file.
    detector : MambaDetector
        Its parameters.
    model : DetectorModel
        What it fitted.
    names : ndarray of str or None
        Of the channels.
    pace : Pace or None
        Of the rows.
    """
    settings, arrays = to_parts(model)
    whole = {
        "parameters": {
            name: _plain(value) for name, value in detector.get_params(deep=False).items()
        },
        "names": None if names is None else list(names),
        "pace": None if pace is None else asdict(pace),
        "model": settings,
    }
    tensors = {name: torch.from_numpy(part) for name, part in arrays.items()}
    save_model(path, _KIND, whole, tensors)


def load_detector(
    path: str | Path,
) -> tuple[dict[str, Any], DetectorModel, list[str] | None, Pace | None]:
    """Read what `save_detector` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    parameters, model, names, pace
        As they were.
    """
    settings, tensors = load_model(path, _KIND)
    parameters = {name: _made(value) for name, value in settings["parameters"].items()}
    calibration = calibration_for(parameters["calibration"], parameters["contamination"])
    arrays = {name: part.numpy() for name, part in tensors.items()}
    model = from_parts(settings["model"], arrays, calibration)
    pace = settings["pace"]
    return parameters, model, settings["names"], None if pace is None else Pace(**pace)


def _plain(value: Any) -> Any:
    """Turn settings objects into their class and parameters."""
    if hasattr(value, "get_params"):
        return {_CLASS: type(value).__name__, **value.get_params(deep=False)}
    return value


def _made(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    parameters = dict(value)
    return getattr(kinds, parameters.pop(_CLASS))(**parameters)
