import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tsmamba.benchmark import measure_length, measure_memory, plan, timing
from tsmamba.benchmark.claims import Piece
from tsmamba.cli import app

HEAVY = ("torch", "numpy", "polars", "sklearn", "matplotlib")


@pytest.fixture
def tsmamba_bench(monkeypatch):
    """Run `tsmamba bench` with arguments, with one call a turn."""
    monkeypatch.setattr(timing, "TURN_SECONDS", 0.0)
    runner = CliRunner(env={"COLUMNS": "200"})
    return lambda *arguments: runner.invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture
def _tiny(monkeypatch) -> None:
    """Sizes that --quick leaves at a few steps."""
    sizes = {
        "scan": (1, 256, 8, 4),
        "threads_scan": (1, 256, 8, 4),
        "training_length": 256,
        "inference_length": 256,
        "block_length": 128,
        "lengths": (256, 512, 1024),
        "step_calls": 1280,
    }
    monkeypatch.setattr(plan, "Plan", partial(plan.Plan, **sizes))


def words(done) -> str:
    """Everything on stdout, its columns and line breaks aside."""
    return " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny")
def test_a_quick_run_shows_every_claim_and_writes_numbers_and_picture(
    tsmamba_bench, tmp_path: Path, monkeypatch
) -> None:
    pytest.importorskip("matplotlib")
    # What the probe measures in processes of its own has a test beside it.
    for module in (measure_memory, measure_length):
        monkeypatch.setattr(module, "peak_bytes", lambda _, __, lengths, **___: list(lengths))
    numbers, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    done = tsmamba_bench("--quick", "--json", numbers, "--plot", picture)
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.stderr.splitlines()[:-1]] == [
        f"[{number}/{len(Piece)}]" for number in range(1, len(Piece) + 1)
    ]
    assert picture.stat().st_size > 0
    report = json.loads(numbers.read_text(encoding="utf-8"))
    assert report["plan"]["lengths"] == [32, 64, 128]
    assert [finding["piece"] for finding in report["findings"]] == list(Piece)
    verdicts = {m["verdict"] for f in report["findings"] for m in f["measurements"]}
    assert verdicts <= {"holds", "higher", "not reached here", "for comparison"}
    environment = report["environment"]
    assert {"versions", "cpu", "threads", "backends", "dtype", "device", "seed", "date"} <= set(
        environment
    )
    assert environment["versions"]["torch"]


def test_one_piece_alone(tsmamba_bench, _tiny) -> None:
    done = tsmamba_bench("--quick", "--only", "loop", "--only", "threads", "--only", "loop")
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("[1/2] loop: the scan is 47x faster than a naive loop\n[2/2] ")
    assert "note: --quick divides all lengths by eight" in done.stderr
    for shown in ("scan (1, 32, 8, 4), forward", "eager loop over time", "threads", "seed 0"):
        assert shown in words(done)
    assert "248x" not in done.stdout


def test_an_unknown_piece_is_refused_with_the_known_ones(tsmamba_bench) -> None:
    done = tsmamba_bench("--only", "gpu")
    assert done.exit_code == 2
    for name in Piece:
        assert name in done.stderr


@pytest.mark.parametrize("flag", ["--json", "--plot"])
def test_a_folder_that_is_not_there_is_refused_before_the_work(tsmamba_bench, flag: str) -> None:
    done = tsmamba_bench(flag, "no/such/folder/bench.png")
    assert done.exit_code == 2
    assert done.stderr == "error: cannot write no/such/folder/bench.png: there is no folder " + (
        "no/such/folder\n"
    )


def test_a_picture_in_an_unknown_format_is_refused_before_the_work(tsmamba_bench) -> None:
    pytest.importorskip("matplotlib")
    done = tsmamba_bench("--plot", "bench.txt")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: cannot draw to bench.txt")


def test_help_loads_no_heavy_package_and_lists_the_pieces(run_python) -> None:
    code = f"""
import sys
from tsmamba.cli import main
try:
    main(["bench", "--help"])
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = run_python("-c", code, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "[]\n"
    assert ", ".join(Piece) in done.stdout
