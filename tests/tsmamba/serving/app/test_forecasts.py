import json

import numpy as np
import pytest

from tsmamba.errors import FrameError, ParameterError
from tsmamba.serving.app.forecasts import ForecastEngine


@pytest.fixture(scope="module")
def engine(load):
    return ForecastEngine(load)


@pytest.fixture(scope="module")
def records(history):
    """The last rows of the series as they are sent."""
    last = history.group_by("unique_id", maintain_order=True).tail(120)
    rows = last.to_dicts()
    return [row | {"ds": row["ds"].isoformat()} for row in rows]


def test_forecasts_are_those_of_the_model(engine, load, history, records):
    answer = engine.forecast(records, horizon=5, quantiles=[0.1, 0.9])
    last = history.group_by("unique_id", maintain_order=True).tail(120)
    wanted = load.predict(df=last, horizon=5, quantiles=[0.1, 0.9])
    assert len(answer) == wanted.height == 10
    assert [row["unique_id"] for row in answer] == wanted["unique_id"].to_list()
    assert [row["ds"] for row in answer] == [f"{ds.isoformat()}Z" for ds in wanted["ds"]]
    got = [list(row.values())[2:] for row in answer]
    np.testing.assert_allclose(got, wanted.to_numpy()[:, 2:].astype(float), rtol=1e-6)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_the_order_of_records_does_not_matter(engine, records):
    shuffled = np.random.default_rng(0).permutation(len(records))
    assert engine.forecast([records[i] for i in shuffled]) == engine.forecast(records)


def test_zones_and_missing_values_are_understood(engine, records):
    zoned = [row | {"ds": f"{row['ds']}+00:00"} for row in records]
    assert engine.forecast(zoned) == engine.forecast(records)
    gaps = [row | {"y": None} if i % 7 == 3 else row for i, row in enumerate(records)]
    assert all(np.isfinite(row["MambaForecaster"]) for row in engine.forecast(gaps))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": "high"}, "column 'y' holds float and str; send values of one type"),
        ({"ds": "yesterday"}, "'yesterday'"),
        ({"ds": 1_700_000_000}, "column 'ds' holds int and str"),
        ({"unique_id": None}, "unique_id"),
    ],
)
def test_records_that_cannot_be_used_are_refused(engine, records, change, message):
    with pytest.raises(FrameError, match=message):
        engine.forecast([records[0] | change, *records[1:]])


def test_epoch_numbers_are_refused_with_a_reason(engine, records):
    numbered = [row | {"ds": 1_700_000_000_000 + i} for i, row in enumerate(records)]
    with pytest.raises(FrameError, match="a number does not say its unit"):
        engine.forecast(numbered)


@pytest.mark.parametrize("value", [10**30, -(2**63) - 1, 1e300])
def test_numbers_beyond_what_the_model_computes_with_are_refused(engine, records, value):
    with pytest.raises(FrameError, match=r"column 'x' holds .*, and .* is the largest (int|float)"):
        engine.forecast([row | {"x": value} for row in records])


def test_too_many_forecasts_are_refused(engine, records):
    with pytest.raises(ParameterError, match="2 series of 500001 steps are 1000002 forecasts, and"):
        engine.forecast(records, horizon=500_001)


def test_what_a_record_must_hold_is_told(engine):
    assert engine.columns()["target"] == ["y"]
    assert engine.settings()["horizon"] == 12
