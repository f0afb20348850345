"""Whatever is sent, by the description of the routes or against it, the answer is as described."""

import json
from datetime import timedelta, timezone

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from starlette.testclient import TestClient

from tsmamba.serving.app.application import create_app
from tsmamba.serving.app.service import Service

GETS = ("GET /health", "GET /model", "GET /metrics")
POSTS = {"pumps": "POST /score", "app_log": "POST /score", "load": "POST /forecast"}
# There is no wrong way to send nothing.
CASES = [("pumps", route, GenerationMode.POSITIVE) for route in GETS]
CASES += [(fixture, route, mode) for fixture, route in POSTS.items() for mode in GenerationMode]

bounded = settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def api(shelf, request):
    """Return a function from the fixture of a model to an application that serves it."""
    made = {}

    def of(fixture):
        if fixture not in made:
            service = Service(shelf(request.getfixturevalue(fixture)))
            service.ready = True
            made[fixture] = create_app(service)
        return made[fixture]

    return of


def operations(app):
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    found = [operation.ok() for operation in schema.get_all_operations()]
    return {operation.label: operation for operation in found}


@pytest.mark.parametrize("fixture", POSTS)
def test_every_operation_is_among_those_that_are_checked(api, fixture):
    assert set(operations(api(fixture))) == {*GETS, POSTS[fixture]}


@pytest.mark.parametrize(("fixture", "route", "mode"), CASES)
def test_answers_are_as_described(api, fixture, route, mode):
    operation = operations(api(fixture))[route]
    # The description cannot say which channels and columns a model takes.
    unknowable = [schemathesis.checks.positive_data_acceptance]

    @bounded
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        answer = case.call_and_validate(excluded_checks=unknowable)
        assert "Traceback" not in answer.text
        assert ".py" not in answer.text

    check()


zones = st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.none()
rows = st.fixed_dictionaries(
    {
        "series": st.sampled_from("ab"),
        "time": st.datetimes(timezones=st.none() | zones).map(lambda t: t.isoformat()),
        "values": st.fixed_dictionaries({"flow": numbers, "heat": numbers}),
    }
)


def test_any_rows_of_the_model_get_an_answer_without_nan(api):
    client = TestClient(api("pumps"))

    @bounded
    @given(sent=st.lists(rows, min_size=1, max_size=20))
    def check(sent):
        answer = client.post("/score", json={"rows": sent})
        # A zone may move a time out of the years that there are.
        assert answer.status_code == 200 or "no time" in answer.json()["detail"]
        json.loads(answer.text, parse_constant=pytest.fail)

    check()


def test_any_history_gets_an_answer_without_nan(api, history):
    client = TestClient(api("load"))
    usual = history.group_by("unique_id", maintain_order=True).tail(60).to_dicts()
    frame = [row | {"ds": row["ds"].isoformat()} for row in usual]

    @bounded
    @given(
        values=st.lists(numbers, min_size=30, max_size=30),
        times=st.lists(rows.map(lambda row: row["time"]), max_size=3),
        horizon=st.integers(1, 40),
    )
    def check(values, times, horizon):
        sent = [row | {"y": y} for row, y in zip(frame[30:], values, strict=False)]
        sent = [row | {"ds": t} for row, t in zip(frame, times, strict=False)] + sent
        answer = client.post("/forecast", json={"frame": sent, "horizon": horizon})
        assert answer.status_code in (200, 422), answer.text
        json.loads(answer.text, parse_constant=pytest.fail)

    check()
