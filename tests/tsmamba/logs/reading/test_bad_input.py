import random

import pytest

from tsmamba.logs.reading import Joiner, LineParser
from tsmamba.logs.record import Line, LogRecord

FORMATS = ["auto", "raw", "json", "logfmt", "syslog", "cri", "docker", "otlp"]
PIECES = [
    b"2026-01-02T03:04:05.678Z", b"Jan  2 03:04:05", b"<34>1 ", b"<999>", b"{", b"}", b'"', b"[",
    b"]", b"=", b":", b"\\", b"\n", b"\t", b" ", b"\0", b"\xff", b"\xc3\xa9", b"\x1b[31m", b"INFO",
    b"error", b"stdout F ", b"stderr P ", b'{"log":"x\\n","stream":"stdout","time":"x"}', b'"msg":',
    b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}, 3]}]}]}', b'{"body":{"arrayValue":3}}',
    b'"body":{"kvlistValue":{"values":[{}]}}', b"1700000000", b"9" * 30, b"NaN", b"-", b"|", b"a=b",
    b'"time":', b"null", b"Caused by: ", b"at x", b"\xd9\xa3", b"\xef\xbb\xbf",
]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_no_bytes_make_a_parser_raise(format):
    draw = random.Random(7)
    parser = LineParser(format)
    for _ in range(1_000):
        line = b"".join(draw.choices(PIECES, k=draw.randrange(12))) + draw.randbytes(
            draw.randrange(6)
        )
        for record in parser.parse_all(line):
            assert isinstance(record, LogRecord)
            assert isinstance(record.body, str)
            assert record.time is None or 0 <= record.time < 2**63
            assert all(isinstance(value, str) for value in record.fields.values())
        assert isinstance(parser.parse(line), LogRecord)
    assert parser.lines == 2_000
    assert 0 < parser.lines_unparsed <= parser.lines


def test_no_bytes_make_a_joiner_raise_and_none_are_lost():
    draw = random.Random(8)
    joiner = Joiner(max_lines=5)
    pushed, given = [], []
    for number in range(3_000):
        text = b"".join(draw.choices(PIECES, k=draw.randrange(5))).replace(b"\n", b"")
        pushed.append(text)
        given.append(joiner.push(Line("a", "s", number, 0, number, text)))
    given.append(joiner.flush())
    texts = b"\n".join(line.text for line in given if line is not None).split(b"\n")
    assert [text for text in texts if text] == [text for text in pushed if text]


def test_bytes_that_are_no_utf_8_are_replaced_and_counted():
    parser = LineParser("raw")
    assert parser.parse(b"2026-01-02 03:04:05 caf\xe9").body == "caf\ufffd"
    assert parser.unparsed == {"not UTF-8": 1}


def test_a_long_line_is_cut_between_characters_and_counted():
    parser = LineParser("raw", max_bytes=256)
    body = parser.parse(b"2026-01-02 03:04:05 x" + "é".encode() * 5_000_000).body
    assert body == "x" + "é" * 117
    assert parser.unparsed == {"too long": 1}


def test_zero_bytes_colours_and_byte_order_marks_are_taken_out():
    line = b"\0\0\xef\xbb\xbf2026-01-02 03:04:05 \x1b[32mINFO\x1b[0m all\0 good\r"
    parser = LineParser("raw")
    record = parser.parse(line)
    assert (record.severity, record.body) == ("INFO", "all good")
    assert parser.lines_unparsed == 0


@pytest.mark.parametrize("line", [b"", b"   ", b"\0\0", b"\r"])
def test_an_empty_line_is_an_empty_record_and_counted(line):
    parser = LineParser()
    assert parser.parse(line) == LogRecord("")
    assert parser.unparsed == {"empty": 1}


def test_deep_and_wide_objects_are_read_or_counted():
    parser = LineParser("json")
    assert parser.parse(b'{"a":' * 100_000).time is None
    assert parser.unparsed["not json"] == 1
    deep = b'{"a":' * 200 + b"1" + b"}" * 200
    assert parser.parse(deep[:-1] + b',"msg":"x"}').body == "x"


def test_memory_stays_bounded_when_every_line_is_new():
    parser = LineParser("raw")
    draw = random.Random(9)
    letters = "abcdefghijklmnopqrstuvwxyz"
    for number in range(9_000):
        word = "".join(draw.choices(letters, k=8))
        second = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}"
        parser.parse(f"2026-01-02 {second} {word.upper()} {word} x".encode())
    reader = parser._chooser._readers["raw"]
    assert len(reader._layouts._layouts) <= 4_096
    assert len(reader._clock._cache) <= 4_096
