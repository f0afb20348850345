import sys
from pathlib import Path

import pytest

from tsmamba._optional import require
from tsmamba.errors import MissingExtraError, TsmambaError


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_installed_module_is_returned() -> None:
    assert require("json.decoder", extra="plot") is sys.modules["json.decoder"]


@pytest.mark.parametrize("module", ["tsmamba_no_such_package", "tsmamba_no_such_package.part"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(module: str) -> None:
    with pytest.raises(MissingExtraError) as caught:
        require(module, extra="plot")
    message = str(caught.value)
    assert message.startswith("tsmamba_no_such_package is not installed")
    assert message.endswith('pip install "tsmamba[plot]"')


def test_the_error_is_one_of_ours_and_an_import_error() -> None:
    assert issubclass(MissingExtraError, TsmambaError)
    assert issubclass(MissingExtraError, ImportError)


def test_a_broken_package_is_not_called_missing(importable: Path) -> None:
    (importable / "tsmamba_broken.py").write_text("import tsmamba_absent_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="tsmamba_absent_dependency") as caught:
        require("tsmamba_broken", extra="plot")
    assert not isinstance(caught.value, MissingExtraError)


def test_an_error_inside_the_package_passes_through(importable: Path) -> None:
    (importable / "tsmamba_raises.py").write_text("raise ValueError('on purpose')\n")
    with pytest.raises(ValueError, match="on purpose"):
        require("tsmamba_raises", extra="plot")
