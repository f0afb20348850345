"""What happens to files while they are read, and while nobody reads them."""

import json
import os
import shutil

import pytest

from tsmamba.logs.sources import FileSource


@pytest.fixture
def follow(log):
    """Return a function that follows the log, perhaps from a position."""
    opened = []

    def start(position=None, **options):
        source = FileSource(log.path, **{"follow": True, **options})
        source.seek(json.loads(json.dumps(position or {})))
        opened.append(source)
        return source

    yield start
    for source in opened:
        source.close()


def drain(source):
    lines = []
    while part := source.read(2):
        lines += part
    return lines


def texts(lines):
    return [line.text.decode() for line in lines]


ROTATIONS = ["rename", "copy"]


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_a_rotation_loses_nothing_and_starts_a_stream(log, follow, rotate):
    log.write()
    source = follow()
    before = drain(source)
    log.write()
    getattr(log, rotate)()
    between = drain(source)
    log.write()
    after = drain(source)
    assert texts(before + between + after) == log.written
    assert {line.stream for line in between} == {before[0].stream}
    assert {line.stream for line in after}.isdisjoint({before[0].stream})
    assert (after[0].number, after[0].offset) == (1, 0)
    assert source.losses() == []


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("missed", [1, 2, 3])
@pytest.mark.parametrize("rotate", ROTATIONS)
def test_rotations_missed_while_away_are_walked_in_order(log, follow, rotate, missed, compress):
    log.write(5)
    source = follow()
    given = source.read(2)
    position = source.positions()
    rest = drain(source)
    for _ in range(missed):
        log.write(4)
        getattr(log, rotate)()
        if compress:
            log.compress()
        log.write(3)
    later = follow(position)
    lines = drain(later)
    assert texts(given + lines) == log.written
    # What both gave has the same name in both.
    assert lines[: len(rest)] == rest
    assert len({line.stream for line in lines}) == missed + 1
    assert later.losses() == []


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_every_cut_of_a_run_gives_the_same_lines(log, follow, rotate):
    """One reader is never stopped; one is stopped after each read, wherever the rotations fall."""
    steady, position, stopped, unstopped = follow(), {}, [], []
    for turn in range(40):
        log.write(1 + turn % 3)
        if turn % 7 == 3:
            getattr(log, rotate)()
        if turn % 7 == 4:
            log.compress()
        unstopped += drain(steady)
        if turn % 5 != 2:
            reader = follow(position)
            stopped += reader.read(1 + turn % 4)
            position = reader.positions()
            reader.close()
    stopped += drain(follow(position))
    assert texts(unstopped) == texts(stopped) == log.written
    if rotate == "rename":
        assert [line[1:] for line in stopped] == [line[1:] for line in unstopped]
    assert len({(line.stream, line.offset) for line in stopped}) == len(stopped)


def test_a_file_that_was_cut_and_has_grown_beyond_the_old_place_is_noticed(log, follow):
    log.write(3)
    source = follow()
    drain(source)
    log.copy()
    log.write(300)
    assert texts(drain(source)) == log.written[3:]
    position = source.positions()
    log.copy()
    log.write(3_000)
    assert texts(drain(follow(position))) == log.written[303:]
    assert source.losses() == []


def test_a_log_that_is_copied_and_not_yet_cut_is_not_read_twice(log, follow):
    log.write(3)
    source = follow()
    lines = source.read(1)
    log.rename()
    log.write(3)
    log.shift()
    shutil.copy(log.path, log.name(1))
    later = follow(source.positions())
    lines += drain(later)
    log.write(2)
    lines += drain(later)
    log.write(2)
    shutil.copy(log.path, log.name(1))
    os.truncate(log.path, 0)
    log.write(2)
    lines += drain(later)
    assert texts(lines) == log.written
    assert len({line.stream for line in lines}) == 3
    assert later.losses() == []


def test_files_that_start_alike_have_streams_of_their_own(log, follow):
    source = follow()
    positions, lines = [source.positions()], []
    for _ in range(3):
        log.path.write_text("header\n")
        log.write(2)
        lines += drain(source)
        positions.append(source.positions())
        log.rename()
    assert len({line.stream for line in lines}) == 3
    for place, position in enumerate(positions):
        assert drain(follow(position)) == lines[3 * place :]


def test_the_old_file_is_read_until_the_new_one_has_something(log, follow):
    log.write(2)
    source = follow()
    with log.path.open("a") as old:
        lines = drain(source)
        log.rename()
        log.path.touch()
        old.write("late\n")
        old.flush()
        lines += drain(source)
        old.write("later")
    log.write(1)
    lines += drain(source)
    assert texts(lines) == ["line 0", "line 1", "late", "later", "line 2"]


def test_a_file_that_vanishes_and_comes_back_is_followed(log, follow):
    log.write(2)
    source = follow()
    lines = source.read(1)
    log.path.unlink()
    lines += drain(source)
    assert not source.done
    log.write(2)
    lines += drain(source)
    assert texts(lines) == log.written
    assert source.losses() == []


def test_a_file_moved_away_and_back_goes_on(log, follow):
    log.write(2)
    source = follow()
    lines = drain(source)
    log.path.rename(log.name("old"))
    assert drain(source) == []
    log.name("old").rename(log.path)
    log.write(2)
    lines += drain(source)
    assert texts(lines) == log.written
    assert len({line.stream for line in lines}) == 1


