"""Peak memory of a network, measured in a process of its own.

    python -m tsmamba.benchmark.probe TASK NETWORK KERNEL LENGTH...

prints the bytes for each length. What is counted is resident memory beyond what the process holds
before the call, whoever asked for it: PyTorch, its libraries or our kernels.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tsmamba.benchmark.networks import NETWORKS, WIDTH, inference, training_step

SECONDS = 120.0
TASKS = {"forward": inference, "train": training_step}
KERNELS = {"fused": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
# Whatever is freed goes back to the system at once. Else the next call reuses it unseen.
RETURN_FREED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
_WARM_UP_LENGTH = 64


class ProbeError(RuntimeError):
    """Peak memory could not be measured."""


def peak_bytes(
    task: str, network: str, lengths: Sequence[int], *, kernel: str = "any"
) -> list[int]:
    """Return the peak memory of one call for each length, beyond that of the idle process.

    Parameters
    ----------
    task : {"forward", "train"}
        A forward pass without gradients, or a training step.
    network : str
        One of `NETWORKS`.
    lengths : sequence of int
        Steps of the input.
    kernel : {"fused", "math", "any"}, default "any"
        How attention is computed.

    Returns
    -------
    list of int
        Bytes, one for each length.

    Raises
    ------
    ProbeError
        If the process is killed or cannot measure itself, as outside Linux.
    """
    command = [sys.executable, "-m", __name__, task, network, kernel, *map(str, lengths)]
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    try:
        done = subprocess.run(
            command,
            env=os.environ | threads | RETURN_FREED,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"{network} took more than {SECONDS:.0f} s to {task}") from None
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2] or "perhaps for lack of memory"
        raise ProbeError(f"{network}: the process ended with code {done.returncode}, {reason}")
    peaks: list[int] = json.loads(done.stdout)
    return peaks


def _measure(task: str, network: str, kernel: str, lengths: Sequence[int]) -> list[int]:
    torch.manual_seed(0)
    model = NETWORKS[network]()
    attention: AbstractContextManager[object] = (
        sdpa_kernel(KERNELS[kernel]) if kernel in KERNELS else nullcontext()
    )
    peaks = []
    with attention:
        TASKS[task](model, torch.randn(1, _WARM_UP_LENGTH, WIDTH))()
        for length in lengths:
            run = TASKS[task](model, torch.randn(1, length, WIDTH))
            peaks.append(peak_of(run))
    return peaks


def peak_of(run: Callable[[], object]) -> int:
    """Return the peak memory of a call in this process, beyond what is held before it.

    Memory that was freed before and kept counts as held, so the process should be started with the
    environment of `RETURN_FREED`. Linux sums the highest use from counts that each processor keeps
    for itself, so about 1 MiB is noise.

    Parameters
    ----------
    run : callable
        What to measure.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    ProbeError
        If the process cannot measure itself, as outside Linux.
    """
    try:
        _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
    except OSError as error:
        raise ProbeError(f"{_CLEAR} cannot be written: {error}") from None
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def _resident(field: str) -> int:
    found = re.search(rf"^{field}:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    if found is None:
        raise ProbeError(f"{_STATUS} has no {field}")
    return int(found[1]) * 1024


if __name__ == "__main__":
    _task, _network, _kernel, *_lengths = sys.argv[1:]
    sys.stdout.write(json.dumps(_measure(_task, _network, _kernel, list(map(int, _lengths)))))
