"""Drive every kernel over odd sizes while sanitizers watch: what ``make sanitize`` runs.

``sanitize.py LIBRARY`` takes a library built with TSMAMBA_SANITIZE. For each instruction set of
this processor a process of its own calls every operation, forward and backward. It stops at the
first access outside of an operand (each is a tensor on the heap, with guarded memory around it) and
at undefined behaviour. A first process reads one row too many, to see that this is found.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tsmamba_kernels import _native, causal_conv1d, selective_scan
from tsmamba_kernels.causal_conv import cpu as conv_cpu
from tsmamba_kernels.testing import (
    CONV_OPTIONS,
    SCAN_OPTIONS,
    Inputs,
    boundaries,
    conv_inputs,
    masks,
    pack,
    run_with_gradients,
    scan_inputs,
    with_layout,
)

LEVELS = ("generic", "avx2", "avx512")
SCAN_SIZES = [
    *({"length": length} for length in (0, 1, 63, 64, 65, 130)),
    *({"channels": channels} for channels in (0, 1, 3, 8, 13, 40, 144)),
    *({"states": states} for states in (0, 1, 4, 5, 16, 17)),
    *({"channels": channels, "groups": 2} for channels in (2, 8, 26)),
    *({"batch": batch} for batch in (0, 1, 5)),
]
CONV_SIZES = [
    *({"length": length} for length in (0, 1, 2, 255, 256, 257)),
    *({"channels": channels} for channels in (0, 1, 3, 8, 13, 40)),
    *({"width": width} for width in (1, 2, 3, 5, 80)),
    {"batch": 0},
]

Call = tuple[Callable[..., Any], Inputs]


def scans(dtype: torch.dtype) -> Iterator[Call]:
    for sizes, options, reverse in product(SCAN_SIZES, ((), SCAN_OPTIONS), (False, True)):
        inputs = scan_inputs(**({"length": 9} | sizes), options=options, dtype=dtype)
        yield selective_scan, inputs | {"reverse": reverse}
        tied = -torch.rand(inputs["A"].shape[0], dtype=inputs["A"].dtype)
        yield selective_scan, inputs | {"reverse": reverse, "A": tied}
    for bounds, options in product(boundaries(150).values(), ((), SCAN_OPTIONS)):
        inputs = pack(scan_inputs(1, 150, 13, options=options, dtype=dtype), bounds)
        yield selective_scan, inputs
        yield selective_scan, inputs | {"reverse": True}
    for mask in masks(2, 70).values():
        yield selective_scan, scan_inputs(2, 70, 9, dtype=dtype) | {"mask": mask}
    inputs = scan_inputs(2, 70, 9, dtype=dtype)
    inputs["delta_scale"] = inputs["delta_scale"].unsqueeze(-1).repeat(1, 1, 9)
    yield selective_scan, inputs
    yield selective_scan, inputs | {"u": with_layout(inputs["u"], "expanded"), "reverse": True}


def convolutions(dtype: torch.dtype) -> Iterator[Call]:
    for sizes, options, reverse in product(CONV_SIZES, ((), CONV_OPTIONS), (False, True)):
        inputs = conv_inputs(**({"length": 9} | sizes), options=options, dtype=dtype)
        yield causal_conv1d, inputs | {"reverse": reverse}
    for bounds, reverse in product(boundaries(600).values(), (False, True)):
        yield (
            causal_conv1d,
            pack(conv_inputs(1, 600, 9, dtype=dtype), bounds) | {"reverse": reverse},
        )


def in_segments(dtype: torch.dtype) -> Iterator[Call]:
    """More threads than channels can employ."""
    for options, reverse in product(((), SCAN_OPTIONS), (False, True)):
        inputs = scan_inputs(2, 600, 3, options=options, dtype=dtype)
        yield selective_scan, inputs | {"reverse": reverse}


def run_everything() -> int:
    """Return how many calls there were."""
    count = 0
    for threads, calls in ((2, scans), (2, convolutions), (7, in_segments)):
        torch.set_num_threads(threads)
        for dtype in _native.DTYPES:
            for op, inputs in calls(dtype):
                run_with_gradients(op, inputs, backend="native")
                count += 1
    return count


def run_tests() -> int:
    """Return pytest's exit status, for kernels whose operands have no layout to vary."""
    files = ("test_stack_step.py", "test_patch_distance.py")
    tests = [str(Path(__file__).with_name(name)) for name in files]
    chosen = "(in_float64 and native) or any_grouping or equals_the_reference"
    return pytest.main([*tests, "-k", chosen, "-q", "-p", "no:cacheprovider"])


def read_one_row_too_many() -> None:
    x = torch.ones(1, 4, 8)
    args, owners = conv_cpu._prepare(
        x, torch.ones(8, 1), None, torch.ones(1, 0, 8), None, None, False, False
    )
    out = torch.empty(1, 5, 8)
    args.length, args.out = 5, _native.view(out)
    _native.call("causal_conv_fwd", x.dtype, args, owners)


def in_a_process(library: str, level: str, task: str) -> subprocess.CompletedProcess[str]:
    """Run a task with the runtimes of the sanitizers in front, where they want to be."""
    needed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    runtimes = re.findall(r"=> (\S*lib(?:\S*asan|\S*ubsan|stdc\+\+)\S*)", needed)
    environment = {
        "LD_PRELOAD": os.pathsep.join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",  # those of Python itself
        "OMP_WAIT_POLICY": "PASSIVE",
        "TRITON_INTERPRET": "1",  # which conftest.py wants set before torch imports triton
        "TSMAMBA_ISA": level,
    }
    return subprocess.run(
        [sys.executable, __file__, library, task],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def main(library: str, task: str | None = None) -> str | int | None:
    """Return what went wrong."""
    if task is not None:
        _native.find_spec = lambda _: SimpleNamespace(origin=library)
        _native.LIBRARY = _native.open_library()
        if task == "overrun":
            return read_one_row_too_many()
        sys.stdout.write(f"{_native.isa()}: {run_everything()} calls without a finding\n")
        sys.stdout.flush()
        return run_tests()
    if "heap-buffer-overflow" not in in_a_process(library, "generic", "overrun").stderr:
        return "a row read beyond the end of its tensor was not found: does the library check?"
    for level in LEVELS[: LEVELS.index(_native.isa()) + 1]:
        done = in_a_process(library, level, "everything")
        sys.stdout.write(done.stdout)
        if done.returncode:
            return f"{level}: exit status {done.returncode}\n{done.stderr}"
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
