from dataclasses import replace

import pytest

from benchmarks.corrector import run as runner
from benchmarks.corrector.run import SETS, Cell, Ground, cells, evaluate, run
from benchmarks.corrector.variants import PRESENT, VARIANTS
from benchmarks.forecast.results import read_results
from benchmarks.forecast.sets import find_set
from tools.pretrain import absolute_error
from tsmamba import Training


class Echo:
    """A trial that says which corrector came."""

    def evaluate(self, corrector):
        return {"set": "echo", "history": corrector.config.history}


@pytest.fixture
def ground(pool):
    return Ground(pool, [Echo()], Training(max_steps=3, batch_size=16, eval_every=3))


def test_a_variant_reads_as_much_history_as_it_says(ground):
    got = evaluate(VARIANTS["long history"], ground, seed=0)
    assert got["steps"] == 3
    assert list(got["pool"]) == ["member 0", "member 1"]
    assert got["sets"] == [{"set": "echo", "history": 960}]


def test_a_variant_is_trained_with_its_own_loss(ground):
    lent = []

    def loss(error, weight):
        lent.append(error.shape[1])
        return absolute_error(error, weight)

    evaluate(replace(VARIANTS["one layer"], loss=loss), ground, seed=0)
    assert len(lent) == 3
    assert set(lent) <= {24, 48}


def test_training_changes_the_errors_and_a_seed_repeats_them(ground):
    pools = [evaluate(VARIANTS[PRESENT], ground, seed)["pool"] for seed in (0, 0, 1)]
    assert pools[0] == pools[1] != pools[2]
    assert all(error != 1 for errors in pools[0].values() for error in errors)


def test_a_second_run_does_what_failed_and_nothing_else(ground, tmp_path, monkeypatch):
    path, seeds = tmp_path / "results.jsonl", []

    def ground_of(seed):
        seeds.append(seed)
        if seed == 1 and seeds.count(1) == 1:
            raise OSError("no data")
        return ground

    monkeypatch.setattr(runner.Ground, "of", ground_of)
    wanted, said = cells(["one layer"], seeds=[0, 1]), []
    assert run(wanted, path, said.append) == 1
    assert said[0].startswith("one layer, seed 0: ")
    assert said[1] == "one layer, seed 1: OSError: no data"
    assert run(wanted, path) == 0
    assert seeds == [0, 1, 1]
    lines = read_results(path, Cell.of)
    assert [Cell.of(line) for line in lines] == wanted
    assert {"parameters", "seconds", "windows_per_second", "threads", "date"} <= set(lines[0])
    assert len(path.read_text().splitlines()) == 3


def test_the_sets_are_sets_of_the_accuracy_benchmark():
    assert {find_set(name).name for name in SETS} == set(SETS)
