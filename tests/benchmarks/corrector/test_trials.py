from functools import partial

import pytest
import torch

from benchmarks.corrector import trials
from benchmarks.corrector.trials import Trial
from benchmarks.forecast.models.tsmamba import Tsmamba
from benchmarks.forecast.run import evaluate
from benchmarks.forecast.sets import ForecastSet
from tools.pool import make_series
from tsmamba.forecast.pretrained import pretrained_corrector

HORIZON, TEST_STEPS, N_SERIES = 48, 100, 2
MADE = ForecastSet(
    "made",
    partial(make_series, 0, 24, N_SERIES, 1_500),
    season=24,
    validation_steps=100,
    test_steps=TEST_STEPS,
    horizons=(HORIZON,),
)


@pytest.fixture(scope="module")
def trial():
    return Trial.of(MADE, HORIZON)


def test_a_trial_is_the_fast_mode_of_the_forecaster(trial):
    ours = trial.evaluate(pretrained_corrector())
    assert ours["gate"] > 0
    assert ours["n_windows"] == N_SERIES * (TEST_STEPS - HORIZON + 1)
    for forecast, mode in (("base", "base"), ("gated", "fast")):
        theirs = evaluate(Tsmamba(mode), trial.problem, seed=0)
        for error in ("mse", "mae"):
            assert ours[forecast][error] == pytest.approx(theirs[error], rel=1e-4)
    assert ours["gated"] != ours["base"]


def test_a_gate_that_stays_shut_leaves_the_base(trial, monkeypatch):
    corrector = pretrained_corrector()
    monkeypatch.setattr(
        "tsmamba.forecast.correction.choose_shares", lambda errors: torch.zeros(HORIZON)
    )
    got = trial.evaluate(corrector)
    assert got["gate"] == 0
    assert got["gated"] == got["base"] != got["corrected"]


def test_many_test_windows_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(trials, "_MOST_TESTED", 20)
    trial = Trial.of(MADE, HORIZON)
    assert len(trial.test) == 20
    everything = trial.problem.test.first
    assert trial.test.origin[0] == everything.origin[0]
    assert trial.test.origin[-1] == everything.origin[-1]
