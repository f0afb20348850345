import itertools

import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.sources import LinesSource


def test_text_and_bytes_with_and_without_line_ends_are_lines():
    source = LinesSource(["ü\n", b"two\r\n", "three", ""])
    lines = source.read(10)
    assert [line.text for line in lines] == ["ü".encode(), b"two", b"three", b""]
    assert [line.offset for line in lines] == [0, 3, 8, 14]
    assert [line.number for line in lines] == [1, 2, 3, 4]
    assert source.done
    assert source.read(0) == []
    assert source.done


def test_a_generator_is_read_no_further_than_asked():
    numbers = itertools.count()
    source = LinesSource(str(number) for number in numbers)
    assert [line.text for line in source.read(2)] == [b"0", b"1"]
    assert next(numbers) == 2
    assert source.wait(0)


def test_a_position_skips_what_was_given():
    lines = ["a", "b", "c", "d"]
    first = LinesSource(lines)
    first.read(3)
    later = LinesSource(lines)
    later.seek(first.positions())
    assert later.read(10) == LinesSource(lines).read(10)[3:]


def test_what_is_no_list_of_lines_is_refused():
    with pytest.raises(ParameterError, match=r"lines is one text; .*text.splitlines\(\)"):
        LinesSource("one\ntwo")
    with pytest.raises(ParameterError, match="line 2 of 'lines' is a int; give text or bytes"):
        LinesSource(["a", 1]).read(10)
