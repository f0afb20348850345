import io
import json
import threading

import pytest

from tsmamba.errors import BrokerError
from tsmamba.logs.broker import Broker
from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.fitting import fitted_state
from tsmamba.logs.kafka_output import KafkaOutput
from tsmamba.logs.service import Scorer
from tsmamba.logs.settings import LogSettings
from tsmamba.logs.sources import KafkaSource

QUICK = {"fetch.wait.max.ms": "10"}


def log(count, seed=0):
    """Lines of a log that repeats, with something odd now and then."""
    odd = [b"disk failed", b"user 7 refused by policy 3"]
    usual = [b"job %d started", b"job %d took 31 ms", b"job %d done"]
    return [
        odd[n % 2] if n % 97 == seed + 50 else usual[n % 3] % (n // 3) for n in range(1, count + 1)
    ]


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "app.log"
    path.write_bytes(b"\n".join(log(1_500)))
    return json.dumps(fitted_state([path], LogSettings(), lambda lines: None))


@pytest.fixture
def broker(cluster):
    return Broker(cluster.servers, settings=QUICK)


def record(stream, source="app", **rest):
    return json.dumps({"stream": stream, "source": source, **rest}).encode() + b"\n"


def values(pairs):
    return [json.loads(value) for _, value in pairs]


def test_records_are_keyed_by_their_stream_and_are_there_after_a_flush(cluster, broker):
    cluster.send("results", [b"{}"])
    output = KafkaOutput(broker, "results", stop=threading.Event())
    data = b"".join(record(f"host {n % 3}", n=n) for n in range(30)) + record("", n=30)
    assert output.write(data) == len(data)
    output.flush()
    found = cluster.messages("results")[1:]
    assert sorted(json.loads(value)["n"] for _, value in found) == list(range(31))
    for number in range(3):
        own = values([pair for pair in found if pair[0] == b"host %d" % number])
        assert [each["n"] for each in own] == list(range(number, 30, 3))
    assert [key for key, value in found if json.loads(value)["n"] == 30] == [b"app"]


def test_more_records_than_the_library_holds_are_delivered_on_the_way(cluster):
    cluster.send("results", [b"{}"])
    small = Broker(cluster.servers, settings={**QUICK, "queue.buffering.max.messages": "10"})
    output = KafkaOutput(small, "results", stop=threading.Event())
    output.write(b"".join(record("a", n=n) for n in range(95)))
    output.flush()
    found = values(cluster.messages("results"))
    assert [each["n"] for each in found if each] == list(range(95))


def test_what_the_topic_does_not_take_is_refused(cluster):
    cluster.send("results", [b"{}"])
    small = Broker(cluster.servers, settings={"message.max.bytes": "1000"})
    output = KafkaOutput(small, "results", stop=threading.Event())
    with pytest.raises(BrokerError, match=r"'results' does not take the results: .*too large"):
        output.write(record("a", text="x" * 2_000))


def test_a_topic_that_does_not_exist_is_refused(cluster, broker):
    with pytest.raises(BrokerError, match="there is no topic 'nowhere' at"):
        KafkaOutput(broker, "nowhere", stop=threading.Event())


def test_without_a_broker_it_waits_until_it_is_to_stop(cluster):
    cluster.send("results", [b"{}"])
    told, stop = [], threading.Event()
    output = KafkaOutput(Broker(cluster.servers, told.append), "results", stop=stop)
    cluster.stop()
    output.write(record("a"))
    timer = threading.Timer(1.0, stop.set)
    timer.start()
    with pytest.raises(BrokerError, match="1 results for topic 'results' were not delivered"):
        output.flush()
    assert stop.is_set()
    assert told == [f"no broker at {cluster.servers} answers; trying on"]


class Killed(Exception):
    pass


class Dying:
    """A file and a checkpoint that die at a given call, before it does anything."""

    def __init__(self, target, method, calls):
        self._target, self._method, self._left = target, method, calls

    def __getattr__(self, name):
        if name == self._method:
            self._left -= 1
            if self._left < 0:
                raise Killed
        return getattr(self._target, name)


def scored(broker, state, out, checkpoint, partitions=None):
    """Score what is there; the source is left as a kill leaves it if the scorer dies."""
    source = KafkaSource(broker, "app", partitions=partitions)
    ends = {"checkpoint": checkpoint, "committed": source.commit}
    scorer = Scorer(source, json.loads(state), out, every=0, **ends)
    scorer.run()
    source.close()
    return scorer


def unique(out):
    records = {}
    for text in out.getvalue().splitlines():
        assert records.setdefault(json.loads(text)["event_id"], text) == text
    return records


@pytest.mark.parametrize("method", ["write", "commit"])
def test_a_scorer_that_dies_again_and_again_ends_in_the_state_of_one_that_never_did(
    cluster, broker, state, tmp_path, method
):
    cluster.send("app", log(4_000, seed=7))
    whole = io.BytesIO()
    with Checkpoint(tmp_path / "whole", model="m") as checkpoint:
        scored(broker, state, whole, checkpoint, [0])
        expected = checkpoint.load()
    out, deaths = io.BytesIO(), 0
    for calls in (1, 3, 2, 4, 100):
        with Checkpoint(tmp_path / "again", model="m") as checkpoint:
            ends = {"write": out, "commit": checkpoint}
            ends[method] = Dying(ends[method], method, calls)
            try:
                scored(broker, state, ends["write"], ends["commit"], [0])
            except Killed:
                deaths += 1
            else:
                assert checkpoint.load() == expected
    assert deaths >= 3
    assert unique(out) == unique(whole)
    assert len(unique(whole)) == 4_000
    again = len(out.getvalue().splitlines()) - 4_000
    assert (again > 0) == (method == "commit")


def test_every_result_is_in_the_topic_before_its_commit(cluster, broker, state, tmp_path):
    cluster.send("results", [b"{}"])
    for partition in range(4):
        cluster.send("app", log(700), partition)
    # Nothing goes by itself.
    lazy = Broker(cluster.servers, settings={"linger.ms": "60000"})
    output = KafkaOutput(lazy, "results", stop=threading.Event())
    counts = []

    class Watched(Checkpoint):
        def commit(self, positions, blobs, **rest):
            done = sum(positions["kafka:app"].values())
            counts.append((done, len(cluster.messages("results")) - 1))
            super().commit(positions, blobs, **rest)

    with Watched(tmp_path / "app.checkpoint", model="m") as checkpoint:
        scorer = scored(broker, state, output, checkpoint)
    # A line of each partition may wait for a stack trace; the state in the commit has it.
    assert len(counts) >= 5
    assert all(done - 4 <= written for done, written in counts)
    assert counts[-1] == (2_800, 2_800)
    results = values(cluster.messages("results"))[1:]
    assert {each["event_id"] for each in results if each} == {
        f"app/{partition}:{offset}" for partition in range(4) for offset in range(700)
    }
    assert scorer.counters.alerts == sum(each["is_anomaly"] for each in results if each)
    assert cluster.committed("app", "tsmamba") == [700] * 4


def test_messages_without_a_value_or_text_are_counted(cluster, broker, state):
    cluster.send("app", [None, b"\xff job 1 done", *log(50)])
    scorer = scored(broker, state, io.BytesIO(), None)
    assert scorer.counters.lines == 52
    assert scorer.stream.unparsed["empty"] == 1
    assert scorer.stream.unparsed["not UTF-8"] == 1
