import polars as pl
import pytest
from typer.testing import CliRunner

from tsmamba import MambaForecaster
from tsmamba.cli import app
from tsmamba_datasets import make_seasonal


@pytest.fixture
def folder(tmp_path):
    """Return a folder with three parts and a model."""
    series = make_seasonal(n_series=3, length=300)
    MambaForecaster(24, mode="base", context_length=96).fit(series).save(tmp_path / "model.tsm")
    (tmp_path / "in").mkdir()
    for (name,), part in series.group_by("unique_id"):
        part.write_parquet(tmp_path / "in" / f"{name}.parquet")
    return tmp_path


@pytest.fixture
def score(folder):
    """Run `tsmamba score-parquet` on the folder, with further arguments."""

    def run(*arguments):
        places = [str(folder / "in"), str(folder / "out"), "--model", str(folder / "model.tsm")]
        return CliRunner().invoke(app, ["score-parquet", *places, *arguments])

    return run


def answers(folder):
    return pl.read_parquet(sorted(folder.rglob("*.parquet"))).sort("unique_id", "ds")


def test_every_part_is_scored_and_counted(score, folder):
    ran = score("--horizon", "4", "--quantile", "0.1", "--quantile", "0.9")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("3 parts: 3 scored; 12 rows in ")
    assert answers(folder / "out").columns[2:] == [
        "MambaForecaster",
        "MambaForecaster_q10",
        "MambaForecaster_q90",
    ]


def test_a_second_run_scores_what_is_missing(score, folder):
    score()
    (folder / "out" / "s1.parquet").unlink()
    assert score().stdout.startswith("3 parts: 2 kept, 1 scored; 24 rows in ")


def test_a_broken_part_is_named_and_the_exit_code_tells(score, folder):
    (folder / "in" / "s1.parquet").write_bytes(b"PAR1 and no more")
    ran = score()
    assert ran.exit_code == 1
    assert ran.stdout.startswith("3 parts: 1 failed, 2 scored; 48 rows in ")
    assert ran.stderr.startswith("error: s1.parquet: ")
    assert len(ran.stderr.splitlines()) == 1


def test_what_cannot_be_done_is_refused_before_any_work(score, folder):
    (folder / "in" / "again.parquet").write_bytes((folder / "in" / "s1.parquet").read_bytes())
    ran = score()
    assert ran.exit_code == 2
    assert ran.stderr.startswith("error: series 's1' is in 'again.parquet' and in 's1.parquet'")
    assert not (folder / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["process", "ray"])
def test_engines_give_the_numbers_of_one_process_and_say_nothing(score, folder, run_python, engine):
    """From a process of its own, as both start others and Ray changes how this one logs."""
    if engine == "ray":
        pytest.importorskip("ray")
    score()
    (folder / "in" / "s1.parquet").write_bytes(b"PAR1 and no more")
    places = (str(folder / "in"), str(folder / "other"), "--model", str(folder / "model.tsm"))
    call = "from tsmamba.cli import main; main()"
    ran = run_python(
        "-c", call, "score-parquet", *places, "--engine", engine, "--workers", "2", timeout=150
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("3 parts: 1 failed, 2 scored; 48 rows in ")
    assert ran.stderr.startswith("error: s1.parquet: ")
    assert len(ran.stderr.splitlines()) == 1
    expected = answers(folder / "out").filter(pl.col("unique_id") != "s1")
    found = answers(folder / "other")
    assert found.select("unique_id", "ds").equals(expected.select("unique_id", "ds"))
    for name in expected.columns[2:]:
        assert found[name].to_list() == pytest.approx(expected[name].to_list(), rel=1e-5)
