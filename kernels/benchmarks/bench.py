"""Speed of the kernels against what one would otherwise use, all in one run on this machine.

    python kernels/benchmarks/bench.py [--quick] [--json FILE]

The contestants take turns of equal time, or of one call where a call is longer, and the best call
counts, since other programs disturb. What one thread needs is its processor time.
Parity comes first: where the kernels are wrong, no speed is printed. mambapy's parallel scan takes
part where mambapy is installed.
"""

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba.benchmark.scans import loop_scan, mambapy_scan
from tsmamba_kernels import backend_report, causal_conv1d, selective_scan
from tsmamba_kernels.testing import (
    TOLERANCES,
    Inputs,
    check_parity,
    conv_inputs,
    relative_error,
    scan_inputs,
)

SCAN_SIZES = ((4, 8192, 128, 16), (1, 8192, 128, 16))
CONV_SIZES = ((4, 8192, 128, 4), (1, 8192, 128, 4))
# The parallel scan rounds in another order, and its products of decays underflow.
RIVAL_TOLERANCE = 1e-4


def native_scan(u, delta, A, B, C):
    return selective_scan(u, delta, A, B, C, delta_softplus=True, backend="native")


def native_conv(x, weight, bias):
    return causal_conv1d(x, weight, bias, "silu", backend="native")


def torch_conv(x, weight, bias):
    padded = F.pad(x.mT, (weight.shape[1] - 1, 0))
    return F.silu(F.conv1d(padded, weight.unsqueeze(1), bias, groups=weight.shape[0])).mT


@dataclass(frozen=True)
class Race:
    """One operation at one size; the first contestant is ours."""

    op: str
    sizes: tuple[int, ...]
    operands: tuple[Tensor, ...]
    contestants: dict[str, Callable[..., Tensor]]


@dataclass(frozen=True)
class Result:
    op: str
    sizes: tuple[int, ...]
    contestant: str
    forward_s: float
    forward_backward_s: float


def operands(inputs: Inputs) -> tuple[Tensor, ...]:
    return tuple(x for x in inputs.values() if isinstance(x, Tensor))


def races(quick: bool) -> list[Race]:
    scans = {"native": native_scan}
    if find_spec("mambapy") is None:
        print("mambapy is not installed: its parallel scan is skipped")
    else:
        scans["mambapy"] = mambapy_scan()
    scans["torch loop"] = loop_scan
    convs = {"native": native_conv, "torch": torch_conv}

    def shortened(sizes):
        batch, length, *others = sizes
        return (batch, length // 8 if quick else length, *others)

    return [
        *(
            Race("selective_scan", s, operands(scan_inputs(*s, options=())), scans)
            for s in map(shortened, SCAN_SIZES)
        ),
        *(
            Race("causal_conv1d", s, operands(conv_inputs(*s, options=("bias",))), convs)
            for s in map(shortened, CONV_SIZES)
        ),
    ]


def check(race: Race) -> None:
    """Raise unless ours equals the reference at odd sizes and every rival equals ours here."""
    for dtype in TOLERANCES:
        check_parity(selective_scan, scan_inputs(length=130, states=16, dtype=dtype))
        check_parity(causal_conv1d, conv_inputs(length=300, dtype=dtype))
    ours, *rivals = race.contestants.values()
    expected = ours(*race.operands)
    for rival in rivals:
        error = relative_error(rival(*race.operands), expected)
        if error > RIVAL_TOLERANCE:
            raise AssertionError(f"{rival.__name__} differs by {error:.1e} at {race.sizes}")


def best_seconds(
    run: Callable[[], object], clock: Callable[[], float] = time.perf_counter, turn: float = 0.2
) -> float:
    best, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < turn:
        start = clock()
        run()
        best = min(best, clock() - start)
    return best


def measure(race: Race, turns: int) -> list[Result]:
    pulled = torch.randn_like(race.operands[0])
    leaves = [x.detach().requires_grad_() for x in race.operands]
    runs = {}
    for name, contestant in race.contestants.items():
        runs[name, "forward"] = lambda c=contestant: c(*race.operands)
        runs[name, "both"] = lambda c=contestant: torch.autograd.grad(c(*leaves), leaves, pulled)
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(turns):
        for key, run in runs.items():
            best[key] = min(best[key], best_seconds(run))
    return [
        Result(race.op, race.sizes, name, best[name, "forward"], best[name, "both"])
        for name in race.contestants
    ]


def one_thread_ns(race: Race) -> float:
    """Forward of ours on one thread, in nanoseconds of processor time per innermost step."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ours = race.contestants["native"]
    best = best_seconds(lambda: ours(*race.operands), time.thread_time, turn=1.0)
    torch.set_num_threads(threads)
    batch, length, channels, inner = race.sizes
    return best / (batch * length * channels * inner) * 1e9


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def environment() -> dict[str, str | int]:
    return {
        "processor": processor(),
        "native": backend_report()["native"],
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
    }


def report(results: list[Result], ns: float) -> None:
    ours, *rivals = results
    sizes = ", ".join(map(str, ours.sizes))
    print(f"\n{ours.op}, (B, L, D, {'N' if ours.op == 'selective_scan' else 'W'}) = ({sizes})")
    print(f"  {'':12}{'forward':>20}{'forward + backward':>26}")
    for result in results:
        cells = [
            f"{own * 1e3:9.1f} ms {own / first:7.1f} x"
            for own, first in (
                (result.forward_s, ours.forward_s),
                (result.forward_backward_s, ours.forward_backward_s),
            )
        ]
        print(f"  {result.contestant:12}{cells[0]:>20}{cells[1]:>26}")
    backward = (ours.forward_backward_s - ours.forward_s) / ours.forward_s
    print(f"  ours: backward / forward {backward:.2f}; one thread {ns:.3f} ns per innermost step")
    slower = [rival.contestant for rival in rivals if rival.forward_s < ours.forward_s]
    if slower:
        print(f"  ours is slower than {', '.join(slower)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="an eighth of the length, fewer turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    arguments = parser.parse_args()
    turns = 3 if arguments.quick else 5
    about = environment()
    for name, value in about.items():
        print(f"{name:10} {value}")
    measured = []
    for race in races(arguments.quick):
        check(race)
        results, ns = measure(race, turns), one_thread_ns(race)
        report(results, ns)
        measured += [asdict(result) for result in results]
        measured[-len(results)]["one_thread_ns"] = ns
    if arguments.json:
        text = json.dumps({"environment": about, "results": measured}, indent=2)
        arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
