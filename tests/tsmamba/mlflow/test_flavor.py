"""Models that MLflow saved and loaded answer as they did, and hold no pickle."""

import json
import subprocess
import sys
from pathlib import Path

import mlflow.pyfunc
import pandas as pd
import pytest
import yaml
from mlflow.models import Model, ModelSignature
from mlflow.types import ParamSchema, ParamSpec
from polars.testing import assert_frame_equal
from sklearn.exceptions import NotFittedError

import tsmamba
import tsmamba.mlflow
from tsmamba import LogDetector, MambaDetector, MambaForecaster
from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.serving.frames import score_frame

KINDS = ("forecaster", "detector", "log_detector")


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_answers_the_same_after_save_and_load(models, saved, kind):
    model, rows = models[kind]
    again = tsmamba.mlflow.load_model(saved(kind))
    assert type(again) is type(model)
    assert_frame_equal(score_frame(again, rows), score_frame(model, rows), check_exact=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pyfunc_answers_as_the_model_does(models, saved, kind):
    model, rows = models[kind]
    served = mlflow.pyfunc.load_model(str(saved(kind)))
    sent = rows.to_pandas()
    expected = score_frame(model, sent)
    answer = served.predict(sent)
    # What is missing is None in an answer, which becomes null in JSON.
    expected = expected.astype(object).where(expected.notna(), None)
    pd.testing.assert_frame_equal(answer.astype(object), expected)
    assert type(served.get_raw_model()) is type(model)


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_holds_no_pickle_and_nothing_of_the_data(models, saved, kind):
    files = [file for file in saved(kind).rglob("*") if file.is_file()]
    assert sorted(file.name for file in files) == sorted(
        [
            "MLmodel",
            "input_example.json",
            f"{type(models[kind][0]).__name__}.tsm",
            "python_env.yaml",
            "requirements.txt",
            "serving_input_example.json",
        ]
    )
    for file in files:
        head = file.read_bytes()[:2]
        assert head[:1] != b"\x80", f"{file.name} begins like a pickle"
        assert head != b"PK", f"{file.name} is a zip file, as torch.save writes"
    example = json.loads((saved(kind) / "input_example.json").read_text())
    assert "s0" not in str(example)


def test_requirements_are_this_tsmamba_and_a_torch_that_an_index_serves(saved):
    lines = (saved("forecaster") / "requirements.txt").read_text().split()
    assert lines[0] == f"tsmamba=={tsmamba.__version__}"
    assert lines[1].startswith("torch==")
    assert "+" not in lines[1]
    environment = yaml.safe_load((saved("forecaster") / "python_env.yaml").read_text())
    assert environment["dependencies"] == ["-r requirements.txt"]


def test_the_model_says_what_it_is(saved):
    described = Model.load(str(saved("forecaster")))
    entry = described.flavors["tsmamba"]
    assert entry["estimator"] == "MambaForecaster"
    assert entry["serialization_format"] == "safetensors"
    assert entry["tsmamba_version"] == tsmamba.__version__
    assert entry["columns"]["ds"] == "Datetime(time_unit='us', time_zone=None)"
    assert described.flavors["python_function"]["loader_module"] == "tsmamba.mlflow"


def test_what_is_given_replaces_what_is_made_up(models, tmp_path):
    model, rows = models["forecaster"]
    signature = ModelSignature(params=ParamSchema([ParamSpec("horizon", "long", 3)]))
    tsmamba.mlflow.save_model(
        model,
        tmp_path / "model",
        signature=signature,
        input_example=rows.head(3).to_pandas().assign(ds="2024-01-01"),
        pip_requirements=["tsmamba"],
        extra_pip_requirements=["orjson"],
        metadata={"team": "load"},
    )
    described = Model.load(str(tmp_path / "model"))
    assert described.metadata == {"team": "load"}
    assert described.signature.inputs is None
    assert (tmp_path / "model" / "requirements.txt").read_text() == "tsmamba\norjson\n"
    example = json.loads((tmp_path / "model" / "input_example.json").read_text())
    assert len(example["data"]) == 3


def test_what_cannot_be_saved_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ParameterError, match="a model of type dict; a MambaForecaster"):
        tsmamba.mlflow.save_model({}, tmp_path / "model")
    for unfitted in (MambaForecaster(), MambaDetector(), LogDetector()):
        with pytest.raises(NotFittedError):
            tsmamba.mlflow.save_model(unfitted, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_in_use_is_refused(models, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ParameterError, match="exists already; give a new folder"):
        tsmamba.mlflow.save_model(models["forecaster"][0], tmp_path)


def test_a_model_of_another_flavour_is_refused(tmp_path):
    other = Model()
    other.add_flavor("sklearn", data="model.pkl")
    other.save(str(tmp_path / "MLmodel"))
    with pytest.raises(ModelFileError, match=r"a model of sklearn, not one that tsmamba.mlflow"):
        tsmamba.mlflow.load_model(tmp_path)


def test_an_altered_model_is_refused(models, tmp_path):
    tsmamba.mlflow.save_model(models["forecaster"][0], tmp_path / "model")
    [file] = (tmp_path / "model" / "model").iterdir()
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelFileError, match="check sum"):
        tsmamba.mlflow.load_model(tmp_path / "model")
    file.unlink()
    with pytest.raises(ModelFileError, match="holds no model of tsmamba"):
        tsmamba.mlflow.load_model(tmp_path / "model")


@pytest.mark.slow
def test_the_module_is_imported_without_mlflow():
    """`import tsmamba.mlflow` is not to be mistaken for mlflow, nor to wait for it."""
    code = "import sys, tsmamba.mlflow; print('mlflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert Path(mlflow.__file__).parent.parent.name != "tsmamba"