def test_a_link_to_another_file_is_a_rotation(log, follow, tmp_path):
    (tmp_path / "monday.txt").write_text("one\ntwo\n")
    (tmp_path / "tuesday.txt").write_text("three\n")
    log.path.symlink_to(tmp_path / "monday.txt")
    source = follow()
    lines = source.read(1)
    position = source.positions()
    log.path.unlink()
    log.path.symlink_to(tmp_path / "tuesday.txt")
    rest = drain(source)
    assert texts(lines + rest) == ["one", "two", "three"]
    assert drain(follow(position)) == rest


def test_neighbours_that_are_no_rotations_are_left_alone(log, follow):
    for name in ("app.log.lock", "app.logger", "app.log.swp", "app.log.1.bak"):
        log.path.with_name(name).write_text("other\n")
    log.write(3)
    source = follow()
    lines = source.read(1)
    position = source.positions()
    log.rename()
    log.write(3)
    for name in ("app.log.lock", "app.logger", "app.log.swp", "app.log.1.bak"):
        log.path.with_name(name).write_text("newer\n")
    assert texts(lines + drain(follow(position))) == log.written
    assert texts(lines + drain(source)) == log.written


def test_dated_rotations_are_walked_by_their_time(log, follow):
    log.write(3)
    source = follow()
    lines = source.read(1)
    for place, day in enumerate(("20261129", "20261130", "20261201")):
        target = log.path.with_name(f"app.log-{day}")
        log.path.rename(target)
        os.utime(target, (1e9 + place, 1e9 + place))
        log.write(3)
    assert texts(lines + drain(follow(source.positions()))) == log.written
    assert texts(lines + drain(source)) == log.written


def test_without_following_a_position_goes_on_through_rotations_too(log, follow):
    log.write(3)
    source = follow(follow=False)
    lines = source.read(2)
    log.rename()
    log.write(3)
    log.rename()
    log.write(3, end="")
    later = follow(source.positions(), follow=False)
    assert texts(lines + drain(later)) == log.written
    assert later.done


@pytest.mark.parametrize("lose", ["cut", "replaced", "emptied"])
def test_a_cut_without_a_copy_is_told(log, follow, lose):
    log.write(3, end="\nunfinished")
    source = follow()
    lines = drain(source)
    if lose == "emptied":
        os.truncate(log.path, 0)
    elif lose == "cut":
        os.truncate(log.path, 10)
        os.truncate(log.path, 0)
    else:
        log.path.write_text("other\n" * 100)
    after = drain(source)
    (loss,) = source.losses()
    assert (loss.stream, loss.offset, loss.n_bytes) == (lines[0].stream, 21, 10)
    assert "cut or written anew, and no copy of it" in loss.message
    assert "what followed byte 21, 10 bytes at least, is lost" in loss.message
    assert len(after) == (100 if lose == "replaced" else 0)
    log.path.write_text("again\n")
    assert texts(drain(source)) == ["again"]


@pytest.mark.parametrize("lose", ["cut", "removed"])
def test_what_was_lost_while_away_is_told(log, follow, lose):
    log.write(3)
    source = follow()
    lines = source.read(1)
    position = source.positions()
    source.close()
    if lose == "cut":
        os.truncate(log.path, 0)
    else:
        log.path.unlink()
        later = follow(position)
        # Perhaps it comes back.
        assert later.read(1) == [] == later.losses()
    log.write(2)
    later = follow(position)
    assert texts(drain(later)) == log.written[3:]
    (loss,) = later.losses()
    assert (loss.stream, loss.offset, loss.n_bytes) == (lines[0].stream, 7, 14)
    assert "while nobody read it" in loss.message


def test_after_a_loss_the_rotations_that_remain_are_read(log, follow):
    log.write(3)
    source = follow()
    source.read(1)
    position = source.positions()
    source.close()
    os.utime(log.path, (1e9, 1e9))
    position[str(log.path)]["time"] = 10**18
    for _ in range(3):
        log.rename()
        log.write(2)
    log.name(3).unlink()
    later = follow(position)
    assert texts(drain(later)) == log.written[3:]
    assert len(later.losses()) == 1


def test_an_inode_that_is_used_again_is_another_file(log, follow):
    log.write(3)
    source = follow()
    source.read(3)
    position = source.positions()
    source.close()
    log.path.unlink()
    log.path.write_text("another file with an old number\n")
    position[str(log.path)]["inode"] = log.path.stat().st_ino
    later = follow(position)
    assert texts(drain(later)) == ["another file with an old number"]
    assert len(later.losses()) == 1


def test_a_blank_last_line_is_found_again(log, follow):
    log.path.write_text("one\n\n\n")
    source = follow()
    drain(source)
    position = source.positions()
    log.copy()
    log.path.write_text("one\n")
    later = follow(position)
    assert texts(drain(later)) == ["one"]
    assert later.losses() == []


@pytest.mark.parametrize("killed", [False, True])
def test_a_log_that_is_cut_between_its_opening_and_its_first_block_loses_nothing(
    log, follow, monkeypatch, killed
):
    log.write(3)
    source = follow()
    read = texts(drain(source))
    log.copy()
    log.write(3)
    enter, saved = FileSource._enter, {}

    def enter_and_rotate(self, cursor):
        enter(self, cursor)
        monkeypatch.undo()
        saved.update(self.positions())
        log.copy()
        log.write(2)
        if killed:
            raise KeyboardInterrupt

    monkeypatch.setattr(FileSource, "_enter", enter_and_rotate)
    if killed:
        with pytest.raises(KeyboardInterrupt):
            drain(source)
        source = follow(saved)
    read += texts(drain(source))
    assert read == log.written
    assert source.losses() == []
