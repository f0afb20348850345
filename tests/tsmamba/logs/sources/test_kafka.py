import sys
import time

import pytest

from tsmamba.errors import BrokerError, MissingExtraError, ParameterError
from tsmamba.logs.broker import Broker
from tsmamba.logs.sources import KafkaSource

TOPIC = "app"
# The mock answers a fetch of nothing only after this time.
QUICK = {"fetch.wait.max.ms": "10"}


@pytest.fixture
def opened(cluster):
    """Open sources on the cluster; all are closed at the end."""
    sources = []

    def open_one(tell=lambda message: None, **options):
        sources.append(KafkaSource(Broker(cluster.servers, tell, QUICK), TOPIC, **options))
        return sources[-1]

    yield open_one
    for source in sources:
        source.close()


def texts(count, prefix="line"):
    return [b"%s %d" % (prefix.encode(), number) for number in range(count)]


def drain(source, count=None, size=100):
    """Read until the source is done, or has given so many lines."""
    lines = []
    end = time.monotonic() + 20
    while not source.done and (count is None or len(lines) < count):
        assert time.monotonic() < end, f"only {len(lines)} lines came"
        source.wait(0.5)
        lines += source.read(size if count is None else min(size, count - len(lines)))
    return lines


def test_each_message_is_a_line_with_the_offsets_of_kafka(cluster, opened):
    cluster.send(TOPIC, [b"one", b"two\r\n", b"three\n  at four"], partition=1)
    source = opened()
    assert source.name == TOPIC
    lines = drain(source)
    assert [tuple(line) for line in lines] == [
        ("app", "app/1", 1, 0, 1, b"one"),
        ("app", "app/1", 2, 1, 2, b"two"),
        ("app", "app/1", 3, 2, 3, b"three\n  at four"),
    ]
    assert source.positions() == {"kafka:app": {"0": 0, "1": 3, "2": 0, "3": 0}}
    assert source.losses() == []


def test_messages_without_a_value_or_text_are_lines_too(cluster, opened):
    cluster.send(TOPIC, [None, b"\xff\xfe", b"", b"last"])
    assert [line.text for line in drain(opened())] == [b"", b"\xff\xfe", b"", b"last"]


def test_all_partitions_are_read_each_in_its_order(cluster, opened):
    for partition in range(4):
        cluster.send(TOPIC, texts(300, f"p{partition}"), partition)
    lines = drain(opened())
    for partition in range(4):
        own = [line for line in lines if line.stream == f"app/{partition}"]
        assert [line.text for line in own] == texts(300, f"p{partition}")
        assert [line.offset for line in own] == list(range(300))
    assert len(lines) == 1_200


def test_no_more_lines_are_given_than_asked_for(cluster, opened):
    cluster.send(TOPIC, texts(10))
    source = opened()
    given = []
    while not source.done:
        source.wait(0.5)
        lines = source.read(3)
        assert len(lines) <= 3
        given += lines
        assert source.positions()["kafka:app"]["0"] == len(given)
    assert [line.text for line in given] == texts(10)


def test_a_reader_dropped_without_a_word_goes_on_from_its_positions(cluster, opened):
    for partition in range(4):
        cluster.send(TOPIC, texts(50, f"p{partition}"), partition)
    whole = {(line.stream, line.offset): line.text for line in drain(opened())}
    seen, positions = {}, None
    for count in (30, 70, 60, None):
        source = opened()
        if positions is not None:
            source.seek(positions)
        lines = drain(source, count)
        assert not seen.keys() & {(line.stream, line.offset) for line in lines}
        seen.update({(line.stream, line.offset): line.text for line in lines})
        positions = source.positions()
    assert seen == whole
    assert len(seen) == 200


def test_positions_win_over_the_offsets_of_the_group(cluster, opened):
    cluster.send(TOPIC, texts(10))
    first = opened(group="mine")
    drain(first)
    first.commit()
    first.close()
    assert cluster.committed(TOPIC, "mine") == [10, 0, 0, 0]
    again = opened(group="mine")
    again.seek({"kafka:app": {"0": 4}})
    assert [line.offset for line in drain(again)] == [4, 5, 6, 7, 8, 9]
    afresh = opened(group="mine")
    assert len(drain(afresh)) == 10


def test_what_is_delivered_again_is_dropped(cluster, opened):
    cluster.send(TOPIC, texts(20))
    source = opened()
    lines = drain(source, 5)
    # As after a change of the assignment, which fetches from before what was given meanwhile.
    source._consumer.assign([cluster.library.TopicPartition(TOPIC, n, 0) for n in range(4)])
    lines += drain(source)
    assert [line.text for line in lines] == texts(20)


