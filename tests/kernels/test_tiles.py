"""Tiles that were measured on a device: found, trusted no further than they go, and kept whole."""

import json
from pathlib import Path

import pytest
import torch

from tsmamba_kernels import _tiles, causal_conv1d, selective_scan
from tsmamba_kernels.testing import check_parity, conv_inputs, scan_inputs

BENCHMARKS = Path(__file__).resolve().parents[2] / "kernels" / "benchmarks"
CPU = torch.device("cpu")
RULE = {"BLOCK_T": 32, "num_warps": 4}
SIZES = {"D": 5, "W": 4, "dtype": torch.float32}
PLACE = "some_kernel, cpu, D 5, W 4, dtype torch.float32"


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A place for the file, read anew by this test and forgotten after it."""
    monkeypatch.setenv(_tiles.VARIABLE, str(tmp_path / "folder" / "tiles.json"))
    (tmp_path / "folder").mkdir()
    _tiles.table.cache_clear()
    yield tmp_path / "folder" / "tiles.json"
    _tiles.table.cache_clear()


def tile():
    return _tiles.tile("some_kernel", CPU, RULE, SIZES)


def test_without_a_file_the_rule_holds(file):
    assert tile() == RULE


def test_a_measured_tile_is_used_for_its_own_sizes_only(file):
    measured = {"BLOCK_T": 64, "num_warps": 2}
    file.write_text(json.dumps({PLACE: measured}), encoding="utf-8")
    assert tile() == measured
    assert _tiles.tile("some_kernel", CPU, RULE, SIZES | {"D": 6}) == RULE
    assert _tiles.tile("another", CPU, RULE, SIZES) == RULE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\x00",
        *(
            json.dumps({PLACE: tile})
            for tile in (
                {"BLOCK_T": 64},
                {"BLOCK_T": 48, "num_warps": 4},
                {"BLOCK_T": 0, "num_warps": 4},
                {"BLOCK_T": "64", "num_warps": 4},
                {"BLOCK_T": True, "num_warps": 4},
                [64, 4],
            )
        ),
    ],
)
def test_what_is_no_tile_is_passed_over(file, text):
    file.write_text(text, encoding="utf-8")
    assert tile() == RULE


def test_what_is_saved_is_found_and_nothing_else_is_left(file):
    measured = {"BLOCK_T": 64, "num_warps": 2}
    _tiles.table()[PLACE] = measured
    _tiles.save()
    _tiles.table.cache_clear()
    assert tile() == measured
    assert list(file.parent.iterdir()) == [file]


def test_without_the_variable_it_is_the_cache_folder(monkeypatch):
    monkeypatch.delenv(_tiles.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert _tiles.path() == Path("/cache/tsmamba/tiles.json")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _tiles.path() == Path.home() / ".cache" / "tsmamba" / "tiles.json"


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_no_tile_changes_what_the_scan_gives(file, triton, lanes):
    inputs = scan_inputs(2, 67, 5, 3)
    key = _tiles.key("selective_scan", CPU, {"N": 3, "dtype": torch.float32})
    _tiles.table()[key] = {"BLOCK_D": lanes, "num_warps": 1}
    check_parity(selective_scan, inputs, backend="triton")


@pytest.mark.parametrize("sizes", [(1, 16), (16, 1), (16, 4), (128, 8)], ids=str)
def test_no_tile_changes_what_the_convolution_gives(file, triton, sizes):
    measured = dict(zip(("BLOCK_T", "BLOCK_D"), sizes, strict=True)) | {"num_warps": 1}
    for kernel in ("causal_conv_forward", "causal_conv_backward"):
        _tiles.table()[_tiles.key(kernel, CPU, SIZES)] = measured
    check_parity(causal_conv1d, conv_inputs(2, 37, 5), backend="triton")


def test_the_search_goes_through_and_keeps_what_it_finds(file, triton, run_python):
    script = str(BENCHMARKS / "gpu_tune.py")
    done = run_python(
        script, "--interpret", "--channels", "16", "--width", "2", "--states", "2", timeout=600
    )
    assert done.returncode == 0, done.stderr
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert done.stdout.count("the rule") >= 4
    assert len(kept) == sum("{" in line for line in done.stdout.splitlines())
