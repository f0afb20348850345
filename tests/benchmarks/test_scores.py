import csv
import math

import numpy as np
import pytest
import torch

from benchmarks.forecast.models import SeasonalNaive
from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Problem
from benchmarks.forecast.run import evaluate
from benchmarks.forecast.scores import Scores
from benchmarks.forecast.sets import find_set


@pytest.fixture
def batch(rng):
    truth = torch.from_numpy(rng.normal(size=(40, 10)))
    point = truth + torch.from_numpy(rng.normal(size=(40, 10)))
    observed = torch.from_numpy(rng.random((40, 10)) < 0.8)
    return truth, observed, point, {80: (point - 1.0, point + 0.5)}


def test_errors_are_means_over_real_values(batch):
    truth, observed, point, bands = batch
    scores = Scores(horizon=10)
    scores.add(truth, observed, Forecast(point, bands))
    got = scores.summary()
    error = (point - truth)[observed].numpy()
    assert got["mse"] == pytest.approx((error**2).mean())
    assert got["mae"] == pytest.approx(np.abs(error).mean())
    above, below = np.maximum(-error - 0.5, 0), np.maximum(error - 1.0, 0)
    assert got["coverage_80"] == pytest.approx(((above == 0) & (below == 0)).mean())
    assert got["interval_score_80"] == pytest.approx((1.5 + 10 * (above + below)).mean())
    squared = (point - truth).square() * observed
    by_step = (squared.sum(0) / observed.sum(0)).tolist()
    assert got["mse_ahead"] == pytest.approx(by_step, abs=1e-5)


def test_batches_count_as_the_whole(batch):
    truth, observed, point, bands = batch
    whole, parts = Scores(horizon=10), Scores(horizon=10)
    whole.add(truth, observed, Forecast(point, bands))
    for part in torch.arange(40).split(7):
        cut = {level: (low[part], high[part]) for level, (low, high) in bands.items()}
        parts.add(truth[part], observed[part], Forecast(point[part], cut))
    got, expected = parts.summary(), whole.summary()
    assert got.pop("mse_ahead") == pytest.approx(expected.pop("mse_ahead"))
    assert got == pytest.approx(expected)
    assert parts.windows == whole.windows == 40


def test_missing_values_change_nothing(batch):
    truth, observed, point, _ = batch
    clean, spoiled = Scores(horizon=10), Scores(horizon=10)
    clean.add(truth, observed, Forecast(point))
    spoiled.add(torch.where(observed, truth, 1e6), observed, Forecast(point))
    assert spoiled.summary() == clean.summary()
    assert math.isfinite(spoiled.summary()["mse"])


@pytest.mark.data
def test_seasonal_naive_has_the_published_errors_on_m4(data_dir):
    with (data_dir / "m4_hourly" / "hourly_scores.csv").open() as file:
        published = {row["method"]: row for row in csv.DictReader(file)}
    source = find_set("M4")
    naive2 = published["Naive2"]
    assert source.naive2 == (float(naive2["hourly_smape"]), float(naive2["hourly_mase"]))
    got = evaluate(SeasonalNaive(), Problem.of(source, 48), seed=0)
    expected = published["sNaive"]
    assert got["smape"] == pytest.approx(float(expected["hourly_smape"]), abs=5e-4)
    assert got["mase"] == pytest.approx(float(expected["hourly_mase"]), abs=5e-4)
    assert got["owa"] == pytest.approx(float(expected["hourly_owa"]), abs=1e-4)
    assert got["n_windows"] == 414
