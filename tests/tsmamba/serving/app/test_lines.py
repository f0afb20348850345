import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tsmamba import LogDetector
from tsmamba.errors import CheckpointError, ParameterError
from tsmamba.serving.app.lines import LineEngine


def records(results):
    return [json.loads(result.to_json()) for result in results]


@pytest.fixture
def engine(app_log):
    return LineEngine(app_log, max_streams=3)


@pytest.mark.parametrize("size", [100, 1_000, 1_500])
def test_results_are_those_of_the_log_at_once_however_lines_are_sent(app_log, log_lines, size):
    engine = LineEngine(app_log, 3)
    results = []
    for i in range(0, len(log_lines), size):
        some, _, duplicates = engine.score(log_lines[i : i + size], "lines")
        assert duplicates == 0
        results += some
    wanted = app_log.stream()
    assert records(results) == records(wanted.feed(log_lines) + wanted.flush())
    assert any(result.is_anomaly for result in results)


def test_no_line_waits_for_the_next_request(engine, log_lines):
    results, _, _ = engine.score(["Traceback (most recent call last):", "  boom"], "lines")
    assert len(results) == 1


def test_numbered_lines_are_scored_once(app_log, log_lines):
    whole, engine = (LineEngine(app_log, 3) for _ in range(2))
    wanted, _, _ = whole.score(log_lines[:500], "web")
    first, _, _ = engine.score(log_lines[:300], "web", 1)
    again, _, duplicates = engine.score(log_lines[:300], "web", 1)
    assert (again, duplicates) == ([], 300)
    second, _, duplicates = engine.score(log_lines[250:500], "web", 251)
    assert duplicates == 50
    assert records(first + second) == records(wanted)
    assert len({result.event_id for result in wanted}) == len(wanted)


def test_streams_have_numbers_of_their_own_and_lost_lines_are_passed_over(engine):
    engine.score(["a", "b"], "web", 1)
    [result], _, duplicates = engine.score(["a"], "worker", 1)
    assert (result.event_id, duplicates) == ("worker:0", 0)
    [result], _, duplicates = engine.score(["c"], "web", 10)
    assert (result.line_no, duplicates) == (10, 0)
    [result], _, _ = engine.score(["d"], "web")
    assert result.line_no == 11


def test_one_stream_too_many_is_refused(engine):
    for name in "abc":
        engine.score(["ready"], name)
    with pytest.raises(ParameterError, match=r"stream 'd' is one more than the 3 that are kept"):
        engine.score(["ready"], "d")
    engine.score(["ready"], "a")
    assert engine.n_series == 3


def test_episodes_are_told(engine, log_lines):
    _, episodes, _ = engine.score(log_lines, "lines")
    assert {episode.state for episode in episodes} == {"open", "close"}
    assert engine.score(log_lines[:1], "lines")[1] == []


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(app_log, log_lines, tmp_path):
    whole, first, second = (LineEngine(app_log, 3) for _ in range(3))
    wanted = [whole.score(log_lines[i : i + 500], "web", i + 1)[0] for i in range(0, 1_500, 500)]
    first.open(tmp_path / "state")
    first.score(log_lines[:500], "web", 1)
    first.save()
    first.score(log_lines[500:1_000], "web", 501)  # lost, as by a crash
    first.close()
    second.open(tmp_path / "state")
    for i, part in enumerate(wanted):
        results, _, duplicates = second.score(
            log_lines[i * 500 : (i + 1) * 500], "web", i * 500 + 1
        )
        assert duplicates == (500 if i == 0 else 0)
        assert records(results) == (records(part) if i else [])
    second.close()


def test_a_checkpoint_is_written_by_any_thread(engine, app_log, tmp_path):
    engine.open(tmp_path / "state")
    engine.score(["ready"], "web", 1)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(engine.save).result()
        pool.submit(engine.close).result()
    again = LineEngine(app_log, 3)
    again.open(tmp_path / "state")
    assert again.score(["ready"], "web", 1)[2] == 1
    again.close()


def test_a_checkpoint_of_another_detector_is_refused_or_replaced(app_log, tmp_path):
    engine = LineEngine(app_log, 3)
    engine.open(tmp_path / "state")
    engine.score(["ready"], "a")
    engine.save()
    engine.close()
    other = LineEngine(LogDetector().fit(["job 1 done", "job 2 done"] * 200), 3)
    with pytest.raises(CheckpointError, match="belongs to the model"):
        other.open(tmp_path / "state")
    other.open(tmp_path / "state", anew=True)
    assert other.n_series == 0
    other.close()
