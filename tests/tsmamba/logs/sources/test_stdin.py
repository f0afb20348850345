import os
import threading
import time

import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.sources import StdinSource


@pytest.fixture
def pipe():
    out, into = os.pipe()
    ends = [os.fdopen(out, "rb", buffering=0), os.fdopen(into, "wb", buffering=0)]
    yield ends
    for end in ends:
        end.close()


def test_lines_come_as_they_are_written_and_the_rest_at_the_end(pipe):
    out, into = pipe
    source = StdinSource(out.fileno())
    assert source.read(10) == []
    into.write(b"one\ntwo\r\nth")
    assert [(line.text, line.end) for line in source.read(10)] == [(b"one", 4), (b"two", 9)]
    assert source.read(10) == []
    assert not source.done
    into.write(b"ree")
    into.close()
    while not source.done:
        lines = source.read(10)
    assert [(line.text, line.number, line.offset, line.end) for line in lines] == [
        (b"three", 3, 9, 14)
    ]
    source.close()


def test_no_more_lines_are_given_than_asked_for(pipe):
    out, into = pipe
    source = StdinSource(out.fileno())
    into.write(b"a\nb\nc\n")
    into.close()
    assert [line.text for line in source.read(2)] == [b"a", b"b"]
    assert source.positions() == {"-": {"number": 2, "offset": 4}}
    assert source.wait(0)
    assert [line.text for line in source.read(2)] == [b"c"]
    source.close()


def test_waiting_sleeps_until_a_line_comes(pipe):
    out, into = pipe
    source = StdinSource(out.fileno())
    worked = time.process_time()
    assert not source.wait(0.2)
    assert time.process_time() - worked < 0.1

    def write():
        time.sleep(0.1)
        into.write(b"%d\n" % time.monotonic_ns())

    writer = threading.Thread(target=write)
    writer.start()
    assert source.wait(10)
    late = time.monotonic_ns() - int(source.read(1)[0].text)
    writer.join()
    assert late < 1e9
    source.close()


def test_two_runs_have_streams_of_their_own(pipe):
    out, into = pipe
    source = StdinSource(out.fileno())
    into.write(b"one\n")
    first = source.read(1)
    later = StdinSource(out.fileno())
    later.seek(source.positions())
    into.write(b"two\n")
    second = later.read(1)
    assert [(line.number, line.offset) for line in second] == [(2, 4)]
    assert first[0].stream != second[0].stream
    source.close()
    later.close()


def test_a_file_in_place_of_a_pipe_is_read_too(tmp_path):
    path = tmp_path / "app.log"
    path.write_bytes(b"one\ntwo\n")
    with path.open("rb") as file:
        source = StdinSource(file.fileno())
        assert source.wait(1)
        assert [line.text for line in source.read(10)] == [b"one", b"two"]
        source.close()


def test_what_cannot_be_read_is_refused(pipe, tmp_path):
    out, _ = pipe
    fd = os.open(tmp_path, os.O_RDONLY)
    source = StdinSource(fd)
    with pytest.raises(ParameterError, match=r"standard input cannot be read .Is a directory."):
        source.read(1)
    source.close()
    os.close(fd)
    fd = os.dup(out.fileno())
    os.close(fd)
    with pytest.raises(ParameterError, match="standard input is not open; pipe a log"):
        StdinSource(fd)
