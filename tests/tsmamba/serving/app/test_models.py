import pytest
import torch

from tsmamba import LogDetector, MambaDetector, MambaForecaster
from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.persistence import save_model
from tsmamba.serving.app.models import FileModel, engine_of
from tsmamba.serving.loading import load_any


@pytest.mark.parametrize(
    ("fixture", "kind"),
    [("pumps", MambaDetector), ("app_log", LogDetector), ("load", MambaForecaster)],
)
def test_a_file_tells_its_class(request, fixture, kind, tmp_path):
    request.getfixturevalue(fixture).save(tmp_path / "model")
    model = load_any(tmp_path / "model")
    assert type(model) is kind
    assert engine_of(model, 5).kind == kind.__name__


def test_other_files_are_refused(tmp_path, pumps):
    path = tmp_path / "model"
    with pytest.raises(ModelFileError, match=r"cannot read '.*model': No such file"):
        load_any(path)
    path.write_bytes(b"PK, but no model")
    with pytest.raises(ModelFileError, match=r"holds no model of tsmamba; give a file that save"):
        load_any(path)
    save_model(path, "MambaDetector stream", {}, {"x": torch.zeros(1)})
    with pytest.raises(ModelFileError, match=r"holds MambaDetector stream; give a file that save"):
        load_any(path)
    pumps.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError):
        load_any(path)
    with pytest.raises(ModelFileError, match="cannot read"):
        load_any(tmp_path)


def test_the_version_of_a_file_follows_its_bytes(tmp_path, pumps, make_pumps):
    source = FileModel(tmp_path / "model")
    with pytest.raises(ModelFileError, match="cannot read"):
        source.newest()
    pumps.save(tmp_path / "model")
    version = source.newest()
    assert source.newest() == version
    make_pumps(seed=1).save(tmp_path / "model")
    assert source.newest() != version


def test_what_is_no_model_is_refused():
    with pytest.raises(ParameterError, match="a dict cannot be served; give one of Mamba"):
        engine_of({}, 5)
