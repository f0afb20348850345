import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tsmamba.cli import app
from tsmamba.forecast.advice import advise


def load(steps: int = 1_200) -> pl.DataFrame:
    t = np.arange(steps)
    y = np.sin(2 * np.pi * t / 24) + 0.3 * np.random.default_rng(0).normal(size=steps)
    return pl.DataFrame({"ds": t, "y": y})


@pytest.fixture
def tsmamba_advise():
    """Run `tsmamba advise` with arguments."""
    return lambda *arguments: CliRunner().invoke(app, ["advise", *map(str, arguments)])


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "load.parquet"
    load().write_parquet(path)
    return path


def test_it_prints_what_the_library_says(tsmamba_advise, parquet: Path) -> None:
    done = tsmamba_advise(parquet, "--horizon", 24)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{advise(load(), 24)}\n"


def test_a_poor_verdict_is_no_failure(tsmamba_advise, tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    load(50).with_columns(y=3.0).write_csv(path)
    done = tsmamba_advise(path)
    assert done.exit_code == 0
    assert done.stdout.startswith("verdict   naive\n")


def test_json_is_one_object(tsmamba_advise, parquet: Path) -> None:
    done = tsmamba_advise(parquet, "-n", 400, "--freq", 1, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == advise(load(), 400, freq=1).to_dict()


@pytest.mark.parametrize("flag", ["--target", "--target-col"])
def test_columns_are_named_by_flags(tsmamba_advise, tmp_path: Path, flag: str) -> None:
    path = tmp_path / "wide.parquet"
    frame = load().rename({"ds": "t"}).with_columns(z=-pl.col("y"), site=pl.lit("a"))
    frame.write_parquet(path)
    columns = ("--id-col", "site", "--time-col", "t", flag, "y", flag, "z")
    done = tsmamba_advise(path, *columns, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["facts"]["n_series"] == 2


def test_the_only_columns_that_fit_are_taken_with_a_note(tsmamba_advise, tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    load().rename({"y": "load"}).write_csv(path)
    done = tsmamba_advise(path, "--json")
    assert done.stderr == f"note: no column 'y' in {path}: taking 'load' as the values\n"
    assert json.loads(done.stdout) == advise(load()).to_dict()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--freq", "hourly"], "freq='hourly' is not a frequency"),
        (["--freq", "7"], "7"),
        (["--target", "load"], "has no column 'load', which --target names"),
        (["--id-col", "site"], "has no column 'site', which --id-col names"),
    ],
)
def test_a_refusal_is_one_message_and_exit_code_two(
    tsmamba_advise, parquet: Path, arguments: list[str], message: str
) -> None:
    done = tsmamba_advise(parquet, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--horizon", "0"], ["--bad"]])
def test_a_bad_flag_is_exit_code_two(tsmamba_advise, parquet: Path, arguments: list) -> None:
    assert tsmamba_advise(parquet, *arguments).exit_code == 2


def test_an_absent_file_is_exit_code_two(tsmamba_advise) -> None:
    assert tsmamba_advise("absent.csv").exit_code == 2
