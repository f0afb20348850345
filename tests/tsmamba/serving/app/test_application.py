"""Routes, refusals and counters, over HTTP without a port."""

import json
import logging
import threading
import time

import pytest
from starlette.testclient import TestClient

from tsmamba.serving.app.application import create_app
from tsmamba.serving.app.service import Service


def post(client, body, route="/score", kind="application/json"):
    """Send bytes as they are, text, or what JSON can hold."""
    body = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.post(route, content=body, headers={"Content-Type": kind})


def refused(answer, status, error, detail):
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert set(answer.json()) == {"error", "detail"}
    assert answer.json()["error"] == error
    assert detail in answer.json()["detail"]
    return True


def wait_until(true, seconds=30.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_rows_are_scored_once(serve, pumps, make_rows):
    client = serve(pumps)
    rows = make_rows("p", 80)
    reply = post(client, {"rows": rows})
    assert reply.status_code == 200
    assert (reply.json()["accepted"], reply.json()["duplicates"]) == (80, 0)
    last = reply.json()["results"][-1]
    assert last["time"] == last["scored_time"] == "2026-03-01T01:19:00Z"
    assert last["score"] == pytest.approx(sum(last["contributions"].values()))
    again = post(client, {"rows": rows}).json()
    assert (again["accepted"], again["duplicates"]) == (0, 80)
    assert {row["status"] for row in again["results"]} == {"duplicate"}


def test_lines_are_answered_as_the_command_writes_them(shelf, serve, app_log, log_lines):
    client = serve(app_log)
    reply = post(client, {"lines": log_lines[:1_000], "stream": "web", "first": 1})
    assert reply.status_code == 200
    wanted, episodes, _ = Service(shelf(app_log)).score_lines(log_lines[:1_000], "web", 1)
    assert reply.json()["results"] == [json.loads(result.to_json()) for result in wanted]
    assert reply.json()["episodes"] == [json.loads(episode.to_json()) for episode in episodes]
    assert post(client, {"lines": log_lines[:9], "stream": "web", "first": 1}).json() == {
        "results": [],
        "episodes": [],
        "accepted": 0,
        "duplicates": 9,
    }


def test_forecasts_have_a_record_for_each_step(serve, load, history):
    rows = history.group_by("unique_id", maintain_order=True).tail(100).to_dicts()
    frame = [row | {"ds": row["ds"].isoformat()} for row in rows]
    client = serve(load)
    reply = post(client, {"frame": frame, "horizon": 3, "quantiles": [0.5]}, "/forecast")
    assert reply.status_code == 200, reply.text
    names = ["unique_id", "ds", "MambaForecaster", "MambaForecaster_q50"]
    assert [list(record) for record in reply.json()["forecast"]] == [names] * 6
    few = post(client, {"frame": frame[:3]}, "/forecast")
    assert refused(few, 422, "invalid", "too short")


def test_each_kind_of_model_has_its_own_routes(serve, pumps, load, app_log):
    rows, forecasts, lines = (serve(model) for model in (pumps, load, app_log))
    assert refused(post(rows, {}, "/forecast"), 404, "not_found", "no such route")
    assert refused(post(forecasts, {}), 404, "not_found", "no such route")
    assert "rows: Field required" in post(rows, {}).json()["detail"]
    assert "lines: Field required" in post(lines, {}).json()["detail"]
    assert "frame: Field required" in post(forecasts, {}, "/forecast").json()["detail"]


@pytest.mark.parametrize(
    ("fixture", "kind", "columns"),
    [
        ("pumps", "MambaDetector", {"values": ["flow", "heat"], "time": "ISO 8601 text"}),
        ("app_log", "LogDetector", {"session": None, "stream_by": ["service"]}),
        ("load", "MambaForecaster", {"id": "unique_id", "time": "ds", "target": ["y"]}),
    ],
)
def test_the_model_is_described(serve, request, fixture, kind, columns):
    reply = serve(request.getfixturevalue(fixture)).get("/model").json()
    assert (reply["kind"], reply["name"], reply["version"]) == (kind, "shelf", "1")
    assert columns.items() <= reply["columns"].items()


def test_health_says_when_alerts_come_more_often_than_promised(shelf, serve, pumps, make_rows):
    service = Service(shelf(pumps))
    client = serve(service)
    rows = make_rows("p", 600, seed=5)
    client.post("/score", json={"rows": rows[:200]})
    assert client.get("/health").json()["calibrated"]
    assert b"tsmamba_health_ok 1.0" in client.get("/metrics").content
    broken = [
        row | {"values": dict.fromkeys(row["values"], 9.0 - i % 7)}
        for i, row in enumerate(rows[200:])
    ]
    client.post("/score", json={"rows": broken})
    assert not client.get("/health").json()["calibrated"]
    assert b"tsmamba_health_ok 0.0" in client.get("/metrics").content


def test_health_says_when_it_is_ready(shelf, serve, pumps):
    service = Service(shelf(pumps))
    client = serve(service)
    assert client.get("/health").json() == {
        "live": True,
        "ready": True,
        "calibrated": True,
        "model": "shelf",
        "version": "1",
    }
    service.ready = False
    assert (client.get("/health").status_code, client.get("/health").json()["ready"]) == (
        503,
        False,
    )


ROW = {"series": "p", "time": "2026-03-31T00:00:00Z", "values": {"flow": 1.0, "heat": 2.0}}
VALUES = '{"rows":[{"series":"p","time":"2026-03-31","values":{"flow":%s,"heat":1}}]}'


@pytest.mark.parametrize(
    ("body", "status", "error", "detail"),
    [
        (b"", 422, "invalid", "body: Field required"),
        (b"{", 400, "invalid_json", "the body is no JSON: Expecting"),
        (b"\xff\xfe", 400, "invalid_json", "the body is no JSON"),
        (b"[" * 200_000, 400, "invalid_json", "nested too deeply"),
        (b'{"rows":' + b"9" * 10_000 + b"}", 400, "invalid_json", "the body is no JSON"),
        (b"null", 422, "invalid", "body: "),
        (b"[]", 422, "invalid", "body: "),
        (VALUES % "NaN", 422, "invalid", "rows.0.values.flow: Input should be a finite number"),
        (VALUES % "1e999", 422, "invalid", "rows.0.values.flow: Input should be a finite number"),
        (VALUES % ("9" * 400), 422, "invalid", "rows.0.values.flow: Input should be a valid"),
        (VALUES % '"1"', 422, "invalid", "rows.0.values.flow: Input should be a valid number"),
        (VALUES % "true", 422, "invalid", "rows.0.values.flow: Input should be a valid number"),
        ({"rows": []}, 422, "invalid", "rows: List should have at least 1 item"),
        ({"rows": [ROW] * 10_001}, 422, "invalid", "rows: List should have at most 10000 items"),
        ({"rows": [ROW | {"more": 1}]}, 422, "invalid", "rows.0.more: Extra inputs are not"),
        ({"rows": [ROW | {"time": 1.5}]}, 422, "invalid", "rows.0.time: no time; give ISO 8601"),
        ({"rows": [ROW | {"time": 1_700_000_000}]}, 422, "invalid", "does not say its unit"),
        ({"rows": [ROW | {"series": "p" * 257}]}, 422, "invalid", "rows.0.series: String should"),
        ({"rows": [ROW | {"series": ""}]}, 422, "invalid", "rows.0.series: String should"),
        (VALUES.replace('"p"', r'"\ud800"') % 1, 422, "invalid", "rows.0.series"),
        ({"rows": [{}] * 99}, 422, "invalid", "; and 292 more"),
        ({"rows": [ROW | {"values": {"x" * 9_000: 1}}]}, 422, "invalid", "..."),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_shape(serve, pumps, body, status, error, detail):
    client = serve(pumps)
    assert refused(post(client, body), status, error, detail)
    assert len(post(client, body).content) < 1_000
    assert client.get("/model").status_code == 200


def test_null_is_a_missing_value(serve, pumps):
    values = {"flow": None, "heat": None}
    reply = post(serve(pumps), {"rows": [ROW | {"values": values}]})
    assert reply.json()["results"][0]["status"] == "missing"


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_other_content_is_refused(serve, pumps, kind):
    answer = post(serve(pumps), {"rows": [ROW]}, kind=kind)
    assert refused(answer, 415, "wrong_content_type", "send JSON with the header")
    named = post(serve(pumps), {"rows": [ROW]}, kind="application/json; charset=utf-8")
    assert named.status_code == 200


def test_large_bodies_are_refused_by_what_they_say_and_by_what_they_are(serve, pumps):
    client = serve(pumps, max_body=1_000)
    assert refused(post(client, b" " * 1_001), 413, "too_large", "1000 are accepted")
    headers = {"Content-Type": "application/json"}
    parts = client.post("/score", content=(b" " * 100 for _ in range(11)), headers=headers)
    assert refused(parts, 413, "too_large", "1000 are accepted")
    body = json.dumps({"rows": [ROW]}).encode().ljust(1_000)
    assert post(client, body).status_code == 200
    assert refused(post(serve(pumps), b" " * 10_000_000), 413, "too_large", "8000000 are accepted")


def test_unknown_routes_and_methods_are_refused(serve, pumps):
    client = serve(pumps)
    assert refused(client.get("/docs"), 404, "not_found", "there is no such route")
    answer = client.get("/score")
    assert refused(answer, 405, "method_not_allowed", "the route has other methods")
    assert answer.headers["allow"] == "POST"


def test_our_own_fault_is_told_by_a_name_that_is_in_the_log(serve, pumps, monkeypatch, caplog):
    client = serve(pumps)

    def broken(self, rows):
        raise RuntimeError("a secret in /some/path")

    monkeypatch.setattr(Service, "score_rows", broken)
    answer = post(client, {"rows": [ROW]})
    assert refused(answer, 500, "internal", "the service failed; its log has the reason under ")
    assert "secret" not in answer.text
    name = answer.json()["detail"].rpartition(" ")[2]
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert name in record.getMessage()
    assert "a secret in /some/path" in caplog.text


def test_what_happens_is_counted(shelf, serve, pumps, make_rows, metric):
    client = serve(Service(shelf(pumps), max_series=2))
    for name in "abc":
        post(client, {"rows": make_rows(name, 60)})
    replies = post(client, {"rows": make_rows("c", 60)}).json()
    assert replies["duplicates"] == 60
    alerts = sum(
        row["is_anomaly"] for row in post(client, {"rows": make_rows("d", 60)}).json()["results"]
    )
    post(client, {})
    client.get("/" + "x" * 50)
    assert metric(client, 'tsmamba_requests_total{route="/score",status="200"}') == 5
    assert metric(client, 'tsmamba_requests_total{route="/score",status="422"}') == 1
    assert metric(client, 'tsmamba_requests_total{route="other",status="404"}') == 1
    assert metric(client, 'tsmamba_score_seconds_bucket{le="5.0",route="/score"}') == 6
    assert metric(client, 'tsmamba_observations_total{source="http"}') == 240
    assert metric(client, "tsmamba_duplicates_total") == 60
    assert alerts >= 1
    assert metric(client, "tsmamba_alerts_total") == 4 * alerts
    assert metric(client, 'tsmamba_invalid_total{reason="invalid"}') == 1
    assert metric(client, "tsmamba_series_active") == 2
    assert metric(client, "tsmamba_series_evicted_total") == 2
    assert "unique" not in client.get("/metrics").text


def test_two_threads_take_turns(serve, pumps, make_rows):
    client = serve(pumps)
    sent = {name: make_rows(name, 80, seed) for seed, name in enumerate("ab")}
    wanted = {name: post(serve(pumps), {"rows": rows}).json() for name, rows in sent.items()}
    got = {name: [] for name in sent}

    def send(name):
        for i in range(0, 80, 8):
            got[name] += post(client, {"rows": sent[name][i : i + 8]}).json()["results"]

    threads = [threading.Thread(target=send, args=(name,)) for name in sent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, results in got.items():
        assert len(results) == 80
        for result, want in zip(results, wanted[name]["results"], strict=True):
            assert result["status"] == want["status"]
            assert result["score"] == pytest.approx(want["score"])


def test_work_by_the_clock_is_done_while_requests_are_answered(
    shelf, serve, pumps, make_pumps, make_rows, metric, tmp_path
):
    source = shelf(pumps, make_pumps(seed=1))
    service = Service(source, checkpoint=tmp_path / "state")
    client = serve(service, checkpoint_every=0.02, watch=0.02)
    post(client, {"rows": make_rows("p", 5)})
    wait_until(lambda: metric(client, "tsmamba_last_checkpoint_timestamp_seconds") > 0)
    source.version = "2"
    wait_until(lambda: client.get("/health").json()["version"] == "2")
    assert metric(client, "tsmamba_series_active") == 0


def test_the_end_writes_a_last_checkpoint(shelf, pumps, make_rows, tmp_path):
    path = tmp_path / "state"
    with TestClient(create_app(Service(shelf(pumps), checkpoint=path))) as client:
        rows = make_rows("p", 5)
        post(client, {"rows": rows})
    with TestClient(create_app(Service(shelf(pumps), checkpoint=path))) as client:
        assert post(client, {"rows": rows}).json()["duplicates"] == 5
