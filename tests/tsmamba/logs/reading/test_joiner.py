import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.reading import Joiner, LineParser
from tsmamba.logs.record import Line

PYTHON = """2026-01-02 03:04:05 ERROR it failed
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
OwnTrouble: no x"""
JAVA = """2026-01-02 03:04:05,678 ERROR [main] a.B - it failed
java.lang.IllegalStateException: no x
\tat a.B.run(B.java:7)
\t... 12 more
Caused by: java.io.IOException: gone
\tat a.C.read(C.java:9)
\tSuppressed: x"""
GO = """panic: no x

goroutine 1 [running]:
main.run(0x1)
\t/src/main.go:7 +0x1d
created by main.main
\t/src/main.go:3 +0x2a"""
JAVASCRIPT = """Error: no x
    at run (/src/a.js:1:2)
    at Object.<anonymous> (/src/a.js:9:1)"""
OBJECT = """answer is {
  "a": 1
}"""


def lines(text, stream="s", start=0):
    offset = start
    for number, one in enumerate(text.encode().split(b"\n"), start=1):
        yield Line("app.log", stream, number, offset, offset + len(one) + 1, one)
        offset += len(one) + 1


def join(joiner, given):
    whole = [joiner.push(line) for line in given]
    while (line := joiner.flush()) is not None:
        whole.append(line)
    return [line for line in whole if line is not None]


@pytest.mark.parametrize("trace", [PYTHON, JAVA, GO, JAVASCRIPT, OBJECT])
def test_a_trace_is_one_line_with_the_place_of_all_of_it(trace):
    text = f"2026-01-02 03:04:05 INFO before\n{trace}\n2026-01-02 03:04:06 INFO after"
    before, joined, after = join(Joiner(), lines(text))
    given = list(lines(text))
    assert joined.text.decode() == trace
    assert (joined.number, joined.offset, joined.end) == (2, given[1].offset, given[-1].offset)
    assert (before, after) == (given[0], given[-1])


def test_a_joined_trace_is_one_record():
    (joined,) = join(Joiner(), lines(JAVA))
    record = LineParser("raw").parse(joined.text)
    assert record.severity == "ERROR"
    assert record.body.startswith("a.B - it failed\njava.lang.IllegalStateException: no x\n\tat ")


def test_plain_lines_and_names_of_errors_stand_alone():
    text = "one\ntwo\nError: three\nValueError: four\nat five\nfoo.bar: six"
    assert join(Joiner(), lines(text)) == list(lines(text))


def test_where_every_line_is_indented_each_stands_alone():
    text = "  one\n  two\n  three"
    assert join(Joiner(), lines(text)) == list(lines(text))


def test_a_pattern_begins_a_record():
    text = "#1 a\nb\nc\n#2 d\n#3 e\n  f"
    joined = join(Joiner(r"#\d"), lines(text))
    assert [line.text for line in joined] == [b"#1 a\nb\nc", b"#2 d", b"#3 e\n  f"]


def test_without_a_pattern_nothing_is_joined():
    assert join(Joiner(None), lines(JAVA)) == list(lines(JAVA))


def test_streams_do_not_mix():
    joiner = Joiner()
    one, two = lines("a\n  b\nc", "one"), lines("d\n  e\nf", "two")
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    assert sorted(line.text for line in join(joiner, mixed)) == [b"a\n  b", b"c", b"d\n  e", b"f"]


def test_flush_takes_one_stream_or_the_oldest():
    joiner = Joiner()
    for stream in "xyz":
        joiner.push(Line(stream, stream, 1, 0, 2, stream.encode()))
    assert joiner.flush("y").text == b"y"
    assert joiner.flush("y") is None
    assert [joiner.flush().text, joiner.flush().text, joiner.flush()] == [b"x", b"z", None]


def test_records_are_bounded_in_lines_and_bytes_and_nothing_is_lost():
    text = "a" + "\n  b" * 10
    for joiner in (Joiner(max_lines=4), Joiner(max_lines=4, max_bytes=256)):
        joined = join(joiner, lines(text))
        assert max(line.text.count(b"\n") for line in joined) == 3
        assert b"\n".join(line.text for line in joined).decode() == text
        assert [a.end for a in joined[:-1]] == [b.offset for b in joined[1:]]
        assert joiner.lines_over_limit == 2
    long = "a" + "\n  " + "\n  ".join(["b" * 100] * 10)
    joined = join(Joiner(max_bytes=256), lines(long))
    assert max(len(line.text) for line in joined) <= 256
    assert b"\n".join(line.text for line in joined).decode() == long


def test_parts_and_traces_inside_frames_of_cri_are_joined():
    stamp = "2026-01-02T03:04:05.1Z"
    text = "\n".join(
        [f"{stamp} stdout P one ", f"{stamp} stdout P two ", f"{stamp} stdout F three",
         f"{stamp} stderr F failed", f"{stamp} stderr F \tat x", f"{stamp} stdout F   indented"]
    )  # fmt: skip
    joined = join(Joiner(), lines(text))
    bodies = [LineParser("cri").parse(line.text).body for line in joined]
    assert bodies == ["one two three", "failed\n\tat x", "indented"]
    assert len(join(Joiner(None), lines(text))) == 4


def test_parts_and_traces_inside_frames_of_docker_are_joined():
    texts = ["one ", "two\\n", "failed\\n", "\\tat x\\n", "done\\n", "a \\\\n", "b\\n"]
    text = "\n".join(
        f'{{"log":"{t}","stream":"stdout","time":"2026-01-02T03:04:05Z"}}' for t in texts
    )
    joined = join(Joiner(), lines(text))
    bodies = [LineParser("docker").parse(line.text).body for line in joined]
    assert bodies == ["one two", "failed\n\tat x", "done", "a \\nb"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": 3}, "no regular expression"),
        ({"max_lines": 1}, "max_lines=1"),
        ({"max_bytes": 2.5}, "max_bytes=2.5"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Joiner(**arguments)
