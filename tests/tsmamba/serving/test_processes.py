"""Parts that other processes score."""

import os
import signal

import pytest

from tsmamba import MambaForecaster
from tsmamba.serving import engines
from tsmamba.serving.engines import score_parquet
from tsmamba.serving.parquet import Job, Scorer
from tsmamba.serving.processes import Other, others, ready
from tsmamba_datasets import make_seasonal

SERIES = make_seasonal(n_series=6, length=200, seed=3)


@pytest.fixture
def job(tmp_path):
    """Return a job of six parts, a series each."""
    (tmp_path / "in").mkdir()
    for (name,), rows in SERIES.group_by("unique_id"):
        rows.write_parquet(tmp_path / "in" / f"{name}.parquet")
    model = MambaForecaster(24, mode="base", context_length=96).fit(SERIES)
    model.save(tmp_path / "model.tsm")
    return Job(tmp_path / "in", tmp_path / "out", tmp_path / "model.tsm")


def up(running):
    """Wait until a process is up."""
    [other] = ready(running, block=True)
    assert other.receive() is None
    return other


@pytest.mark.slow
def test_a_process_scores_what_it_is_given_in_order(job):
    parts = job.parts()[:3]
    with others(job, 1, threads=1) as running:
        other = up(running)
        for part in parts:
            other.give(part)
        outcomes = [other.receive() for _ in parts]
        assert [(each.part, each.state) for each in outcomes] == [(p, "scored") for p in parts]
        assert not other.parts


@pytest.mark.slow
def test_a_process_that_dies_loses_the_part_it_was_at(job):
    with others(job, 1, threads=1) as running:
        other = up(running)
        os.kill(other._process.pid, signal.SIGKILL)
        other._process.join()
        for part in ("a", "b"):
            other.give(part)
        lost = other.receive()
        assert (lost.part, lost.state) == ("a", "failed")
        assert lost.reason == "its process ended; is there enough memory?"
        assert not other.alive
        assert list(other.parts) == ["b"]


@pytest.mark.slow
def test_all_parts_are_scored_if_the_other_process_cannot_start(job, monkeypatch):
    def scorer(job):
        scorer = Scorer(job)
        job.model.unlink()
        return scorer

    monkeypatch.setattr(engines, "Scorer", scorer)
    outcomes = list(score_parquet(job, workers=2))
    assert sorted(each.part for each in outcomes) == job.parts()
    assert {each.state for each in outcomes} == {"scored"}


@pytest.mark.slow
def test_nobody_waits_for_a_process_that_is_not_needed(job, monkeypatch):
    """Nor does one outlive the scoring."""
    started = []

    def other(job, threads):
        started.append(Other(job, threads))
        return started[-1]

    monkeypatch.setattr("tsmamba.serving.processes.Other", other)
    monkeypatch.setattr(engines, "ready", lambda running, block: [])  # it is never up
    outcomes = list(score_parquet(job, workers=2))
    assert len(outcomes) == 6
    [process] = [each._process for each in started]
    assert process.exitcode is not None
