"""Lines a second and added latency of ``tsmamba logs score``, from end to end.

    python -m benchmarks.logs.command

fits on a day of a made service log, written as raw lines, scores five days through the command with
one JSON object a line, and then sends lines one by one at a fixed pace. CPU time is that of the
whole process, start and model included.
"""

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.forecast.run import environment
from tsmamba_datasets import make_service_logs

COMMAND = [sys.executable, "-c", "from tsmamba.cli import main; main()", "logs"]
DAYS = 5
PACED = 2_000
PAUSE = 0.001
_LOGFMT = re.compile(r'ts=(\S+) level=(\S+) service=(\S+) msg="(.*)"')


def raw_lines(days: int, seed: int) -> Iterator[str]:
    """Lines of a made log as most programs write them."""
    for line in make_service_logs(days=days, seed=seed)["line"]:
        found = _LOGFMT.fullmatch(line)
        if found is not None:
            stamp, level, service, message = found.groups()
            yield f"{stamp} {level.upper()} [{service}] {message}\n"


def throughput(model: Path, log: Path, lines: int) -> str:
    """Score a file and write everything."""
    texts = []
    for only in ("all", "alerts"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [*COMMAND, "score", "-m", str(model), "--only", only, str(log)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        texts.append(f"--only {only}: {lines / cpu:,.0f} lines/s ({cpu:.1f} s of CPU)")
    return "\n".join(texts)


def latency(model: Path, lines: list[str]) -> str:
    """Time from the write of a line to the read of its record, line by line."""
    process = subprocess.Popen(
        [*COMMAND, "score", "-m", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("no pipes")
    taken = []
    for line in lines:
        start = time.perf_counter()
        os.write(process.stdin.fileno(), line.encode())
        process.stdout.readline()
        taken.append((time.perf_counter() - start) * 1e3)
        time.sleep(PAUSE)
    process.stdin.close()
    process.wait()
    ranked = sorted(taken[len(taken) // 10 :])
    p99 = ranked[int(0.99 * len(ranked))]
    return f"one line at a time: p50 {statistics.median(ranked):.1f} ms, p99 {p99:.1f} ms"


def main() -> None:
    """Measure, and write what came out."""
    with tempfile.TemporaryDirectory() as folder:
        train, log, model = (Path(folder) / name for name in ("train.log", "test.log", "app.tsm"))
        train.write_text("".join(raw_lines(1, seed=0)))
        lines = list(raw_lines(DAYS, seed=1))
        log.write_text("".join(lines))
        command = [*COMMAND, "fit", str(train), "-m", str(model)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        sys.stdout.write(f"{environment()}\n{throughput(model, log, len(lines))}\n")
        sys.stdout.write(f"{latency(model, lines[:PACED])}\n")


if __name__ == "__main__":
    main()
