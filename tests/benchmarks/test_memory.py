from dataclasses import replace

import pytest
import torch

from benchmarks.forecast.problem import Problem
from benchmarks.memory import context, reach


def test_what_is_read_decides_the_errors(problem, monkeypatch):
    monkeypatch.setattr(reach, "peak_of", lambda run: run() or 0)
    model = reach.fit(problem, trained=96, steps=0)
    base, trained, again, longer = (
        reach.evaluate(model, problem, history)[:2] for history in (None, 96, 100, 240)
    )
    assert trained == again
    assert len({base, trained, longer}) == 3
    closed = replace(model, gate=torch.zeros(problem.horizon))
    assert reach.evaluate(closed, problem, 240)[:2] == pytest.approx(base)


def test_lengths_are_compared_at_each_horizon_and_in_the_mean(make_set, monkeypatch):
    problem = Problem.of(make_set(validation_steps=30, test_steps=40), horizon=12)
    monkeypatch.setattr(context, "find_set", lambda name: problem.source)
    monkeypatch.setattr(context.Problem, "of", lambda source, horizon: problem)
    head, rule, *rows, average, made = context.lines([problem.horizon], lengths=(48, 96))
    assert head == "| MSE / MAE | 48 steps | 96 steps | change |"
    assert rule.count("|") == head.count("|")
    assert [row.split(" | ")[0] for row in rows] == [f"| {problem.horizon} steps ahead"]
    assert average.removeprefix("| average") == rows[0].partition(" ahead")[2]
    short, long = (float(cell.split(" / ")[0]) for cell in average.split(" | ")[1:3])
    assert short != long
    assert f"{100 * (long / short - 1):+.1f} %" in average
    assert "versions" in made
