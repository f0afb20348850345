"""The folder of a model file: one file, named after the class that reads it."""

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.serving.loading import ESTIMATORS, load_any


def write_estimator(model: Any, folder: Path) -> str:
    """Save a fitted estimator in a new folder.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted.
    folder : Path
        The folder.

    Returns
    -------
    str
        Name of the class.

    Raises
    ------
    ParameterError
        If it is a model of another kind.
    NotFittedError
        If it is not fitted.

    Examples
    --------
    >>> write_estimator("model", Path("folder"))
    Traceback (most recent call last):
    ...
    tsmamba.errors.ParameterError: a model of type str; a MambaForecaster, a MambaDetector or a ...
    """
    kind = type(model).__name__
    if ESTIMATORS.get(kind) is not type(model):
        raise ParameterError(
            f"a model of type {kind}; a MambaForecaster, a MambaDetector or a LogDetector is "
            "accepted"
        )
    check_is_fitted(model)
    folder.mkdir(parents=True)
    model.save(folder / f"{kind}.tsm")
    return kind


def read_estimator(folder: str | os.PathLike[str]) -> Any:
    """Load the estimator that `write_estimator` saved.

    Parameters
    ----------
    folder : str or path
        The folder.

    Returns
    -------
    MambaForecaster, MambaDetector or LogDetector

    Raises
    ------
    ModelFileError
        If there is not one such file, or it is damaged or altered.

    Examples
    --------
    >>> read_estimator("nowhere")
    Traceback (most recent call last):
    ...
    tsmamba.errors.ModelFileError: 'nowhere' holds no model of tsmamba; log the model again
    """
    found = [file for file in Path(folder).glob("*.tsm") if file.stem in ESTIMATORS]
    if len(found) != 1:
        raise ModelFileError(f"{str(folder)!r} holds no model of tsmamba; log the model again")
    return load_any(found[0])
