import os

import numpy as np
import pytest

from tsmamba import MambaDetector
from tsmamba.cli.registry import RegistryModel
from tsmamba.errors import ModelFileError, ParameterError

# Before the first import of mlflow, which reads it then.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

# mlflow about its own type hints and its own queries.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated"),
]


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A registry in a file, with two versions of a detector; the champion is the first."""
    mlflow = pytest.importorskip("mlflow")
    from tsmamba.mlflow import log_model

    folder = tmp_path_factory.mktemp("registry")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("pumps", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("pumps")
    for scale in (1.0, 2.0):
        detector = MambaDetector("tiny").fit(scale * (np.arange(50.0)[:, None] % 5))
        log_model(detector, name="model", registered_model_name="pumps")
    client = mlflow.MlflowClient()
    client.set_registered_model_alias("pumps", "champion", "1")
    yield client
    mlflow.set_tracking_uri(before)


@pytest.mark.slow
def test_the_alias_is_followed(registry):
    source = RegistryModel("models:/pumps@champion")
    assert (source.name, source.alias, source.newest()) == ("pumps", "champion", "1")
    first = source.load("1")
    registry.set_registered_model_alias("pumps", "champion", "2")
    assert source.newest() == "2"
    second = source.load("2")
    assert isinstance(second, MambaDetector)
    assert second.anomaly_score([[9.0]]) < first.anomaly_score([[9.0]])
    fixed = RegistryModel("models:/pumps/1")
    assert (fixed.alias, fixed.newest()) == ("", "1")


@pytest.mark.slow
def test_what_is_not_registered_is_refused(registry):
    with pytest.raises(ModelFileError, match=r"registered model 'pumps': .*alias"):
        RegistryModel("models:/pumps@nobody").newest()
    with pytest.raises(ModelFileError, match="registered model 'pumps': "):
        RegistryModel("models:/pumps/9").load("9")


@pytest.mark.parametrize("uri", ["models:/pumps", "models:/pumps/latest", "models:/@x", "models:"])
def test_other_addresses_are_refused(uri):
    with pytest.raises(ParameterError, match=r"names no registered model; give models:/NAME@ALIAS"):
        RegistryModel(uri)
