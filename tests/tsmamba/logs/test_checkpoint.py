import sqlite3
import subprocess
import sys

import pytest

from tsmamba.errors import CheckpointError
from tsmamba.logs.checkpoint import Checkpoint

POSITIONS = {"/var/log/app.log": {"offset": 120, "head": [[0, 4, "ü"]], "inode": None}}
BLOBS = {"templates": b"\0\xff", "stream/a": b"", "stream/b": bytes(100_000)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "app.checkpoint"


def save(path, positions=POSITIONS, blobs=BLOBS, model="m1", **options):
    with Checkpoint(path, model=model) as checkpoint:
        checkpoint.commit(positions, blobs, **options)


def load(path, model="m1"):
    with Checkpoint(path, model=model) as checkpoint:
        return checkpoint.load()


def test_what_was_committed_comes_back(path):
    assert load(path) is None
    save(path)
    assert load(str(path)) == (POSITIONS, BLOBS)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_only_what_is_given_is_written(path):
    save(path)
    save(path, {"a": {"offset": 1}}, {"templates": b"new"}, delete=["stream/a", "never"])
    assert load(path) == ({"a": {"offset": 1}}, {"templates": b"new", "stream/b": bytes(100_000)})


def test_a_commit_that_fails_leaves_the_one_before(path):
    with Checkpoint(path, model="m1") as checkpoint:
        checkpoint.commit(POSITIONS, BLOBS)
        with pytest.raises(ValueError, match="not JSON compliant"):
            checkpoint.commit({"a": {"offset": float("nan")}}, {"templates": b"half"})
        with pytest.raises(TypeError):
            checkpoint.commit({"a": {"offset": 2}}, {"templates": b"half", "bad": object()})
        assert checkpoint.load() == (POSITIONS, BLOBS)
        checkpoint.commit({"a": {"offset": 2}}, {})
        assert checkpoint.load() == ({"a": {"offset": 2}}, BLOBS)


def test_a_full_disk_is_told_and_leaves_the_commit_before(path):
    with Checkpoint(path, model="m1") as checkpoint:
        checkpoint.commit(POSITIONS, BLOBS)
        # SQLite takes a limit on its pages for the end of the disk.
        checkpoint._base.execute("PRAGMA max_page_count = 40")
        with pytest.raises(
            CheckpointError, match=r"the disk is full: .* is still what it was; make"
        ):
            checkpoint.commit({"a": {"offset": 2}}, {"templates": b"new", "big": bytes(10**6)})
        assert checkpoint.load() == (POSITIONS, BLOBS)
        checkpoint.commit({"a": {"offset": 2}}, {"templates": b"new"})
    assert load(path) == ({"a": {"offset": 2}}, {**BLOBS, "templates": b"new"})


WRITER = """
import os, sys
from tsmamba.logs.checkpoint import Checkpoint
checkpoint = Checkpoint(sys.argv[1], model="m1")
number = 0
while True:
    number += 1
    blobs = {name: b"%d" % number * 5_000 for name in "abc"}
    checkpoint.commit({"app.log": {"number": number}}, blobs)
    os.write(1, b".")
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_commit(path):
    for commits in (1, 3, 7, 20):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=-1) as writer:
            told = len(writer.stdout.read(commits))
            writer.kill()
            told += len(writer.stdout.read())
        positions, blobs = load(path)
        number = positions["app.log"]["number"]
        assert number >= told >= commits
        assert blobs == dict.fromkeys("abc", b"%d" % number * 5_000)


def test_two_processes_cannot_share_one(path, run_python):
    with Checkpoint(path, model="m1") as checkpoint:
        with pytest.raises(CheckpointError, match="in use by another process; stop it, or name"):
            Checkpoint(path, model="m1")
        code = (
            "import sys; from tsmamba.logs.checkpoint import Checkpoint\n"
            "Checkpoint(sys.argv[1], model='m1')"
        )
        other = run_python("-c", code, str(path))
        assert "is in use by another process" in other.stderr
        checkpoint.commit(POSITIONS, BLOBS)
    with Checkpoint(path, model="m1"):
        assert {file.suffix for file in path.parent.iterdir()} == {".checkpoint", ".checkpoint-wal"}
    assert run_python("-c", code, str(path)).returncode == 0


def test_a_checkpoint_of_another_model_or_version_is_refused(path):
    save(path)
    with pytest.raises(CheckpointError, match="belongs to the model m1, not to m2; use that"):
        load(path, model="m2")
    with sqlite3.connect(path) as base:
        base.execute("UPDATE facts SET value = '2' WHERE name = 'format_version'")
    base.close()
    with pytest.raises(CheckpointError, match="has format version 2, this tsmamba reads 1; up"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE blobs SET data = x'00' WHERE name = 'templates'",
        "UPDATE facts SET value = replace(value, '120', '121') WHERE name = 'positions'",
        "DROP TABLE blobs",
    ],
)
def test_an_altered_checkpoint_is_refused(path, change):
    save(path)
    with sqlite3.connect(path) as base:
        base.execute(change)
    base.close()
    with pytest.raises(CheckpointError, match=r"is no whole checkpoint \(.*remove it and start"):
        load(path)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_checkpoint_cut_short_is_refused(path, keep):
    save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(CheckpointError, match="is no whole checkpoint"):
        load(path)


def test_files_of_others_are_refused_and_left_alone(path):
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE theirs (x)")
    base.close()
    data = path.read_bytes()
    with pytest.raises(CheckpointError, match="but no checkpoint of tsmamba; name another file"):
        load(path)
    assert path.read_bytes() == data
    path.write_bytes(b"a log line\n" * 1_000)
    with pytest.raises(CheckpointError, match=r"is no whole checkpoint .file is not a database"):
        load(path)
    assert path.read_bytes() == b"a log line\n" * 1_000


def test_places_that_cannot_be_written_are_refused(path):
    with pytest.raises(CheckpointError, match="is a folder; name a file in it"):
        load(path.parent)
    with pytest.raises(CheckpointError, match=r"there is no folder .*; make it first"):
        load(path / "missing" / "file")
    with pytest.raises(CheckpointError, match=r"cannot be written .unable to open database file"):
        load("/proc/app.checkpoint")
