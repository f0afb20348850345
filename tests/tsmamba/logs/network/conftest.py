import io
from contextlib import closing

import pytest

from tsmamba import LogDetector
from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.network import training
from tsmamba.logs.service import Scorer
from tsmamba.logs.sources import FileSource


def logged(count, first=0):
    """Return lines of jobs that overlap, and end as they began."""
    rows = []
    for i in range(first, first + count):
        kind = ("reads", "writes")[i // 2 % 2]
        steps = [f"{kind} begin", "loads", *["waits"] * (1 + i % 2), "stores", f"{kind} end"]
        rows += [(i * 10 + 4 * step, f"job-{i} {text}") for step, text in enumerate(steps)]
    rows.sort()
    return [
        f"2026-03-01T{s // 3600 % 24:02d}:{s // 60 % 60:02d}:{s % 60:02d}Z INFO {text}"
        for s, text in rows
    ]


@pytest.fixture(scope="package")
def detector():
    """A detector with networks; nobody may fit it again."""
    options = {"session": r"job-\d+", "session_timeout": 60.0, "false_alarm_rate": 1e-2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_STEPS", 150)
        return LogDetector(network="mamba", multiline=None, **options).fit(logged(400))


@pytest.fixture(scope="package")
def odd():
    """Lines of jobs of which one ends as the other kind, one is new, and one loses a line."""
    lines = [line.replace("job-810 writes end", "job-810 reads end") for line in logged(40, 800)]
    lines = [line.replace("job-812 loads", "job-812 breaks") for line in lines]
    return [line for line in lines if "job-820 stores" not in line]


@pytest.fixture
def restarted(tmp_path):
    """Return what scores lines in one go and over a stop, and tells records and state."""

    def run(detector, lines, after):
        path, state = tmp_path / "log", detector._state
        path.write_text("".join(f"{line}\n" for line in lines))
        whole, rest = io.BytesIO(), io.BytesIO()
        with closing(FileSource(path)) as source:
            Scorer(source, state, whole).run()
        with Checkpoint(tmp_path / "checkpoint", model="m") as checkpoint:
            with closing(FileSource(path)) as source:
                first = Scorer(source, state, io.BytesIO(), checkpoint=checkpoint)
                first.stream.feed(source.read(after))
                first.stop.set()
                first.run()
            _, blobs = checkpoint.load()
            with closing(FileSource(path)) as source:
                Scorer(source, state, rest, checkpoint=checkpoint).run()
        return whole.getvalue().splitlines(), rest.getvalue().splitlines(), blobs["stream"]

    return run