def test_one_worker_reads_its_partitions_and_keeps_the_places_of_others(cluster, opened):
    for partition in range(4):
        cluster.send(TOPIC, texts(3, f"p{partition}"), partition)
    source = opened(partitions=[1, 3])
    source.seek({"kafka:app": {"0": 2, "1": 1}, "app.log": {"offset": 9}})
    lines = drain(source)
    assert sorted((line.stream, line.offset) for line in lines) == [
        ("app/1", 1),
        ("app/1", 2),
        ("app/3", 0),
        ("app/3", 1),
        ("app/3", 2),
    ]
    assert source.positions() == {"kafka:app": {"0": 2, "1": 3, "3": 3}}


def test_following_from_the_end_gives_what_comes_later_and_is_never_done(cluster, opened):
    cluster.send(TOPIC, texts(5))
    source = opened(follow=True, read_from="end")
    assert source.positions()["kafka:app"]["0"] == 5
    assert not source.wait(0.3)
    assert not source.done
    cluster.send(TOPIC, [b"later"])
    assert [line.text for line in drain(source, 1)] == [b"later"]
    assert not source.done


def test_a_partition_without_a_position_starts_at_its_beginning(cluster, opened):
    cluster.send(TOPIC, texts(2), partition=2)
    source = opened(read_from="end")
    source.seek({"kafka:app": {"0": 0, "1": 0}})
    assert len(drain(source)) == 2


def test_what_retention_removed_is_told_and_reading_goes_on_at_the_earliest(cluster, opened):
    big = b"x" * 100_000
    cluster.send(TOPIC, [b"small"] * 3)
    source = opened()
    drain(source, 2)
    positions = source.positions()
    # The mock keeps five megabytes of a partition.
    cluster.send(TOPIC, [big] * 100)
    later = opened()
    later.seek(positions)
    lines = drain(later)
    first = lines[0].offset
    assert 2 < first < 103
    assert [line.offset for line in lines] == list(range(first, 103))
    [loss] = later.losses()
    assert loss[:4] == ("app", "app/0", 2, 0)
    assert loss.message == (
        f"messages 2 to {first - 1} of app/0 were removed unread; going on at {first}"
    )
    assert later.losses() == []


def test_a_topic_made_anew_is_told_and_read_from_its_beginning(cluster, opened):
    cluster.send(TOPIC, texts(3))
    source = opened()
    source.seek({"kafka:app": {"0": 500, "1": 0, "2": 0, "3": 0}})
    assert [line.offset for line in drain(source)] == [0, 1, 2]
    [loss] = source.losses()
    assert loss.message == (
        "app/0 has no message 500 any more: it was made anew, or lost its end; going on at 0"
    )


def test_a_wrong_address_is_refused_within_seconds():
    pytest.importorskip("confluent_kafka")
    began = time.monotonic()
    message = r"no broker at 127.0.0.1:1 answered within 5 s \(.*refused.*\); give HOST:PORT"
    with pytest.raises(BrokerError, match=message):
        KafkaSource(Broker("127.0.0.1:1"), TOPIC)
    assert time.monotonic() - began < 10


def test_what_is_not_there_is_refused(cluster, opened):
    with pytest.raises(BrokerError, match=r"no topic 'app' at 127.0.0.1:\d+; make it first"):
        opened()
    cluster.send(TOPIC, [b"x"])
    with pytest.raises(ParameterError, match=r"'app' has no partition 7, only \[0, 1, 2, 3\]"):
        opened(partitions=[0, 7])
    with pytest.raises(ParameterError, match="read_from='middle'; give 'beginning' or 'end'"):
        opened(read_from="middle")
    with pytest.raises(BrokerError, match="cannot be asked: No such configuration property"):
        KafkaSource(Broker(cluster.servers, settings={"no.such": "1"}), TOPIC)


def test_an_outage_is_told_once_and_waited_out(cluster, opened):
    cluster.send(TOPIC, texts(3))
    told = []
    source = opened(told.append, follow=True)
    drain(source, 3)
    cluster.stop()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert not source.wait(0.1)
    assert source.positions()["kafka:app"]["0"] == 3
    assert told == [f"no broker at {cluster.servers} answers; trying on"]


def test_offsets_that_cannot_be_written_are_told_once_and_hold_nothing_up(cluster, opened):
    cluster.send(TOPIC, texts(3))
    told = []
    source = opened(told.append, follow=True)
    drain(source, 3)
    source.commit()
    cluster.stop()
    source.commit()
    time.sleep(3.5)
    source.commit()
    began = time.monotonic()
    source.close()
    assert time.monotonic() - began < 5
    [failure] = [message for message in told if message.startswith("the offsets of group")]
    assert "group 'tsmamba' were not written (" in failure


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingExtraError, match=r'pip install "tsmamba\[kafka\]"'):
        Broker("localhost:9092")
