import importlib.util
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from tsmamba_datasets._catalog import package_file

SCRIPT = Path(__file__).resolve().parents[2] / "datasets" / "bundle.py"


@pytest.fixture
def bundle() -> ModuleType:
    pytest.importorskip("pyarrow")
    spec = importlib.util.spec_from_file_location("bundle", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.data
def test_bundling_again_gives_what_is_shipped(bundle, data_dir, tmp_path, monkeypatch) -> None:
    # The script sets the variable itself; this puts it back afterwards.
    monkeypatch.setenv("TSMAMBA_DATA", str(data_dir))
    monkeypatch.setattr("sys.argv", ["bundle.py", str(data_dir), "--out", str(tmp_path)])
    bundle.main()
    made = sorted(file.name for file in tmp_path.iterdir())
    assert made == sorted(file.name for file in package_file("data").glob("*.parquet"))
    for name in made:
        assert pl.read_parquet(tmp_path / name).equals(
            pl.read_parquet(package_file("data") / name)
        ), name
