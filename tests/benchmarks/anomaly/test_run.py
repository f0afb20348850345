import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.anomaly import run as runner
from benchmarks.anomaly.methods import METHODS, Entry, RandomControl, RobustZ
from benchmarks.anomaly.methods.method import NotApplicableError
from benchmarks.anomaly.results import CORPUS, Cell, read_results, read_runs, scored
from benchmarks.anomaly.run import cells, evaluate, run
from benchmarks.anomaly.sets import SETS


class Failing(RobustZ):
    def learn(self, train):
        raise ValueError("cannot")


class Choosy(RobustZ):
    def learn(self, train):
        raise NotApplicableError("two channels only")


class Counting(RobustZ):
    fits = 0

    def learn(self, train):
        type(self).fits += 1
        super().learn(train)


@pytest.fixture
def methods(monkeypatch):
    Counting.fits = 0
    made = {
        "failing": Entry(Failing, "nothing", random=True),
        "choosy": Entry(Choosy, "nothing"),
        "counting": Entry(Counting, "nothing"),
    }
    monkeypatch.setattr(runner, "METHODS", made)
    return made


def test_a_second_run_does_nothing(waves, tmp_path, methods):
    path, threads = tmp_path / "results.jsonl", torch.get_num_threads()
    wanted = cells([waves], ["counting"], seeds=[0])
    assert run(wanted, [waves], path) == 0
    assert torch.get_num_threads() == threads
    first = path.read_text()
    assert run(wanted, [waves], path) == 0
    assert path.read_text() == first
    assert Counting.fits == 2
    lines = read_results(path)
    assert [Cell.of(line) for line in lines] == wanted
    metrics = {"vus_pr", "vus_roc", "auc_pr", "f1", "delay", "affiliation", "seconds"}
    assert metrics | {"threads", "versions", "commit", "date"} <= set(lines[0])
    assert lines[0]["threads"] == 1
    assert "scikit-learn" in lines[0]["versions"]


def test_a_run_that_stopped_goes_on_with_the_rest(waves, tmp_path, methods):
    path = tmp_path / "results.jsonl"
    wanted = cells([waves], ["counting"], seeds=[0])
    assert run(wanted[:1], [waves], path) == 0
    assert run(wanted, [waves], path) == 0
    assert Counting.fits == 2
    assert [line["series"] for line in read_results(path)] == ["a", "b"]


def test_where_and_when_a_line_was_made_is_written_once_a_run(
    waves, tmp_path, methods, monkeypatch
):
    path = tmp_path / "results.jsonl"
    wanted = cells([waves], ["counting"], seeds=[0])
    for cell, device in zip(wanted, ("one", "another"), strict=True):
        elsewhere = {"versions": {}, "threads": 1, "device": device, "commit": "abc"}
        monkeypatch.setattr(runner, "environment", lambda packages, found=elsewhere: found)
        run([cell], [waves], path)
    run(wanted, [waves], path)
    assert [found["device"] for found in read_runs(path)] == ["one", "another"]
    lines = read_results(path)
    assert [line["device"] for line in lines] == ["one", "another"]
    assert all(line["date"] > "2020" for line in lines)
    assert "date" not in path.read_text()


def test_an_error_is_recorded_stops_nothing_and_is_tried_again(waves, tmp_path, methods):
    path = tmp_path / "results.jsonl"
    wanted = cells([waves], ["failing", "counting"], seeds=[0, 1])
    assert [cell.model for cell in wanted] == ["failing"] * 2 + ["counting"] * 2 + ["failing"] * 2
    said = []
    assert run(wanted, [waves], path, said.append) == 4
    assert len(said) == 6
    refused = "ValueError: cannot"
    lines = read_results(path)
    assert [line.get("error") for line in lines] == [refused] * 2 + [None] * 2 + [refused] * 2
    assert len(scored(lines)) == 2
    methods["failing"] = Entry(RandomControl, "nothing", random=True)
    assert run(wanted, [waves], path) == 0
    assert len(scored(read_results(path))) == 6
    assert Counting.fits == 2


