import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tsmamba.errors import ModelFileError
from tsmamba.persistence import FORMAT_VERSION, load_model, save_model

SETTINGS = {"horizon": 24, "name": "ü", "nested": {"q": [0.1, None, True]}, "nan": float("inf")}
TENSORS = {
    "weights": torch.arange(12.0).reshape(3, 4),
    "bits": torch.tensor([True, False]),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "one": torch.tensor(7, dtype=torch.int64),
    "none": torch.zeros(0, 5),
}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "model.tsm"
    save_model(file, "Toy", SETTINGS, TENSORS)
    return file


def test_what_was_saved_comes_back(path):
    settings, tensors = load_model(str(path), "Toy")
    assert settings == SETTINGS
    assert tensors.keys() == TENSORS.keys()
    for name, x in TENSORS.items():
        assert tensors[name].dtype == x.dtype
        assert torch.equal(tensors[name], x)


def test_numbers_of_numpy_are_saved_as_plain_ones(tmp_path):
    given = {"a": np.int64(3), "b": np.float32(0.5), "c": np.array([1, 2]), "d": np.bool_(True)}
    save_model(tmp_path / "m", "Toy", given, {})
    assert load_model(tmp_path / "m", "Toy")[0] == {"a": 3, "b": 0.5, "c": [1, 2], "d": True}


def test_settings_that_json_cannot_hold_are_refused_and_write_nothing(tmp_path):
    with pytest.raises(TypeError, match="cannot be saved"):
        save_model(tmp_path / "m", "Toy", {"x": object()}, {})
    assert not list(tmp_path.iterdir())


def test_views_and_shared_memory_are_saved(tmp_path):
    x = torch.arange(6.0).reshape(2, 3)
    save_model(tmp_path / "m", "Toy", {}, {"x": x, "turned": x.T, "row": x[1]})
    _, tensors = load_model(tmp_path / "m", "Toy")
    assert torch.equal(tensors["turned"], x.T)
    assert torch.equal(tensors["row"], x[1])


def test_the_file_is_safetensors_and_holds_no_pickle(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert header.keys() == {"__metadata__", *TENSORS}
    # A pickle starts with its protocol, and one inside a zip file with PK.
    assert not data.startswith((b"\x80", b"PK"))
    for word in (b"pickle", b"__reduce__", b"cbuiltins", b"ctorch"):
        assert word not in data


# Writing is all or nothing


def test_a_file_is_replaced(path):
    save_model(path, "Toy", {"new": 1}, {})
    assert load_model(path, "Toy") == ({"new": 1}, {})
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("method", ["write_bytes", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_no_rest(path, monkeypatch, method, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(Path, method, fail)
    expected = ModelFileError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        save_model(path, "Toy", {"new": 1}, {})
    monkeypatch.undo()
    assert load_model(path, "Toy")[0] == SETTINGS
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot write .*nowhere.*: No such file"):
        save_model(tmp_path / "nowhere" / "m", "Toy", {}, {})


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(ModelFileError, match="cannot write"):
        save_model(tmp_path / "m", "Toy", {}, {})
    assert [x.name for x in tmp_path.iterdir()] == ["m"]


def test_a_model_file_has_the_rights_of_any_new_file(path, tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


# Damage is noticed


def test_every_altered_byte_is_noticed(path):
    data = path.read_bytes()
    blank = {at for at, byte in enumerate(data) if byte == ord(" ")}
    for at in set(range(len(data))) - blank:
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ModelFileError):
            load_model(path, "Toy")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError, match=r"model\.tsm' is not a whole model file .*save the"):
        load_model(path, "Toy")


def test_a_longer_file_is_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelFileError, match="not a whole model file"):
        load_model(path, "Toy")


def rewritten(path, **changes):
    """Change entries of the header, the check sum left as it is."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata() | changes
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata=header)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": "2"}, "has format version 2, this tsmamba reads 1; upgrade tsmamba"),
        ({"settings": "{}"}, "was altered after it was saved"),
        ({"kind": "Other"}, "was altered after it was saved"),
        ({"sha256": "0"}, "was altered after it was saved"),
    ],
)
def test_an_altered_header_is_refused(path, changes, message):
    assert FORMAT_VERSION == 1
    rewritten(path, **changes)
    with pytest.raises(ModelFileError, match=message):
        load_model(path, "Toy")


def test_a_tensor_that_was_exchanged_is_noticed(path):
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    for tensors in ({**TENSORS, "more": torch.ones(1)}, {"weights": TENSORS["weights"]}):
        save_file(tensors, path, metadata=header)
        with pytest.raises(ModelFileError, match="was altered"):
            load_model(path, "Toy")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_foreign_file_is_refused(tmp_path, metadata):
    save_file({"x": torch.ones(2)}, tmp_path / "m", metadata=metadata)
    with pytest.raises(ModelFileError, match="not one that tsmamba wrote"):
        load_model(tmp_path / "m", "Toy")


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"a,b\n1,2\n" * 100, b"\0" * 64])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"m'"):
        load_model(tmp_path / "m", "Toy")


def test_a_model_of_another_class_is_named(path):
    with pytest.raises(ModelFileError, match="holds a Toy; load it with that class"):
        load_model(path, "Other")


def test_a_file_that_is_not_there_is_named(tmp_path):
    for missing in (tmp_path / "m", tmp_path):
        with pytest.raises(ModelFileError, match="there is no model file"):
            load_model(missing, "Toy")
