"""What the Triton kernels take of a GPU, read off their machine code; needs triton, but no GPU.

    python kernels/benchmarks/gpu_resources.py [--capability 90] [--dtype bfloat16] [--json FILE]

Real calls, forward and backward, are compiled for each kind of GPU as their launches would be. A
spill is a value that finds no register and goes through memory: there should be none.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels._triton import Resources, compiled_for, resources
from tsmamba_kernels.testing import Inputs, conv_inputs, run_with_gradients, scan_inputs

CAPABILITIES = (80, 90, 100)
DTYPES = ("float32", "bfloat16")
SHOWN = ("MUFU.EX2", "MUFU.RCP", "FFMA", "FADD", "FMUL", "LDG", "STG", "LDS", "STS", "SHFL", "BAR")


@dataclass(frozen=True)
class Call:
    """A call that launches kernels, the long series of the scan cut into segments or not."""

    name: str
    op: Callable[..., Any]
    inputs: Inputs
    segments: int = 1


def calls(dtype: torch.dtype) -> list[Call]:
    """Calls that between them launch every kernel at the sizes that matter."""
    scans = {states: scan_inputs(2, 512, 128, states, dtype=dtype) for states in (16, 64)}
    return [
        Call("conv, W=4", causal_conv1d, conv_inputs(2, 512, 128, 4, dtype=dtype)),
        *(Call(f"scan, N={n}", selective_scan, inputs) for n, inputs in scans.items()),
        Call("scan, N=16, segments", selective_scan, scans[16], segments=2),
    ]


def measured(capability: int, dtype: str) -> list[tuple[str, Resources]]:
    found = []
    for call in calls(getattr(torch, dtype)):
        # The operands are no CUDA tensors, and there is no device whose size could tell.
        chosen = patch(f"{call.op.__module__}.choose", return_value="triton")
        cut = patch("tsmamba_kernels.selective_scan.gpu._segments", return_value=call.segments)
        with chosen, cut, compiled_for(capability) as compiled:
            run_with_gradients(call.op, call.inputs)
        kernels = {kernel.hash: kernel for kernel in compiled}
        found += [(call.name, resources(kernel)) for kernel in kernels.values()]
    return found


def show(found: list[tuple[str, Resources]]) -> None:
    mix = "".join(f"{name.removeprefix('MUFU.'):>6}" for name in SHOWN)
    print(
        f"{'kernel':22}{'call':22}{'warps':>6}{'regs':>6}{'spill':>6}{'shared':>7}{'all':>6}{mix}"
    )
    for call, used in found:
        counts = used.looped or used.instructions
        # From sm_100 on, FFMA2 and its like do two at once.
        lanes = {name: counts.get(name, 0) + 2 * counts.get(f"{name}2", 0) for name in SHOWN}
        mix = "".join(f"{count:6d}" for count in lanes.values())
        print(
            f"{used.kernel:22}{call:22}{used.warps:6d}{used.registers:6d}{used.spills:6d}"
            f"{used.shared:7d}{sum(counts.values()):6d}{mix}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--capability", type=int, nargs="+", default=CAPABILITIES)
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    arguments = parser.parse_args()
    results = []
    for capability in arguments.capability:
        for dtype in arguments.dtype:
            print(
                f"\nsm_{capability}, {dtype}; instructions of one thread, in loops where it has any"
            )
            found = measured(capability, dtype)
            show(found)
            about = {"capability": capability, "dtype": dtype}
            results += [about | {"call": call} | asdict(used) for call, used in found]
    if arguments.json:
        arguments.json.write_text(
            json.dumps(results, indent=2, default=str) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
