import os

import pytest

from tsmamba.errors import ParameterError
from tsmamba.logs.sources import FileSource, LinesSource, MultiSource, open_sources


def texts(lines):
    return [line.text for line in lines]


def test_a_busy_source_leaves_room_for_the_others():
    busy = LinesSource([f"busy {n}" for n in range(1_000)], "busy")
    both = MultiSource([busy, LinesSource(["quiet 1", "quiet 2"], "quiet")])
    assert texts(both.read(4)).count(b"quiet 1") == 1
    assert len(both.read(100)) == 100


def test_more_sources_than_lines_asked_for_come_one_after_the_other():
    many = MultiSource([LinesSource([str(n)] * 10, str(n)) for n in range(5)])
    assert texts(many.read(2) + many.read(2) + many.read(1)) != [b"0"] * 5
    assert {line.source for _ in range(5) for line in many.read(2)} == set("01234")


def test_everything_is_given_once_and_in_the_order_of_its_source():
    many = MultiSource([LinesSource([f"{n}"] * n, str(n)) for n in range(1, 30)])
    lines = []
    while not many.done:
        lines += many.read(7)
    for n in range(1, 30):
        numbers = [line.number for line in lines if line.source == str(n)]
        assert numbers == list(range(1, n + 1))


def test_a_position_is_kept_while_its_source_is_not_read(tmp_path):
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    for path in paths:
        path.write_text("one\ntwo\n")
    both = open_sources(paths)
    both.read(2)
    position = both.positions()
    both.close()
    alone = open_sources(paths[:1])
    alone.seek(position)
    assert texts(alone.read(10)) == [b"two"]
    again = open_sources(paths)
    again.seek(alone.positions())
    assert texts(again.read(10)) == [b"two"]
    assert again.read(1) == []
    assert again.done
    alone.close()
    again.close()


def test_waiting_ends_with_the_first_line_of_any(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("")
    both = open_sources([path, tmp_path / "later.log"], follow=True)
    assert not both.wait(0.03)
    (tmp_path / "later.log").write_text("one\n")
    assert both.wait(10)
    assert texts(both.read(9)) == [b"one"]
    both.close()


def test_losses_of_all_are_told_once(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("one\ntwo\n")
    both = MultiSource([LinesSource([]), FileSource(path, follow=True)])
    both.read(10)
    path.write_text("three\n")
    both.read(10)
    assert [loss.source for loss in both.losses()] == [str(path)]
    assert both.losses() == []
    both.close()


def test_a_named_pipe_is_read_as_standard_input_is(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    keep = os.open(path, os.O_RDWR)
    os.write(keep, b"one\n")
    source = open_sources([path])
    assert source.wait(1)
    assert texts(source.read(1)) == [b"one"]
    os.close(keep)
    assert source.read(1) == []
    assert source.done
    source.close()


def test_names_are_checked(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("")
    with pytest.raises(ParameterError, match=r"app.log' is given twice; give each once"):
        open_sources([path, path])
    with pytest.raises(ParameterError, match="there is no source; give a file"):
        MultiSource([])
