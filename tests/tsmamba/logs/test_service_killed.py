"""The guarantee: a scorer that is killed at any moment goes on as if nothing had happened."""

import json
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.saved import digest_of, load_state
from tsmamba_datasets import make_service_logs

LINES = 20_000
KILLS = 20
COMMAND = [
    sys.executable,
    "-c",
    "from tsmamba.cli import main; main()",
    "logs",
    "score",
    "--follow",
]


class Scorer:
    """The command on a log; each life writes an output of its own."""

    def __init__(self, folder, log, model):
        folder.mkdir()
        self.folder = folder
        self.model = model
        self.outputs = []
        self.command = [*COMMAND, str(log.path), "--model", str(model), "--checkpoint-every", "0"]
        self.command += ["--checkpoint", str(folder / "checkpoint")]

    def start(self):
        self.outputs.append(self.folder / f"output {len(self.outputs)}")
        errors = self.outputs[-1].with_suffix(".err")
        with self.outputs[-1].open("wb") as out, errors.open("wb") as err:
            return subprocess.Popen(self.command, stdout=out, stderr=err)

    def wait_for(self, text):
        end = time.monotonic() + 60.0
        while text not in self.outputs[-1].read_bytes():
            assert time.monotonic() < end, self.outputs[-1].with_suffix(".err").read_text()
            time.sleep(0.02)

    def results(self):
        """Return the results by their ids, in order, and how many came again."""
        found, again = {}, 0
        for output in self.outputs:
            # A kill may leave the last one half written.
            for row in output.read_bytes().split(b"\n")[:-1]:
                result = json.loads(row)
                again += result["event_id"] in found
                assert found.setdefault(result["event_id"], result) == result
        return list(found.values()), again

    def state(self):
        model = digest_of(load_state(self.model))
        with Checkpoint(self.folder / "checkpoint", model=model) as checkpoint:
            return json.loads(checkpoint.load()[1]["stream"])


@pytest.mark.slow
@pytest.mark.parametrize("rotate", ["none", "rename", "copy"])
def test_a_scorer_killed_twenty_times_loses_and_invents_nothing(log, tmp_path, fitted, rotate):
    fitted.save(tmp_path / "model")
    lines = make_service_logs(days=1, seed=2, faults=True)["line"].to_list()
    log.text = lines.__getitem__
    whole, killed = (
        Scorer(tmp_path / name, log, tmp_path / "model") for name in ("whole", "killed")
    )
    moments = random.Random(rotate)
    with whole.start() as never_killed:
        for _ in range(KILLS):
            with killed.start() as process:
                arguments = (LINES // KILLS, rotate, moments)
                writer = threading.Thread(target=log.write_a_life, args=arguments)
                writer.start()
                # The first life has to know the file; of the others, some end before they begin.
                if len(killed.outputs) == 1 or moments.random() < 0.8:
                    killed.wait_for(b"event_id")
                time.sleep(moments.uniform(0.0, 0.2))
                process.kill()
            writer.join()
        log.text = lambda number: 'ts=2026-03-03T00:00:00Z level=info service=api msg="the end"'
        log.write(1)
        with killed.start() as process:
            for scorer, running in ((whole, never_killed), (killed, process)):
                scorer.wait_for(b"the end")
                running.send_signal(signal.SIGTERM)
                assert running.wait(30) == 0
    for scorer in (whole, killed):
        for output in scorer.outputs:
            assert "lost" not in output.with_suffix(".err").read_text()
    expected, _ = whole.results()
    found, again = killed.results()
    assert len(expected) >= LINES + 1
    assert found == expected
    assert again < LINES / 2
    assert killed.state() == whole.state()
