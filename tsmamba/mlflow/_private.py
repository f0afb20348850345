"""The one helper of MLflow that is not public and has no public twin."""

from pathlib import Path
from typing import Any

from tsmamba._optional import require


def save_example(mlflow_model: Any, example: Any, path: Path) -> None:
    """Write an input example into the folder of a model, and note it in the model.

    Parameters
    ----------
    mlflow_model : mlflow.models.Model
        The model that the example belongs to.
    example : pandas.DataFrame or anything else that MLflow takes as an example
        The example.
    path : Path
        The folder.
    """
    require("mlflow.models.utils", extra="mlflow")._save_example(mlflow_model, example, str(path))
