import numpy as np
import polars as pl
import pytest

from benchmarks.records.regressors import REGRESSORS
from benchmarks.records.report import tables
from benchmarks.records.run import figures
from benchmarks.records.sets import Problem, Stays


def stays_of(ids, rng):
    """Return stays with a number for each hour: what the pulse is beyond 80."""
    hours = pl.DataFrame({"subject_id": ids}).join(pl.DataFrame({"time": range(12)}), how="cross")
    beyond = pl.Series(np.exp(rng.normal(2, 0.8, len(hours))))
    events = hours.with_columns(code=pl.lit("HR"), numeric_value=80 + beyond)
    return Stays(events, hours.with_columns(label=beyond))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return Problem(stays_of(range(40), rng), stays_of(range(40, 60), rng))


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_labelled_hour_is_answered(problem, name):
    truth, said, bounds = REGRESSORS[name](problem, 0)
    assert truth.tolist() == problem.test.labels["label"].to_list()
    assert np.isfinite(said).all()
    if name == "median of training":
        assert len(set(said)) == 1
    else:
        assert np.corrcoef(truth, said)[0, 1] > 0.3
    assert (bounds is None) == (not name.startswith("Mamba"))


def test_figures_are_those_by_hand():
    truth, said = np.array([0.0, 2.0, 4.0]), np.array([1.0, 2.0, 2.0])
    bounds = np.array([[0.0, 3.0], [2.5, 3.0], [1.0, 5.0]])
    told = figures((truth, said, bounds))
    assert told == pytest.approx(
        {"labels": 3, "mae": 1, "rmse": (5 / 3) ** 0.5, "r2": 1 - 5 / 8, "coverage": 2 / 3}
    )


def test_numbers_have_a_table_of_errors():
    line = {"set": "eICU los", "model": "MambaRegressor", "seed": 0, "labels": 9, "seconds": 30.0}
    line |= {"rmse": 2.0, "r2": 0.5, "coverage": 0.9, "status": "ok", "date": "2026-11-30"}
    line |= {"device": "a", "threads": 1, "versions": {"torch": "2"}, "commit": "c"}
    told = tables([{**line, "split": split, "mae": 1.0 + split} for split in (0, 1)])
    assert "| model | MAE | RMSE | R² | inside 90 % | seconds |" in told
    assert (
        "| MambaRegressor | 1.500 ± 0.707 | 2.000 ± 0.000 | 0.500 ± 0.000 | 90.0 % | 30 |" in told
    )
