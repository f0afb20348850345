"""A model in MLflow's registry, by version or by an alias that may move."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tsmamba._optional import require
from tsmamba.errors import ModelFileError, ParameterError

__all__ = ["RegistryModel"]

_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")


class RegistryModel:
    """A registered model.

    Parameters
    ----------
    uri : str
        ``models:/name@alias`` or ``models:/name/version``.

    Raises
    ------
    ParameterError
        If it is neither.

    Examples
    --------
    >>> RegistryModel("models:/pumps@champion").name
    'pumps'
    """

    def __init__(self, uri: str) -> None:
        found = _URI.fullmatch(uri)
        if found is None:
            raise ParameterError(
                f"{uri!r} names no registered model; give models:/NAME@ALIAS or "
                "models:/NAME/VERSION"
            )
        self.name = found["name"]
        self.alias = found["alias"] or ""
        self._version: str | None = found["version"]

    def newest(self) -> str:
        """Return the version that the alias stands for now, or the one that was given."""
        if self._version is not None:
            return self._version
        with self._explained():
            client = require("mlflow", extra="mlflow").MlflowClient()
            return str(client.get_model_version_by_alias(self.name, self.alias).version)

    def load(self, version: str) -> Any:
        """Return the estimator of a version."""
        from tsmamba.mlflow import load_model

        with self._explained():
            return load_model(f"models:/{self.name}/{version}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        mlflow: Any = require("mlflow", extra="mlflow")
        try:
            yield
        except mlflow.exceptions.MlflowException as error:
            raise ModelFileError(f"registered model {self.name!r}: {error.message}") from error
