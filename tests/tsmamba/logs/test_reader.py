import json

import pytest

from tsmamba.logs.reader import Reader
from tsmamba.logs.record import Line
from tsmamba.logs.settings import LogSettings

TRACE = """2026-03-01 10:00:00 ERROR failed
Traceback (most recent call last):
  File "a.py", line 1, in f
ValueError: no"""


def lines_of(texts, source="app.log", stream="f1"):
    found, offset = [], 0
    for number, text in enumerate(texts, start=1):
        data = text if isinstance(text, bytes) else text.encode()
        found.append(Line(source, stream, number, offset, offset + len(data) + 1, data))
        offset += len(data) + 1
    return found


def bodies(records):
    return [record.body for _, record in records]


def restored(reader, settings):
    return Reader.from_dict(settings, json.loads(json.dumps(reader.to_dict())))


def test_a_trace_is_one_record_at_the_place_of_its_first_line():
    reader = Reader(LogSettings())
    lines = lines_of([*TRACE.split("\n"), "2026-03-01 10:00:01 INFO ready"])
    ((line, record),) = reader.read(lines)
    assert (line.number, line.offset, line.end) == (1, 0, lines[3].end)
    assert record.severity == "ERROR"
    assert record.body.startswith("failed\nTraceback")
    assert record.body.endswith("ValueError: no")
    assert bodies(reader.flush()) == ["ready"]
    assert reader.flush() == []
    assert reader.lines == 2


def test_lines_stay_by_themselves_if_told_so():
    reader = Reader(LogSettings(multiline=None))
    assert len(reader.read(lines_of(TRACE.split("\n")))) == 4
    assert reader.flush() == []


def test_a_new_file_of_a_source_ends_the_record_of_the_old_one():
    """However long the last line of the old file waits, it comes before those of the new one."""
    old, new = lines_of(["one", "two"], stream="f1"), lines_of(["three", "four"], stream="f2")
    at_once, waited = Reader(LogSettings()), Reader(LogSettings())
    expected = ["one", "two", "three", "four"]
    assert bodies(at_once.read([*old, *new]) + at_once.flush()) == expected
    found = waited.read(old) + waited.flush() + waited.read(new) + waited.flush()
    assert bodies(found) == expected
    cut = Reader(LogSettings())
    found = cut.read(old)
    cut = restored(cut, LogSettings())
    assert bodies(found + cut.read(new) + cut.flush()) == expected


def test_sources_do_not_mix():
    reader = Reader(LogSettings())
    one = lines_of(['{"msg": "a"}', '{"msg": "b"}'], "one", "1")
    two = lines_of(["level=info msg=x", " y"], "two", "2")
    found = reader.read([one[0], two[0], one[1], two[1]]) + reader.flush()
    assert sorted(bodies(found)) == ["a", "b", "x"] or len(found) == 3
    assert reader.lines == 3


def test_what_is_amiss_is_counted_over_all_sources():
    reader = Reader(LogSettings(multiline=None))
    stamp = b"2026-03-01 10:00:00 INFO "
    reader.read(lines_of([stamp + b"ok", stamp + b"\xff\xfe", b""], "one", "1"))
    reader.read(lines_of([b"\x00\x01\xff no time"], "two", "2"))
    assert reader.lines == 4
    assert reader.lines_unparsed == 3
    assert reader.unparsed["not UTF-8"] == 2
    assert reader.unparsed["empty"] == 1


LOGS = {
    "raw": [f"2026-03-01 10:00:{i % 60:02d} INFO request {i} took {i * 3} ms" for i in range(60)],
    "json": [json.dumps({"ts": 1_770_000_000 + i, "msg": f"job {i}"}) for i in range(60)],
    "logfmt": [f'ts=2026-03-01T10:00:{i:02d}Z level=info msg="job {i}"' for i in range(60)],
    "syslog": [
        f"{'Dec 31 23' if i < 30 else 'Jan  1 00'}:00:{i:02d} host app[7]: job {i}"
        for i in range(60)
    ],
    "traces": [part for i in range(20) for part in TRACE.replace("no", str(i)).split("\n")],
    "binary": [bytes([i, 255, 0, 200, i]) * 3 for i in range(60)],
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("multiline", ["auto", None])
def test_a_saved_reader_goes_on_as_if_nothing_had_happened(name, multiline):
    settings = LogSettings(multiline=multiline)
    lines = lines_of(LOGS[name])
    whole = Reader(settings, {"app.log": 1_767_300_000 * 10**9})
    expected = whole.read(lines) + whole.flush()
    for cut in (1, 7, 19, 20, 21, 30, 31, 45):
        reader = Reader(settings, {"app.log": 1_767_300_000 * 10**9})
        found = reader.read(lines[:cut])
        reader = restored(reader, settings)
        found += reader.read(lines[cut:]) + reader.flush()
        assert found == expected, cut
        assert reader.to_dict() == whole.to_dict()


@pytest.mark.parametrize("name", LOGS)
def test_one_by_one_is_all_at_once(name):
    lines = lines_of(LOGS[name])
    whole, single = Reader(LogSettings()), Reader(LogSettings())
    found = [record for line in lines for record in single.read([line])]
    assert found + single.flush() == whole.read(lines) + whole.flush()
    assert single.to_dict() == whole.to_dict()
