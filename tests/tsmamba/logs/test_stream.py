import json

import pytest

from tsmamba import LogDetector
from tsmamba.logs.stream import LogStream

KINDS = ("lines", "sessions")


@pytest.fixture(params=KINDS)
def detector(request, fitted, fitted_sessions):
    return {"lines": fitted, "sessions": fitted_sessions}[request.param]


@pytest.fixture
def log(detector, test, test_sessions):
    return test if detector.session is None else test_sessions


def told(stream, results):
    """Return all that came out: results, episodes and counts."""
    return (
        [result.to_json() for result in results],
        [episode.to_json() for episode in stream.drain_episodes()],
        (stream.lines, stream.lines_unparsed, stream.unparsed, stream.alerts, stream.n_templates),
        stream.lines_without_session,
    )


def in_chunks(stream, log, size):
    results = []
    for start in range(0, len(log), size):
        results += stream.feed(log[start : start + size])
    return results + stream.close()


def whole(detector, log):
    stream = detector.stream()
    return told(stream, stream.feed(log) + stream.close())


def restored(stream):
    return LogStream(json.loads(json.dumps(stream.to_dict())))


def test_there_is_something_to_tell(detector, log):
    results, episodes, (lines, _, _, alerts, templates), _ = whole(detector, log)
    assert 0 < alerts < len(results) / 5
    assert any('"state":"open"' in episode for episode in episodes)
    assert any('"state":"close"' in episode for episode in episodes)
    assert lines >= len(log) - 3
    assert templates >= 3
    ids = [json.loads(result)["event_id"] for result in results]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_one_by_one_is_in_chunks_is_all_at_once(detector, log, size):
    stream = detector.stream()
    assert told(stream, in_chunks(stream, log, size)) == whole(detector, log)


def test_text_and_bytes_are_the_same(detector, log):
    stream = detector.stream()
    results = stream.feed([line.encode() for line in log]) + stream.close()
    assert told(stream, results) == whole(detector, log)


def test_a_saved_stream_goes_on_as_if_nothing_had_happened(detector, log):
    stream, results = detector.stream(), []
    for start in range(0, len(log), 379):
        stream = restored(stream)
        results += stream.feed(log[start : start + 379])
    results += stream.close()
    assert told(stream, results) == whole(detector, log)
    reference = detector.stream()
    reference.feed(log)
    reference.close()
    reference.drain_episodes()
    assert stream.to_dict() == reference.to_dict()


def test_a_stream_is_saved_between_the_lines_of_a_trace(fitted, test):
    place = test.index("Traceback (most recent call last):")
    for cut in range(place - 1, place + 4):
        stream = fitted.stream()
        results = stream.feed(test[:cut])
        stream = restored(stream)
        results += stream.feed(test[cut:]) + stream.close()
        assert told(stream, results) == whole(fitted, test)


def test_streams_of_one_detector_know_nothing_of_each_other(detector, log):
    expected = whole(detector, log)
    one, other = detector.stream(), detector.stream()
    results = {id(one): [], id(other): []}
    for start in range(0, len(log), 500):
        for stream in (one, other):
            results[id(stream)] += stream.feed(log[start : start + 500])
    for stream in (one, other):
        assert told(stream, results[id(stream)] + stream.close()) == expected


def test_feeding_does_not_change_the_detector_or_a_saved_state(detector, log):
    before = json.dumps(detector._state)
    stream = detector.stream()
    stream.feed(log[:500])
    state = stream.to_dict()
    saved = json.dumps(state)
    stream.feed(log[500:])
    LogStream(state).feed(log[500:])
    assert json.dumps(state) == saved
    assert json.dumps(detector._state) == before


def test_a_line_waits_for_its_trace_until_the_stream_is_flushed(fitted):
    stream = fitted.stream()
    line = 'ts=2026-03-03T00:00:00Z level=info service=worker msg="heartbeat ok, queue 3"'
    assert stream.feed([line]) == []
    (result,) = stream.flush()
    assert (result.line_no, result.message, result.stream) == (1, "heartbeat ok, queue 3", "worker")
    assert stream.flush() == []
    assert stream.lines == 1


def test_any_text_and_any_bytes_are_scored(fitted):
    stream = fitted.stream()
    strange = [
        "",
        "\n",
        " ",
        "\0",
        "\udcff\ud800 half",
        "x" * 1_000_000,
        "\u2028",
        "{",
        "{}",
        "ts=",
    ]
    results = stream.feed(strange) + stream.feed([bytes(range(256)), b"\xff" * 100])
    results += stream.close()
    for result in results:
        json.loads(result.to_json())
        assert len(result.message) <= 2_000
    assert stream.lines_unparsed > 5


def test_a_line_end_belongs_to_no_message(fitted, test):
    stream = fitted.stream()
    ended = [f"{line}\r\n" if i % 2 else f"{line}\n" for i, line in enumerate(test)]
    assert told(stream, stream.feed(ended) + stream.close()) == whole(fitted, test)


def test_lines_without_a_session_are_counted(fitted_sessions):
    stream = fitted_sessions.stream()
    assert stream.feed(["2026-03-01T10:00:00Z INFO no job here", "nor here"]) + stream.close() == []
    assert stream.lines_without_session == 2


def test_of_episodes_that_nobody_drains_the_newest_are_kept(monkeypatch):
    monkeypatch.setattr("tsmamba.logs.stream._WAITING", 5)
    usual = ["job 1 done"] * 200
    stream = LogDetector(multiline=None, cool_down=1e-9).fit(usual).stream()
    for i in range(30):
        stream.feed([f"2026-03-01T10:00:{i:02d}Z {'x' * (i + 1)} failed"])
    assert len(stream.to_dict()["told"]) == 5
    told = stream.drain_episodes()
    assert len(told) == 5
    assert told[-1].message == f"{'x' * 30} failed"
    assert stream.drain_episodes() == []


def test_templates_that_a_full_miner_forgets_do_no_harm():
    words = [f"{'abcdefghijklmnop'[i % 16] * (1 + i // 16)}" for i in range(200)]
    log = [f"{word} {word}ing {word}ed" for _ in range(3) for word in words]
    detector = LogDetector(max_templates=16, multiline=None).fit(log)
    assert detector.report_["templates"] <= 16
    stream = detector.stream()
    results = stream.feed(log)
    assert len(results) == len(log)
    assert all(result.template for result in results)
    assert stream.n_templates <= 16
