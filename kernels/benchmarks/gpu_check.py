"""Everything about the GPU kernels that only a GPU can show, in a few minutes on any CUDA machine.

    python kernels/benchmarks/gpu_check.py [--json FILE] [--interpret]

Every operation against the reference in float64, outputs and all gradients; the step inside a CUDA
graph against the step outside; then times beside the least that the device's memory and its units
for exponentials allow, and beside plain PyTorch. Where a kernel is wrong, no time is printed.
With --interpret, Triton's interpreter does the first part at tiny sizes on any machine.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from bench import loop_scan, processor, torch_conv
from torch import Tensor

from tsmamba_kernels import (
    causal_conv1d,
    causal_conv1d_update,
    selective_scan,
    selective_state_update,
)
from tsmamba_kernels.testing import Inputs, check_parity, conv_inputs, scan_inputs

SEED = 0
# Exponentials that a multiprocessor finishes in a cycle, from sm_80 to sm_100.
EXPONENTIALS = 16
# Batch, length, channels and inner axis: states of the scan, width of the filter.
SCAN_SIZES = ((8, 2048, 1536, 16), (1, 16384, 256, 16))
CONV_SIZES = ((8, 2048, 1536, 4),)
DTYPES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Case:
    """One call that is held against the reference."""

    name: str
    op: Callable[..., Any]
    inputs: Inputs


@dataclass(frozen=True)
class Timing:
    """Seconds of one operation, and the least that this device could need."""

    op: str
    sizes: tuple[int, ...]
    dtype: str
    direction: str
    seconds: float
    floor_memory: float
    floor_exponentials: float
    torch_seconds: float | None
    peak_bytes: int


def packed(inputs: Inputs, cuts: list[int]) -> Inputs:
    """Cut a batch of one into series, each with a state of its own."""
    state = inputs["initial_state"]
    draw = torch.Generator().manual_seed(SEED)
    states = torch.randn(len(cuts) - 1, *state.shape[1:], generator=draw, dtype=torch.float64)
    return inputs | {"initial_state": states.to(state.dtype), "cu_seqlens": torch.tensor(cuts)}


def scan_cases(length: int, channels: int, states: int, long: int) -> list[Case]:
    def drawn(**changed: Any) -> Inputs:
        sizes = {"length": length, "channels": channels, "states": states, "seed": SEED}
        return scan_inputs(**(sizes | changed))

    full = drawn()
    per_channel = full["delta_scale"].unsqueeze(2) * torch.linspace(0.5, 2.0, channels)
    cases = {
        "all operands": full,
        "no options": drawn(options=()),
        "reverse": full | {"reverse": True},
        "two groups, more states": drawn(groups=2, states=4 * states),
        "scale per channel": full | {"delta_scale": per_channel},
        "tied rates": full | {"A": full["A"][:, 0]},
        "packed": packed(drawn(batch=1), bounds(length)),
        "one step": drawn(length=1),
        "one long series": drawn(batch=1, length=long, options=("D",)),
        "bfloat16": drawn(dtype=torch.bfloat16),
    }
    return [Case(f"scan, {name}", selective_scan, inputs) for name, inputs in cases.items()]


def conv_cases(length: int, channels: int) -> list[Case]:
    def drawn(**changed: Any) -> Inputs:
        return conv_inputs(**({"length": length, "channels": channels, "seed": SEED} | changed))

    full = drawn()
    cases = {
        "all operands": full,
        "no options": drawn(options=()) | {"activation": None},
        "reverse": full | {"reverse": True},
        "width 9": drawn(width=9),
        "packed": packed(drawn(batch=1), bounds(length)),
        "one step": drawn(length=1),
        "bfloat16": drawn(dtype=torch.bfloat16),
    }
    return [Case(f"convolution, {name}", causal_conv1d, inputs) for name, inputs in cases.items()]


def bounds(length: int) -> list[int]:
    """Boundaries of five series, one empty and one shorter than the filter."""
    return [0, length // 3, length // 3, length // 3 + 2, length - 1, length]


def on(device: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """Run an operation on a device, from and to the CPU; the reference stays where it is."""

    def moved(*, backend: str, **inputs: Any) -> Any:
        if backend == "reference":
            return op(**inputs, backend=backend)
        there = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in inputs.items()}
        outputs = op(**there, backend=backend)
        return tuple(y.cpu() for y in outputs)

    return moved


def check_cases(cases: list[Case], device: str) -> dict[str, dict[str, float]]:
    """Hold every case against the reference; the first that differs ends the program."""
    errors = {}
    for case in cases:
        errors[case.name] = check_parity(on(device, case.op), case.inputs, backend="triton")
        print(f"  {case.name:36} largest relative error {max(errors[case.name].values()):.1e}")
    return errors


def check_graph(batch: int = 4, channels: int = 96, states: int = 16, steps: int = 8) -> None:
    """Feed a sequence through one captured step, and step by step: equal bits."""
    torch.manual_seed(SEED)
    x, dt = (torch.randn(steps, batch, channels, device="cuda") for _ in range(2))
    B, C = (torch.randn(steps, batch, states, device="cuda") for _ in range(2))
    A, weight = -torch.rand(channels, states, device="cuda"), torch.randn(channels, 4).cuda()

    def step(x, dt, B, C, window, h):
        x, window = causal_conv1d_update(x, window, weight, None, "silu")
        y, h = selective_state_update(h, x, dt, A, B, C, dt_softplus=True)
        return y, window, h

    start = torch.zeros(batch, 3, channels).cuda(), torch.zeros(batch, channels, states).cuda()
    fed = [v[0].clone() for v in (x, dt, B, C)] + [v.clone() for v in start]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles the kernels, which a capture may not
        step(*fed)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(*fed)
    carried = start
    for t in range(steps):
        for place, value in zip(fed, (x[t], dt[t], B[t], C[t], *carried), strict=True):
            place.copy_(value)
        graph.replay()
        y, *carried = step(x[t], dt[t], B[t], C[t], *carried)
        for replayed, eager in zip(captured, (y, *carried), strict=True):
            if not torch.equal(replayed, eager):
                raise AssertionError(f"the captured step differs from the eager one at step {t}")


def floors(op: str, sizes: tuple[int, ...], dtype: torch.dtype, backward: bool) -> dict[str, float]:
    """Return the least seconds that memory and the units for exponentials allow.

    Every operand is read once and every result written once; the scan takes an exponential for each
    step, channel and state, and the silu one for each step and channel.
    """
    from triton.runtime.driver import driver
    from triton.testing import get_dram_gbps

    batch, length, channels, inner = sizes
    elements, size = batch * length * channels, dtype.itemsize
    if op == "selective_scan":
        # u, delta, out; backward also grad_out and two gradients, while out is not read.
        rows, maps = (5, 4) if backward else (3, 2)
        moved = size * (rows * elements + maps * batch * length * inner)
        exponentials = elements * inner
    else:
        moved = size * (3 if backward else 2) * elements
        exponentials = elements
    about = driver.active.utils.get_device_properties(torch.cuda.current_device())
    rate = EXPONENTIALS * about["multiprocessor_count"] * about["sm_clock_rate"] * 1e3
    return {
        "floor_memory": moved / (get_dram_gbps() * 1e9),
        "floor_exponentials": exponentials / rate,
    }


def kernel_scan(u, delta, A, B, C):
    return selective_scan(u, delta, A, B, C, delta_softplus=True, backend="triton")


def kernel_conv(x, weight, bias):
    return causal_conv1d(x, weight, bias, "silu", backend="triton")


def seconds(run: Callable[[], object]) -> float:
    from triton.testing import do_bench

    return do_bench(run, warmup=50, rep=200, return_mode="median") / 1e3


def torch_seconds(
    plain: Callable[..., Tensor], leaves: list[Tensor], backward: bool
) -> float | None:
    """Time plain PyTorch in float32, with its (B, L, D, N) tensors; None where memory ends."""
    pulled = torch.ones_like(leaves[0], dtype=torch.float32)

    def run() -> object:
        out = plain(*(x.float() for x in leaves))
        return torch.autograd.grad(out, leaves, pulled) if backward else out

    try:
        with torch.set_grad_enabled(backward):
            return seconds(run)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None


def measure(op: str, sizes: tuple[int, ...], dtype: torch.dtype) -> list[Timing]:
    scan = op == "selective_scan"
    draw = scan_inputs if scan else conv_inputs
    inputs = draw(*sizes, options=() if scan else ("bias",), dtype=dtype, seed=SEED)
    leaves = [x.cuda().requires_grad_() for x in inputs.values() if isinstance(x, Tensor)]
    ours, plain = (kernel_scan, loop_scan) if scan else (kernel_conv, torch_conv)
    pulled = torch.ones_like(leaves[0])

    def forward() -> object:
        with torch.no_grad():
            return ours(*leaves)

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = ours(*leaves)
    torch.autograd.grad(out, leaves, pulled, retain_graph=True)
    peak = torch.cuda.max_memory_allocated() - before
    runs = {
        "forward": forward,
        "backward": lambda: torch.autograd.grad(out, leaves, pulled, retain_graph=True),
    }
    rivals = {name: torch_seconds(plain, leaves, name == "backward") for name in runs}
    if rivals["forward"] and rivals["backward"]:
        rivals["backward"] -= rivals["forward"]
    kind = str(dtype).removeprefix("torch.")
    return [
        Timing(
            op, sizes, kind, name, seconds(run), **floors(op, sizes, dtype, name == "backward"),
            torch_seconds=rivals[name], peak_bytes=peak,
        )
        for name, run in runs.items()
    ]  # fmt: skip


def show(timing: Timing) -> None:
    floor = max(timing.floor_memory, timing.floor_exponentials)
    bound = "memory" if floor == timing.floor_memory else "exponentials"
    plain = (
        "out of memory" if timing.torch_seconds is None else f"{timing.torch_seconds * 1e3:.2f} ms"
    )
    print(
        f"  {timing.op:15}{timing.sizes!s:22}{timing.dtype:9}{timing.direction:9}"
        f"{timing.seconds * 1e3:9.3f} ms {timing.seconds / floor:6.1f} x the floor ({bound}); "
        f"plain torch {plain}; peak {timing.peak_bytes / 2**20:.0f} MiB"
    )


def environment(device: str) -> dict[str, Any]:
    import triton

    about = {
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "capability": torch.cuda.get_device_capability() if device == "cuda" else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "seed": SEED,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
    }
    for name, value in about.items():
        print(f"{name:11}{value}")
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    parser.add_argument("--interpret", action="store_true", help="parity on the CPU, tiny sizes")
    arguments = parser.parse_args()
    if arguments.interpret:
        # Triton looks when it is imported, which nothing has done so far.
        os.environ["TRITON_INTERPRET"] = "1"
    elif not torch.cuda.is_available():
        sys.exit("there is no CUDA device here; --interpret runs the parity part without one")
    device = "cpu" if arguments.interpret else "cuda"
    sizes = (7, 6, 3, 20) if arguments.interpret else (257, 72, 16, 4112)
    results: dict[str, Any] = {"environment": environment(device)}
    print("\nagainst the reference in float64, outputs and all gradients")
    results["errors"] = check_cases([*scan_cases(*sizes), *conv_cases(*sizes[:2])], device)
    if device == "cuda":
        check_graph()
        print("  the step in a CUDA graph equals the step outside it")
        print("\ntimes")
        timings = []
        for dtype in DTYPES:
            for op, many in (("selective_scan", SCAN_SIZES), ("causal_conv1d", CONV_SIZES)):
                for one in many:
                    timings += measure(op, one, dtype)
                    show(timings[-2])
                    show(timings[-1])
        results["graph"] = "equal"
        results["timings"] = [asdict(timing) for timing in timings]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
