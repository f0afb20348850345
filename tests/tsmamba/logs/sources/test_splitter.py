from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsmamba.logs.sources.splitter import Splitter

LOG = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\0", b"word "]), max_size=40).map(
    b"".join
)
# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lines_of(blocks, limit=1_000):
    splitter = Splitter("app.log", "s", limit=limit)
    lines = [line for block in blocks for line in splitter.feed(block)]
    return [*lines, *splitter.finish()], splitter


@UNHURRIED
@given(LOG)
def test_lines_lie_end_to_end_and_hold_every_byte(log):
    lines, splitter = lines_of([log])
    assert [line.offset for line in lines] == [0, *(line.end for line in lines)][: len(lines)]
    assert splitter.offset == len(log)
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    for line in lines:
        assert log[line.offset : line.end] in {line.text + end for end in (b"\n", b"\r\n", b"")}
        assert b"\n" not in line.text


@UNHURRIED
@given(LOG, st.lists(st.integers(0, 80)), st.integers(1, 9))
def test_where_blocks_end_changes_nothing(log, cuts, limit):
    places = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    blocks = [log[start:end] for start, end in pairwise(places)]
    whole, in_one = lines_of([log], limit)
    parts, in_many = lines_of(blocks, limit)
    assert parts == whole
    assert in_many.cuts == in_one.cuts


@UNHURRIED
@given(LOG, st.integers(0, 40))
def test_a_splitter_goes_on_from_any_line(log, start):
    whole, _ = lines_of([log])
    start = min(start, len(whole))
    offset = whole[start - 1].end if start else 0
    splitter = Splitter("app.log", "s", number=start, offset=offset)
    assert [*splitter.feed(log[offset:]), *splitter.finish()] == whole[start:]


def test_a_long_line_is_cut_and_the_rest_counted():
    lines, splitter = lines_of([b"ab\n12345", b"6789", b"0\nc\n"], limit=4)
    assert [(line.text, line.offset, line.end) for line in lines] == [
        (b"ab", 0, 3),
        (b"1234", 3, 14),
        (b"c", 14, 16),
    ]
    assert splitter.cuts == [(lines[1], 6)]


def test_a_long_line_without_an_end_is_cut_too():
    lines, splitter = lines_of([b"1234", b"5678"], limit=3)
    assert [(line.text, line.end) for line in lines] == [(b"123", 8)]
    assert splitter.cuts == [(lines[0], 5)]


def test_bytes_that_wait_are_counted():
    splitter = Splitter("app.log", limit=3)
    splitter.feed(b"one\n12345")
    assert splitter.pending == 5
