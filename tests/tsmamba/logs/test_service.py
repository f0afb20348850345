import io
import json

import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.service import Scorer
from tsmamba.logs.sources import FileSource, LinesSource


@pytest.fixture
def state(fitted):
    return fitted._state


@pytest.fixture
def path(tmp_path, test):
    path = tmp_path / "service.log"
    path.write_text("".join(f"{line}\n" for line in test))
    return path


@pytest.fixture
def checkpoint(tmp_path):
    with Checkpoint(tmp_path / "checkpoint", model="m") as checkpoint:
        yield checkpoint


def run(source, state, **options):
    """Score a source to its end; return the scorer and the records it wrote."""
    out = io.BytesIO()
    scorer = Scorer(source, state, out, **options)
    scorer.run()
    source.close()
    return scorer, [json.loads(row) for row in out.getvalue().splitlines()]


class Stops:
    """A source that asks its scorer to stop after some lines."""

    def __init__(self, source, after):
        self.source = source
        self.after = after
        self.scorer = None

    def __getattr__(self, name):
        return getattr(self.source, name)

    def read(self, max_lines):
        lines = self.source.read(min(max_lines, self.after))
        self.after -= len(lines)
        if self.after <= 0:
            self.scorer.stop.set()
        return lines


def run_until(source, state, after, **options):
    out = io.BytesIO()
    stops = Stops(source, after)
    stops.scorer = Scorer(stops, state, out, **options)
    stops.scorer.run()
    source.close()
    return stops.scorer, [json.loads(row) for row in out.getvalue().splitlines()]


def test_it_writes_what_a_stream_says(state, fitted, test):
    scorer, records = run(LinesSource(test), state)
    stream = fitted.stream()
    results = stream.feed(test) + stream.close()
    names = ("source", "event_id", "episode_id")
    expected = [json.loads(result.to_json()) for result in results]
    strip = [
        [{k: v for k, v in r.items() if k not in names} for r in rows]
        for rows in (records, expected)
    ]
    assert strip[0] == strip[1]
    counters = scorer.counters
    assert (counters.lines, counters.results) == (stream.lines, len(results))
    assert counters.alerts == sum(record["is_anomaly"] for record in records) > 0
    assert counters.templates == stream.n_templates
    assert counters.checkpoints == 0


def test_only_what_is_asked_for_is_written(state, test):
    _, everything = run(LinesSource(test), state)
    _, alerts = run(LinesSource(test), state, only="alerts")
    _, episodes = run(LinesSource(test), state, only="episodes")
    assert alerts == [record for record in everything if record["is_anomaly"]]
    opened = [e["episode_id"] for e in episodes if e["state"] == "open"]
    closed = [e["episode_id"] for e in episodes if e["state"] == "close"]
    assert set(opened) == set(closed) == {record["episode_id"] for record in alerts}
    assert sum(e["alerts"] for e in episodes if e["state"] == "close") == len(alerts)
    with pytest.raises(ParameterError, match="only='some': give 'all', 'alerts' or 'episodes'"):
        Scorer(LinesSource(test), state, io.BytesIO(), only="some")


@pytest.mark.parametrize("kind", ["lines", "sessions"])
def test_a_run_that_was_stopped_goes_on(
    kind, fitted, fitted_sessions, test, test_sessions, tmp_path, checkpoint
):
    state = (fitted if kind == "lines" else fitted_sessions)._state
    log = test if kind == "lines" else test_sessions
    path = tmp_path / "log"
    path.write_text("".join(f"{line}\n" for line in log))
    whole, expected = run(FileSource(path), state)
    found, alerts = [], 0
    for after in (1, 300, 300):
        scorer, records = run_until(FileSource(path), state, after, checkpoint=checkpoint)
        found += records
        alerts += scorer.counters.alerts
        assert scorer.counters.lines <= after + 1
    scorer, records = run(FileSource(path), state, checkpoint=checkpoint)
    assert found + records == expected
    # Each run counts its own.
    assert alerts + scorer.counters.alerts == whole.counters.alerts
    assert scorer.counters.results == len(records)
    scorer, records = run(FileSource(path), state, checkpoint=checkpoint)
    assert (records, scorer.counters.alerts, scorer.counters.lines) == ([], 0, 0)


def test_a_run_that_is_stopped_without_a_checkpoint_tells_all_it_read(state, path):
    scorer, records = run_until(FileSource(path), state, 300)
    assert len(records) == scorer.counters.lines
    assert records[-1]["line_no"] == 300


def test_results_are_out_before_they_are_committed(state, path, checkpoint):
    class Broken(io.BytesIO):
        def flush(self):
            if self.getvalue().count(b"\n") > 1_000:
                raise BrokenPipeError

    _, expected = run(FileSource(path), state)
    out = Broken()
    source = FileSource(path)
    scorer = Scorer(source, state, out, checkpoint=checkpoint, every=0.0)
    with pytest.raises(BrokenPipeError):
        scorer.run()
    source.close()
    scorer, records = run(FileSource(path), state, checkpoint=checkpoint)
    first = [json.loads(row) for row in out.getvalue().splitlines()]
    known = {record["event_id"]: record for record in [*first, *records]}
    assert list(known.values()) == expected
    assert 0 < len(first) + len(records) - len(expected) <= 512


def test_commits_come_as_often_as_they_were_asked_for(state, path, checkpoint):
    often, _ = run(FileSource(path), state, checkpoint=checkpoint, every=0.0)
    assert often.counters.checkpoints > 5
    assert often.counters.checkpoint_time > 1.7e9
    rare, _ = run(FileSource(path), state, checkpoint=checkpoint, every=3_600.0)
    assert rare.counters.checkpoints == 2


def test_a_quiet_log_is_not_committed_again(state, path, checkpoint):
    source = Stops(FileSource(path, follow=True), 10**9)
    waits = []

    def wait(timeout):
        waits.append(timeout)
        if len(waits) > 50:
            source.scorer.stop.set()
        return False

    source.wait = wait
    source.scorer = Scorer(source, state, io.BytesIO(), checkpoint=checkpoint, every=0.0)
    source.scorer.run()
    source.source.close()
    before = source.scorer.counters.checkpoints
    assert before < 20


def test_losses_are_told_and_counted(state, tmp_path):
    path = tmp_path / "long.log"
    path.write_bytes(b"x" * 11_000_000 + b"\nshort\n")
    told = []
    scorer, records = run(FileSource(path), state, tell=told.append)
    assert len(records) == 2
    assert len(told) == 1
    assert "is longer than" in told[0]
    assert scorer.counters.bytes_lost == 1_000_000
    assert scorer.counters.losses[0].n_bytes == scorer.counters.bytes_lost
