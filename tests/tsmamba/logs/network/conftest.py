import pytest

from tsmamba import LogDetector
from tsmamba.logs.network import training


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
