import json

import pytest
import torch

from benchmarks.forecast import run as runner
from benchmarks.forecast.models import CONTESTANTS, Entry, SeasonalNaive
from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Problem
from benchmarks.forecast.results import Cell, read_results
from benchmarks.forecast.run import cells, evaluate, run
from benchmarks.forecast.sets import SETS

HORIZON = 12


class Failing(SeasonalNaive):
    def fit(self, problem, seed):
        raise ValueError("cannot")


class Counting(SeasonalNaive):
    fits = 0

    def fit(self, problem, seed):
        type(self).fits += 1
        super().fit(problem, seed)


@pytest.fixture
def contestants(monkeypatch):
    Counting.fits = 0
    made = {"failing": Entry(Failing), "counting": Entry(Counting, random=False)}
    monkeypatch.setattr(runner, "CONTESTANTS", made)
    return made


def test_a_second_run_does_nothing(make_set, tmp_path, contestants):
    path, sets = tmp_path / "results.jsonl", [make_set()]
    wanted = cells(sets, ["counting"], seeds=[0])
    assert run(wanted, sets, path) == 0
    first = path.read_text()
    assert run(wanted, sets, path) == 0
    assert path.read_text() == first
    assert Counting.fits == 1
    (line,) = read_results(path)
    assert Cell.of(line) == ("waves", HORIZON, "counting", 0)
    assert line["n_windows"] == 100 - HORIZON + 1
    assert {"mse", "mae", "fit_seconds", "predict_seconds", "threads", "date"} <= set(line)


def test_an_error_is_recorded_stops_nothing_and_is_tried_again(make_set, tmp_path, contestants):
    path, sets = tmp_path / "results.jsonl", [make_set()]
    wanted = cells(sets, contestants, seeds=[0, 1])
    assert [cell.model for cell in wanted] == ["failing", "counting", "failing"]
    said = []
    assert run(wanted, sets, path, said.append) == 2
    assert len(said) == 3
    lines = read_results(path)
    refused = "ValueError: cannot"
    assert [line.get("error") for line in lines] == [refused, None, refused]
    contestants["failing"] = Entry(SeasonalNaive)
    assert run(wanted, sets, path) == 0
    assert [line.get("error") for line in read_results(path)] == [None] * 3
    assert Counting.fits == 1


def test_of_two_lines_for_a_cell_the_later_one_counts(tmp_path):
    path = tmp_path / "results.jsonl"
    cell = {"set": "M4", "horizon": 48, "model": "LSTM", "seed": 0}
    path.write_text("\n".join(json.dumps(cell | {"mse": mse}) for mse in (1.0, 2.0)))
    assert [line["mse"] for line in read_results(path)] == [2.0]


def test_cells_take_every_horizon_once_and_seeds_only_where_they_matter():
    everything = cells(SETS, CONTESTANTS, seeds=[0, 1, 2])
    assert len(set(everything)) == len(everything)
    per_seed = sum(len(source.horizons) for source in SETS)
    random = sum(entry.random for entry in CONTESTANTS.values())
    assert len(everything) == per_seed * (len(CONTESTANTS) + 2 * random)
    assert {cell.horizon for cell in cells(SETS, CONTESTANTS, [0], horizons=[96])} == {96}


def test_windows_that_are_left_out_are_noticed(problem, monkeypatch):
    monkeypatch.setattr(Problem, "test", property(lambda self: self.validation.thinned(20)))
    with pytest.raises(RuntimeError, match="20 windows were scored; the protocol has 89"):
        evaluate(SeasonalNaive(), problem, seed=0)


def test_perfect_forecasts_have_no_error(problem):
    class Oracle(SeasonalNaive):
        def forecast(self, windows):
            truth, _ = self._store.future(windows, HORIZON)
            return Forecast(truth, {90: (truth - 1, truth + 1)})

    got = evaluate(Oracle(), problem, seed=0)
    assert got["mse"] == got["mae"] == 0
    assert got["coverage_90"] == 1
    assert got["interval_score_90"] == pytest.approx(2)
    assert torch.tensor(got["mse_ahead"]).eq(0).all()
