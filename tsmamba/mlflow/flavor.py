"""Saving, logging and loading: the flavour ``tsmamba`` of MLflow."""

import importlib
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import tsmamba
from tsmamba._optional import require
from tsmamba.data.frame import FrameKind, to_native
from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.mlflow._private import save_example
from tsmamba.mlflow.files import read_estimator, write_estimator
from tsmamba.mlflow.signature import Inputs, inputs_of, signature_of

_FLAVOR = "tsmamba"
_DATA = "model"
_REQUIREMENTS = "requirements.txt"
_PYTHON_ENV = "python_env.yaml"


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    extra_pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a fitted estimator as a model of MLflow, without pickle.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted.
    path : str or path
        A folder that does not exist, or is empty.
    signature : mlflow.models.ModelSignature, optional
        In place of the one that is made for the model. An inferred one refuses integer ids, whole
        numbers and times with a zone.
    input_example : pandas.DataFrame, optional
        In place of the one that is made up for the model.
    pip_requirements : sequence of str, optional
        What an environment that serves the model needs; by default this version of tsmamba and of
        torch.
    extra_pip_requirements : sequence of str, optional
        What it needs besides.
    metadata : mapping, optional
        Plain values to keep with the model.
    mlflow_model : mlflow.models.Model, optional
        Filled in by MLflow itself when it logs.

    Raises
    ------
    ParameterError
        If it is a model of another kind, or the folder is not empty.
    NotFittedError
        If it is not fitted.
    MissingExtraError
        If mlflow is not installed.
    """
    models = require("mlflow.models", extra="mlflow")
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"{str(path)!r} exists already; give a new folder, or an empty one")
    estimator = write_estimator(model, folder / _DATA)
    inputs = inputs_of(model)
    described = models.Model() if mlflow_model is None else mlflow_model
    if metadata is not None:
        described.metadata = dict(metadata)
    described.signature = signature_of(model, inputs) if signature is None else signature
    if input_example is None:
        input_example = to_native(inputs.example, FrameKind("pandas"))
    save_example(described, input_example, folder)
    requirements = _requirements(pip_requirements, extra_pip_requirements)
    _describe(described, estimator, inputs)
    (folder / _REQUIREMENTS).write_text("\n".join([*requirements, ""]))
    (folder / _PYTHON_ENV).write_text(
        f"python: {platform.python_version()}\n"
        "build_dependencies:\n- pip\n"
        f"dependencies:\n- -r {_REQUIREMENTS}\n"
    )
    described.save(str(folder / "MLmodel"))


def log_model(model: Any, name: str | None = None, **options: Any) -> Any:
    """Log a fitted estimator as a model of MLflow, in the run that is active, if any.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted.
    name : str, optional
        Name of the logged model.
    **options
        Those of `save_model` by name, and those of ``mlflow.models.Model.log``, such as
        ``registered_model_name``, ``params``, ``tags`` and ``step``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        With ``model_uri`` and, if it was registered, ``registered_model_version``.

    Raises
    ------
    ParameterError, NotFittedError, MissingExtraError
        As `save_model` does.
    """
    models = require("mlflow.models", extra="mlflow")
    flavor = importlib.import_module("tsmamba.mlflow")
    return models.Model.log(artifact_path=None, name=name, flavor=flavor, model=model, **options)


def load_model(model_uri: str | os.PathLike[str]) -> Any:
    """Load an estimator that was logged or saved.

    Parameters
    ----------
    model_uri : str or path
        A folder, or an address that MLflow knows, such as ``models:/load@champion``,
        ``models:/load/3`` or ``runs:/<run>/model``.

    Returns
    -------
    MambaForecaster, MambaDetector or LogDetector
        It answers as the logged one did, bit for bit.

    Raises
    ------
    ModelFileError
        If it is not a model of tsmamba, or a file is damaged or altered.
    MlflowException
        If there is no such model.
    """
    artifacts = require("mlflow.artifacts", extra="mlflow")
    models = require("mlflow.models", extra="mlflow")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(artifacts.download_artifacts(str(model_uri), dst_path=scratch))
        flavors = models.Model.load(str(folder)).flavors
        if _FLAVOR not in flavors:
            raise ModelFileError(
                f"{str(model_uri)!r} is a model of {', '.join(flavors)}, not one that "
                "tsmamba.mlflow logged; load it with mlflow.pyfunc.load_model"
            )
        return read_estimator(folder / flavors[_FLAVOR]["data"])


def _describe(described: Any, estimator: str, inputs: Inputs) -> None:
    """Enter how the model is loaded."""
    require("mlflow.pyfunc", extra="mlflow").add_to_model(
        described, loader_module="tsmamba.mlflow", data=_DATA, python_env=_PYTHON_ENV
    )
    described.add_flavor(
        _FLAVOR,
        data=_DATA,
        estimator=estimator,
        tsmamba_version=tsmamba.__version__,
        serialization_format="json" if estimator == "LogDetector" else "safetensors",
        columns=inputs.dtypes,
    )


def _requirements(given: Sequence[str] | None, extra: Sequence[str] | None) -> list[str]:
    """Return what to install; the local part of a version of torch is on no package index."""
    if given is None:
        local = torch.__version__.partition("+")[0]
        given = [f"tsmamba=={tsmamba.__version__}", f"torch=={local}"]
    return [*given, *(extra or ())]
