import numpy as np
import polars as pl
import pytest

from benchmarks.records.models import MODELS
from benchmarks.records.sets import Problem, Stays


def stays_of(ids, rng):
    """Return stays with hourly labels: whether the pulse is high at the time."""
    hours = pl.DataFrame({"subject_id": ids}).join(pl.DataFrame({"time": range(12)}), how="cross")
    high = pl.Series(rng.random(len(hours)) < 0.3).cast(pl.Int64)
    pulse = 80 + 30 * high + pl.Series(rng.normal(0, 5, len(hours)))
    events = hours.with_columns(code=pl.lit("HR"), numeric_value=pulse)
    return Stays(events, hours.with_columns(label=high))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return Problem(stays_of(range(40), rng), stays_of(range(40, 60), rng))


@pytest.mark.parametrize("name", [name for name in MODELS if "causal" not in name])
def test_every_labelled_hour_is_answered(problem, name):
    truth, said, _ = MODELS[name](problem, 0)
    assert truth.tolist() == problem.test.labels["label"].to_list()
    assert np.isfinite(said).all()
    assert said[truth == 1].mean() > said[truth == 0].mean()


def test_labels_of_hours_before_any_measurement_get_the_share_of_training(problem):
    late = problem.test.events.filter(pl.col("time") >= 3)
    _, said, _ = MODELS["logistic regression on summaries"](
        problem._replace(test=Stays(late, problem.test.labels)), 0
    )
    early = problem.test.labels["time"].to_numpy() < 3
    share = problem.train.labels["label"].mean()
    np.testing.assert_allclose(said[early], share)
    assert len(set(said[~early])) > 100
