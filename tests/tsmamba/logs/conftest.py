"""A small service log, detectors that learned from it, and what rotators do to a log."""

import gzip
import os
import shutil
import time
from itertools import pairwise

import pytest

from tsmamba import LogDetector
from tsmamba_datasets import make_service_logs


class Log:
    """A log and its writer, which rotates it in every way."""

    def __init__(self, path, text="line {}".format):
        self.path = path
        self.text = text
        self.written = []

    def write(self, count=3, end="\n"):
        lines = [self.text(len(self.written) + n) for n in range(count)]
        self.written += lines
        with self.path.open("a") as file:
            file.write("\n".join(lines) + end)

    def name(self, number, suffix=""):
        return self.path.with_name(f"{self.path.name}.{number}{suffix}")

    def shift(self):
        for number in range(30, 0, -1):
            for suffix in ("", ".gz"):
                if self.name(number, suffix).exists():
                    self.name(number, suffix).rename(self.name(number + 1, suffix))

    def rename(self):
        self.shift()
        self.path.rename(self.name(1))

    def copy(self):
        self.shift()
        shutil.copy(self.path, self.name(1))
        os.truncate(self.path, 0)

    def compress(self, number=1):
        with self.name(number).open("rb") as file:
            self.name(number, ".gz").write_bytes(gzip.compress(file.read()))
        self.name(number).unlink()

    def write_a_life(self, count, rotate, moments):
        """Write the lines of one life of a reader, in pieces; rotate once in two lives."""
        # A reader knows of nothing that was rotated before its first life.
        rotate_at = moments.randrange(20) if self.written else None
        time.sleep(moments.uniform(0.0, 0.15))
        for piece in range(10):
            self.write(count // 10)
            if piece == rotate_at and rotate != "none":
                getattr(self, rotate)()
                if self.name(2).exists():
                    self.compress(2)
            time.sleep(0.01)


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "app.log")


def session_lines(count, first=0):
    """Return lines of jobs that overlap: each has an id in its message."""
    lines = []
    for i in range(first, first + count):
        steps = ["started", f"loads {i * 7 % 50} rows", f"loads {i % 9} rows", "finished"]
        lines += [(i * 10 + 4 * step, f"job-{i} {text}") for step, text in enumerate(steps)]
    lines.sort()
    assert all(before[0] <= after[0] for before, after in pairwise(lines))
    return [
        f"2026-03-01T{s // 3600 % 24:02d}:{s // 60 % 60:02d}:{s % 60:02d}Z INFO {text}"
        for s, text in lines
    ]


@pytest.fixture(scope="session")
def train():
    """Lines of a service without faults."""
    return make_service_logs(days=1, seed=0)["line"].to_list()[:8_000]


@pytest.fixture(scope="session")
def test():
    """Lines of the same service on another day, with faults."""
    lines = make_service_logs(days=1, seed=1, faults=True)["line"].to_list()[2_000:6_000]
    lines[1_500:1_500] = [
        'ts=2026-03-02T05:00:00.000Z level=error service=api msg="disk 3 failed: no space left"',
        "Traceback (most recent call last):",
        '  File "store.py", line 12, in save',
        "OSError: no space left",
    ]
    return lines


@pytest.fixture(scope="session")
def fitted(train):
    """A detector of lines; nobody may fit it again."""
    return LogDetector(stream_by=("service",), false_alarm_rate=1e-4).fit(train)


@pytest.fixture(scope="session")
def fitted_sessions():
    """A detector of sessions; nobody may fit it again."""
    detector = LogDetector(session=r"job-\d+", session_timeout=60.0, false_alarm_rate=1e-2)
    return detector.fit(session_lines(1_000))


@pytest.fixture(scope="session")
def test_sessions():
    """Sessions of which some are strange."""
    lines = session_lines(300, first=2_000)
    return [line for i, line in enumerate(lines) if i % 97 or "started" not in line]
