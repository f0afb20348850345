from dataclasses import replace

import pytest
import torch

from benchmarks.memory import reach


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
