"""A log file and what writers and rotators do to it."""

import gzip
import os
import shutil

import pytest


class Log:
    """A log and its writer, which rotates it in every way."""

    def __init__(self, path):
        self.path = path
        self.written = []

    def write(self, count=3, end="\n"):
        lines = [f"line {len(self.written) + n}" for n in range(count)]
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


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "app.log")
