import time

import pytest

from tsmamba.benchmark import timing
from tsmamba.benchmark.timing import percentiles, race


def test_the_best_call_counts_and_the_slower_contestant_loses() -> None:
    best = race({"fast": lambda: time.sleep(0.001), "slow": lambda: time.sleep(0.02)}, seconds=0.0)
    assert 0.001 <= best["fast"] < best["slow"]
    assert best["slow"] >= 0.02


def test_contestants_take_turns(monkeypatch) -> None:
    monkeypatch.setattr(timing, "TURN_SECONDS", 0.0)  # a turn is one call
    called: list[str] = []
    race({name: lambda name=name: called.append(name) for name in "ab"}, seconds=60.0)
    assert called == ["a", "b"] * timing.ROUNDS


def test_no_round_begins_after_the_time_is_up(monkeypatch) -> None:
    monkeypatch.setattr(timing, "TURN_SECONDS", 0.0)
    called: list[str] = []
    race({"a": lambda: called.append("a")}, seconds=0.0)
    assert called == ["a"]


def test_percentiles_are_those_of_the_calls(monkeypatch) -> None:
    readings = (float(reading) for call in range(1, 401) for reading in (0, call))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(readings))
    median, p99 = percentiles({"a": lambda: None}, calls=400)["a"]
    assert median == pytest.approx(200.5)
    assert p99 == pytest.approx(397, abs=1)
