"""What MLflow's scoring server answers, row by row of a table of what people send."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import mlflow.pyfunc
import numpy as np
import pandas as pd
import polars as pl
import pytest
from mlflow.exceptions import MlflowException

import tsmamba.mlflow.pyfunc
from tsmamba.mlflow.pyfunc import Scorer


def records(rows):
    """Return rows as JSON takes them, times as ISO text."""
    text = rows.with_columns(pl.col("ds").dt.to_string("%Y-%m-%dT%H:%M:%S"))
    return text.to_dicts()


def post(client, body):
    text = body if isinstance(body, str) else json.dumps(body)
    return client.post("/invocations", content=text, headers={"Content-Type": "application/json"})


def changed(rows, **columns):
    """Return records with some columns computed anew from each of them."""
    return [{**row, **{name: of(row) for name, of in columns.items()}} for row in rows]


@pytest.fixture(scope="module")
def expected(client, history):
    answer = post(client, {"dataframe_records": records(history)})
    assert answer.status_code == 200, answer.text
    return answer.json()["predictions"]


def test_the_answer_is_that_of_the_model(models, history, expected):
    forecast = models["forecaster"][0].predict(history)
    assert [row["ds"] for row in expected] == forecast["ds"].dt.to_string("iso:strict").str.head(
        19
    ).to_list()
    for column in ("MambaForecaster", "MambaForecaster-lo-90", "MambaForecaster-hi-90"):
        assert [row[column] for row in expected] == forecast[column].to_list()


SAME = {
    "split": lambda rows: {
        "dataframe_split": {
            "columns": [*rows[0]],
            "data": [[*row.values()] for row in rows],
        }
    },
    "records": lambda rows: {"dataframe_records": rows},
    "inputs": lambda rows: {"inputs": {name: [row[name] for row in rows] for name in rows[0]}},
    "no seconds": lambda rows: {
        "dataframe_records": changed(rows, ds=lambda row: row["ds"][:16].replace("T", " "))
    },
    "UTC": lambda rows: {"dataframe_records": changed(rows, ds=lambda row: row["ds"] + "Z")},
    "offset": lambda rows: {
        "dataframe_records": changed(rows, ds=lambda row: row["ds"] + "+00:00")
    },
    "shuffled": lambda rows: {"dataframe_records": rows[::-1]},
    "another column": lambda rows: {"dataframe_records": changed(rows, note=lambda row: "x")},
}


@pytest.mark.parametrize("form", SAME)
def test_forms_of_the_same_rows_have_the_same_answer(client, history, expected, form):
    answer = post(client, SAME[form](records(history)))
    assert answer.status_code == 200, answer.text
    assert answer.json()["predictions"] == expected


def test_parquet_is_read(client, history, expected):
    from io import BytesIO

    data = BytesIO()
    history.to_pandas().to_parquet(data)
    answer = client.post(
        "/invocations",
        content=data.getvalue(),
        headers={"Content-Type": "application/vnd.apache.parquet"},
    )
    assert answer.json()["predictions"] == expected


ACCEPTED = {
    "whole numbers as values": {"y": lambda row: round(row["y"])},
    "whole numbers as ids": {"unique_id": lambda row: int(row["unique_id"][1:])},
    "gaps": {"y": lambda row: None if row["ds"].endswith("07:00:00") else row["y"]},
    "whole numbers and gaps": {
        "y": lambda row: None if row["ds"].endswith("07:00:00") else round(row["y"])
    },
    "literal NaN": {"y": lambda row: math.nan if row["ds"].endswith("07:00:00") else row["y"]},
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_can_be_meant_is_taken(client, history, case):
    answer = post(client, {"dataframe_records": changed(records(history), **ACCEPTED[case])})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["predictions"]) == 24
    assert "NaN" not in answer.text


def test_parameters_are_taken(client, history):
    body = {
        "dataframe_records": records(history),
        "params": {"horizon": 3, "quantiles": [0.1, 0.975]},
    }
    rows = post(client, body).json()["predictions"]
    assert len(rows) == 6
    assert [*rows[0]][2:] == ["MambaForecaster", "MambaForecaster_q10", "MambaForecaster_q97_5"]


def test_mlflow_itself_drops_parameters_that_it_does_not_know(client, history, expected):
    """They never reach us; the documentation says so. This test tells when that changes."""
    answer = post(client, {"dataframe_records": records(history), "params": {"horizn": 3}})
    assert answer.json()["predictions"] == expected


REFUSED = {
    "milliseconds": ({"ds": lambda row: 1_711_886_400_000}, "does not say its unit and zone"),
    "no time": ({"ds": lambda row: "yesterday"}, "'ds' holds 'yesterday' in row 0"),
    "some with an offset": (
        {"ds": lambda row: row["ds"] + "Z" * (row["unique_id"] == "s0")},
        "300 times with an offset from UTC and 300 without one",
    ),
    "missing times": ({"ds": lambda row: None}, "have no time stamp in column 'ds'"),
    "text as values": ({"y": lambda row: "high"}, "column 'y' is of type String"),
    "text among values": (
        {"y": lambda row: "high" if row["ds"].endswith("07:00:00") else 1.5},
        "column 'y'",
    ),
    "lists as values": ({"y": lambda row: [1.0]}, "column 'y' is of type List"),
    "only gaps": ({"y": lambda row: None}, "series 's0' holds missing values only"),
    "one time for all": ({"ds": lambda row: "2024-01-01"}, "has more than one row at ds=2024"),
}


def refusal(answer):
    """Return what is said of a refused request; nothing of our code may be in it."""
    assert answer.status_code == 400, answer.text
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text
    assert "stack_trace" not in answer.json()
    return answer.json()["message"]


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_cannot_be_used_are_refused_in_our_words(client, history, case):
    spoil, reason = REFUSED[case]
    message = refusal(post(client, {"dataframe_records": changed(records(history), **spoil)}))
    assert reason in message


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"horizon": 0}, "horizon=0; pass a whole number of at least 1"),
        ({"horizon": 10_000}, "192 at most are accepted"),
        ({"horizon": "3"}, "Invalid parameters"),
        ({"horizon": 2.5}, "Invalid parameters"),
        ({"quantiles": [1.5]}, "numbers lie strictly between 0 and 1"),
        ({"quantiles": 0.5}, "Invalid parameters"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(client, history, params, reason):
    answer = post(client, {"dataframe_records": records(history), "params": params})
    assert reason in refusal(answer)


def test_short_series_and_missing_columns_are_refused(client, history):
    short = history.group_by("unique_id", maintain_order=True).tail(5)
    assert "5 rows of history" in refusal(post(client, {"dataframe_records": records(short)}))
    without = records(history.drop("y"))
    assert "y" in refusal(post(client, {"dataframe_records": without}))
    assert refusal(post(client, {"dataframe_records": []}))


@pytest.mark.parametrize("body", ["{", "[1, 2]", '{"rows": []}', ""])
def test_what_is_no_request_is_refused(client, body):
    assert post(client, body).status_code == 400


def test_another_type_of_content_is_refused(client):
    answer = client.post("/invocations", content=b"x", headers={"Content-Type": "text/html"})
    assert answer.status_code == 415


def test_a_fault_of_ours_is_a_500_that_tells_only_the_log(client, history, monkeypatch, caplog):
    def failing(*args, **options):
        raise RuntimeError("secret of the machine")

    monkeypatch.setattr(tsmamba.mlflow.pyfunc, "score_frame", failing)
    with caplog.at_level("ERROR", logger="tsmamba"):
        answer = post(client, {"dataframe_records": records(history)})
    assert answer.status_code == 500
    assert "no fault of the request" in answer.json()["message"]
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "secret of the machine" in caplog.text


def test_many_at_once_are_answered_as_one_by_one(client, history):
    bodies = [
        {
            "dataframe_records": records(history.with_columns(pl.col("y") * (i + 1))),
            "params": {"horizon": i + 1},
        }
        for i in range(8)
    ]
    alone = [post(client, body).json() for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda body: post(client, body).json(), bodies * 3))
    assert together == alone * 3


@pytest.mark.parametrize("kind", ["detector", "log_detector"])
def test_many_threads_may_share_a_model_of_any_kind(models, kind):
    model, rows = models[kind]
    scorer, sent = Scorer(model), rows.to_pandas()
    parts = [sent.iloc[: len(sent) - i] for i in range(4)]
    alone = [scorer.predict(part) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(scorer.predict, parts * 4))
    for one, other in zip(alone * 4, together, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_unknown_parameters_are_refused_where_they_reach_us(models, history):
    scorer = Scorer(models["forecaster"][0])
    with pytest.raises(MlflowException, match="unknown parameters 'horizn'") as caught:
        scorer.predict(history.to_pandas(), {"horizn": 3})
    assert caught.value.error_code == "INVALID_PARAMETER_VALUE"


def test_rows_without_a_score_hold_none_not_nan(models, history):
    gap = history.to_pandas().assign(y=np.nan)
    answer = Scorer(models["detector"][0]).predict(gap)
    assert answer["score"].tolist() == [None] * 600
    assert set(answer["status"]) == {"missing"}


def test_a_polars_frame_is_scored_by_the_wrapper_but_mlflow_refuses_it(saved, models, history):
    """MLflow checks the signature first; the documentation says to load the model itself."""
    served = mlflow.pyfunc.load_model(str(saved("forecaster")))
    with pytest.raises(MlflowException, match="schema"):
        served.predict(history)
    assert tsmamba.mlflow.load_model(saved("forecaster")).predict(history).height == 24
