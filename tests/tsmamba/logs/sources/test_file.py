import gzip
import json
import os
import threading
import time
from pathlib import Path

import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.sources import FileSource
from tsmamba.logs.sources.buffered import BLOCK
from tsmamba.logs.sources.splitter import Splitter


@pytest.fixture
def path(tmp_path):
    return tmp_path / "app.log"


def read_all(source):
    lines = []
    while not source.done:
        lines += source.read(1_000)
    return lines


def test_a_file_of_many_blocks_is_read_whole(path):
    log = b"".join(b"%07d some message of a service\n" % n for n in range(40_000))
    assert len(log) > 5 * BLOCK
    path.write_bytes(log)
    source = FileSource(path)
    lines = read_all(source)
    assert b"".join(line.text + b"\n" for line in lines) == log
    assert {line.source for line in lines} == {str(path)}
    assert len({line.stream for line in lines}) == 1
    assert all(log[line.offset : line.end] == line.text + b"\n" for line in lines)
    source.close()


def test_lines_are_what_they_are(path):
    path.write_bytes(b"nul \0 byte\r\n\n\xff\xfe\nno end")
    source = FileSource(path)
    assert [line.text for line in read_all(source)] == [b"nul \0 byte", b"", b"\xff\xfe", b"no end"]
    source.close()


def test_an_empty_file_is_done_at_once(path):
    path.write_bytes(b"")
    source = FileSource(path)
    assert source.read(10) == []
    assert source.done
    source.close()


def test_the_unfinished_last_line_of_a_followed_file_is_awaited(path):
    path.write_bytes(b"one\ntw")
    source = FileSource(path, follow=True)
    assert [line.text for line in source.read(10)] == [b"one"]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert [(line.text, line.offset) for line in source.read(10)] == [(b"two", 4)]
    assert not source.done
    source.close()


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("step", [1, 3, 1_000])
def test_a_position_goes_on_from_every_line(path, follow, step):
    path.write_bytes(b"".join(b"line %d\r\n\n" % n for n in range(20)))
    whole = FileSource(path, follow=follow)
    lines = whole.read(1_000)
    given, position = [], {}
    while len(given) < len(lines):
        source = FileSource(path, follow=follow)
        source.seek(json.loads(json.dumps(position)))
        given += source.read(step)
        position = source.positions()
        source.close()
    assert given == lines
    whole.close()


def test_what_was_read_ahead_is_not_in_the_position(path):
    path.write_bytes(b"one\ntwo\nthree\n")
    source = FileSource(path)
    source.wait(0)
    for number in (1, 2, 3):
        later = FileSource(path)
        later.seek(source.positions())
        assert later.read(1) == source.read(1)
        assert source.positions()[str(path)]["number"] == number
        later.close()
    source.close()


def test_a_file_can_be_read_from_its_end(path):
    path.write_bytes(b"old 1\nold 2\nunfin")
    source = FileSource(path, follow=True, read_from="end")
    assert source.read(10) == []
    position = source.positions()
    with path.open("ab") as file:
        file.write(b"ished\nnew\n")
    lines = source.read(10)
    assert [(line.text, line.number, line.offset) for line in lines] == [
        (b"unfinished", 1, 12),
        (b"new", 2, 23),
    ]
    later = FileSource(path, follow=True, read_from="end")
    later.seek(position)
    assert later.read(10) == lines
    whole = FileSource(path)
    assert whole.read(9)[3].stream == lines[1].stream
    for each in (source, later, whole):
        each.close()


def test_a_file_that_comes_later_is_read_from_its_start(path):
    source = FileSource(path, follow=True, read_from="end")
    assert source.read(10) == []
    assert not source.wait(0.03)
    position = source.positions()
    path.write_bytes(b"one\n")
    assert source.wait(10)
    later = FileSource(path, follow=True, read_from="end")
    later.seek(position)
    assert [line.text for line in source.read(10)] == [b"one"]
    assert [line.text for line in later.read(10)] == [b"one"]
    assert source.losses() == later.losses() == []
    source.close()
    later.close()


def test_a_compressed_file_is_read_by_the_offsets_of_what_it_holds(path):
    log = b"".join(b"line %d\n" % n for n in range(50_000))
    path.write_bytes(log)
    packed = path.with_name("old.gz")
    # Two members, as `cat a.gz b.gz` makes them.
    packed.write_bytes(gzip.compress(log[:100_000]) + gzip.compress(log[100_000:]))
    plain, source = FileSource(path), FileSource(packed)
    lines = read_all(source)
    assert [line[2:] for line in lines] == [line[2:] for line in read_all(plain)]
    half = FileSource(packed)
    half.read(20_000)
    later = FileSource(packed)
    later.seek(half.positions())
    given = len(lines) - len(read_all(later))
    assert lines[given - 1].end == half.positions()[str(packed)]["offset"]
    for each in (plain, source, half, later):
        each.close()


def test_a_damaged_compressed_file_tells_what_is_lost(path):
    log = b"".join(b"line %d %d\n" % (n, n * n) for n in range(20_000))
    packed = gzip.compress(log)
    path.write_bytes(packed[: len(packed) // 2])
    source = FileSource(path)
    lines = read_all(source)
    assert b"".join(line.text + b"\n" for line in lines) == log[: lines[-1].end]
    assert len(lines) > 5_000
    (loss,) = source.losses()
    assert loss.offset == lines[-1].end
    assert "the file is damaged (Compressed file ended" in loss.message
    assert source.losses() == []
    source.close()


def test_a_line_too_long_is_told(path, monkeypatch):
    monkeypatch.setitem(Splitter.__init__.__kwdefaults__, "limit", 5)
    path.write_bytes(b"a\n1234567890\nb\n")
    source = FileSource(path)
    assert [line.text for line in source.read(10)] == [b"a", b"12345", b"b"]
    (loss,) = source.losses()
    assert (loss.offset, loss.n_bytes) == (8, 5)
    assert "line 2 of" in loss.message
    assert "longer than 5 bytes: the other 5 were left out" in loss.message
    source.close()


def test_following_brings_a_line_within_moments_and_sleeps_meanwhile(path):
    path.write_bytes(b"")
    source = FileSource(path, follow=True)
    late = []

    def write():
        with path.open("ab", buffering=0) as file:
            for _ in range(30):
                time.sleep(0.02)
                file.write(b"%d\n" % time.monotonic_ns())

    writer = threading.Thread(target=write)
    worked = time.process_time()
    writer.start()
    while len(late) < 30:
        assert source.wait(10)
        late += [time.monotonic_ns() - int(line.text) for line in source.read(10)]
    writer.join()
    assert sorted(late)[7] < 20e6  # Most are; a busy machine adds to some.
    assert time.process_time() - worked < 0.3
    source.close()


def test_no_descriptor_stays_open(path):
    path.write_bytes(b"one\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for follow in (False, True):
        source = FileSource(path, follow=follow)
        source.read(10)
        source.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_paths_are_checked(path, tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match=r"there is no file .*app.log'; check the path, or"):
        FileSource(path)
    with pytest.raises(ParameterError, match=r"is a folder; name the files in it: .*/\*.log"):
        FileSource(tmp_path)
    with pytest.raises(ParameterError, match="is no regular file; pipe it"):
        FileSource("/dev/null")
    with pytest.raises(ParameterError, match='read_from is \'middle\'; give "beginning" or "end"'):
        FileSource(path, read_from="middle")
    path.write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(ParameterError, match="is compressed and will not grow; read it from"):
        FileSource(path, follow=True)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ParameterError, match=r"cannot be read .Permission denied.; give this user"):
        FileSource(path)