def test_a_method_that_is_missing_fails_in_its_own_cells(waves, tmp_path, methods):
    def missing(seed):
        raise ImportError("no such detector")

    methods["missing"] = Entry(missing, "nothing")
    path = tmp_path / "results.jsonl"
    assert run(cells([waves], methods, seeds=[0]), [waves], path) == 4
    errors = {line["model"]: line["error"] for line in read_results(path) if "error" in line}
    assert errors["missing"] == "ImportError: no such detector"
    assert Counting.fits == 2


def test_a_series_that_a_method_is_not_made_for_is_left_out_with_the_reason(
    waves, tmp_path, methods
):
    path = tmp_path / "results.jsonl"
    wanted = cells([waves], ["choosy"], seeds=[0])
    assert run(wanted, [waves], path) == 0
    lines = read_results(path)
    assert [line["left_out"] for line in lines] == ["two channels only"] * 2
    assert scored(lines) == []
    assert run(wanted, [waves], path) == 0
    assert len(path.read_text().splitlines()) == 2


def test_scores_that_do_not_fit_the_rows_are_refused(make_problem):
    class Short(RobustZ):
        def judge(self, values):
            return super().judge(values)[1:]

    with pytest.raises(ValueError, match=r"1,000 rows have scores of shape \(999,\)"):
        evaluate(Short(0), make_problem())


def test_channels_are_judged_where_both_sides_tell_them(make_problem):
    assert evaluate(RobustZ(0), make_problem(channels=3))["channels"] == 1
    assert "channels" not in evaluate(RobustZ(0), make_problem())


def test_a_corpus_has_a_cell_of_its_own_with_one_threshold_for_all(waves, tmp_path, methods):
    nab = replace(waves, corpus=True)
    path = tmp_path / "results.jsonl"
    wanted = cells([nab], ["counting"], seeds=[0])
    assert [cell.series for cell in wanted] == ["a", "b", CORPUS]
    assert run(wanted, [nab], path) == 0
    whole = read_results(path)[-1]
    assert whole["found"] + whole["missed"] == 2
    assert whole["nab_standard"] <= 100
    assert "vus_pr" not in whole


def test_lines_are_short_and_rounded(waves, tmp_path, methods):
    path = tmp_path / "results.jsonl"
    run(cells([waves], ["counting"], seeds=[0]), [waves], path)
    for text in path.read_text().splitlines():
        assert len(text) < 350
        numbers = [x for x in json.loads(text).values() if isinstance(x, float)]
        assert all(x == float(f"{x:.4g}") for x in numbers)


def test_cells_take_every_series_once_and_seeds_only_where_they_matter(waves):
    everything = cells([waves], METHODS, seeds=[0, 1, 2])
    assert len(set(everything)) == len(everything)
    random = sum(entry.random for entry in METHODS.values())
    assert len(everything) == 2 * (len(METHODS) + 2 * random)


def test_longer_series_are_for_another_run(waves, make_problem):
    long = make_problem("long")
    long = replace(long, values=np.tile(long.values, (2, 1)))
    problems = {"a": waves.read("a"), "long": long}
    mixed = replace(waves, names=lambda: list(problems), read=problems.__getitem__)
    short = cells([mixed], ["random"], seeds=[0], max_steps=1_000)
    assert [cell.series for cell in short] == ["a"]


@pytest.mark.data
def test_every_method_of_the_table_runs_on_a_real_series(tmp_path):
    source = next(s for s in SETS if s.name == "SKAB")
    models = ["random", "robust z", "PCA", "nearest neighbour", "isolation forest"]
    wanted = [cell for cell in cells([source], models, [0]) if cell.series == "valve1/0"]
    assert run(wanted, [source], tmp_path / "results.jsonl") == 0
    found = {line["model"]: line["vus_pr"] for line in read_results(tmp_path / "results.jsonl")}
    assert list(found) == models
    assert min(found, key=found.get) == "random"
