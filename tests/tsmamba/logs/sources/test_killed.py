"""The guarantee: a reader that is killed at any moment goes on as if nothing had happened."""

import hashlib
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

LINES = 20_000
KILLS = 20
WORKER = str(Path(__file__).with_name("worker.py"))


def deduplicated(output):
    """Return the texts by their names, in order, and how many came again."""
    rows = [row.split(b"\t") for row in output.read_bytes().split(b"\n") if row.endswith(b"\t.")]
    texts = {}
    for name, text, _ in rows:
        assert texts.setdefault(name, text) == text
    return [text.decode() for text in texts.values()], len(rows) - len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("rotate", ["none", "rename", "copy"])
def test_a_reader_killed_twenty_times_loses_and_invents_nothing(log, tmp_path, rotate):
    output = tmp_path / "output"
    command = [sys.executable, WORKER, str(log.path), str(tmp_path / "checkpoint"), str(output)]
    moments = random.Random(rotate)
    for _ in range(KILLS):
        arguments = (LINES // KILLS, rotate, moments)
        writer = threading.Thread(target=log.write_a_life, args=arguments)
        writer.start()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout.readline() == "ready\n"
            time.sleep(moments.uniform(0.0, 0.1))
            worker.kill()
            assert worker.stdout.read() == ""
        writer.join()
    assert len(log.written) == LINES
    with log.path.open("a") as file:
        file.write("END\n")
    last = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    state = b""
    for text in [*log.written, "END"]:
        state = hashlib.sha256(state + text.encode()).digest()
    assert last.stdout == f"ready\n{state.hex()}\n"
    texts, again = deduplicated(output)
    assert texts == [*log.written, "END"]
    assert again < LINES / 2
