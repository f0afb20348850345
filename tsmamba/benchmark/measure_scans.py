"""The scan against a loop, against parallel scans, and on two threads against one."""

from collections.abc import Callable

import torch
from torch import Tensor

from tsmamba.benchmark.claims import Finding, Measurement, Quantity
from tsmamba.benchmark.networks import WIDTH, inference, training_step
from tsmamba.benchmark.parity import check_equal, check_scan
from tsmamba.benchmark.plan import Plan
from tsmamba.benchmark.scans import Scan, loop_scan, mambapy_scan, our_scan, transformers_block
from tsmamba.benchmark.timing import race
from tsmamba.errors import MissingExtraError
from tsmamba.nn import Mamba
from tsmamba_kernels.testing import scan_inputs


def measure_loop(plan: Plan) -> Finding:
    """Race the scan against an eager loop over time."""
    return Finding(_against_scan("eager loop over time", loop_scan, plan))


def measure_parallel(plan: Plan) -> Finding:
    """Race the scan against mambapy's, and the Mamba block against that of transformers."""
    measurements, notes = [], []
    peers: tuple[Callable[[Plan], list[Measurement]], ...] = (_against_mambapy, _against_block)
    for against in peers:
        try:
            measurements += against(plan)
        except MissingExtraError as error:
            notes.append(str(error))
    return Finding(measurements, notes=notes)


def measure_threads(plan: Plan) -> Finding:
    """Race the scan on two threads against itself on one."""
    operands = _operands(plan.threads_scan)

    def on_threads(n: int) -> Callable[[], None]:
        def run() -> None:
            torch.set_num_threads(n)
            our_scan(*operands)

        return run

    before = torch.get_num_threads()
    try:
        best = race({"one": on_threads(1), "two": on_threads(2)}, plan.seconds)
    finally:
        torch.set_num_threads(before)
    measured = Measurement(
        f"scan {plan.threads_scan}, forward",
        Quantity("two threads", best["two"], "s"),
        Quantity("one thread", best["one"], "s"),
    )
    return Finding([measured])


def _operands(shape: tuple[int, int, int, int]) -> tuple[Tensor, ...]:
    return tuple(x for x in scan_inputs(*shape, options=()).values() if isinstance(x, Tensor))


def _against_mambapy(plan: Plan) -> list[Measurement]:
    return _against_scan("mambapy's pscan", mambapy_scan(), plan)


def _against_scan(name: str, rival: Scan, plan: Plan) -> list[Measurement]:
    """Race forward, and forward and backward to all operands."""
    operands = _operands(plan.scan)
    leaves = [x.detach().requires_grad_() for x in operands]
    pulled = torch.randn_like(operands[0])

    def forward(scan: Scan) -> Callable[[], object]:
        return lambda: scan(*operands)

    def both(scan: Scan) -> Callable[[], object]:
        return lambda: torch.autograd.grad(scan(*leaves), leaves, pulled)

    check_scan()
    check_equal(name, rival(*operands), our_scan(*operands))
    passes = {"forward": forward, "forward and backward": both}
    runs = {
        f"{who} {what}": make(scan)
        for what, make in passes.items()
        for who, scan in (("ours", our_scan), ("theirs", rival))
    }
    best = race(runs, plan.seconds)
    return [
        Measurement(
            f"scan {plan.scan}, {what}",
            Quantity("our scan", best[f"ours {what}"], "s"),
            Quantity(name, best[f"theirs {what}"], "s"),
        )
        for what in passes
    ]


def _against_block(plan: Plan) -> list[Measurement]:
    """Race whole Mamba blocks of equal weights; training at a length that the rival can bear.

    In plain PyTorch, transformers indexes a (B, D, L, N) tensor at each step, and the backward pass
    of that fills a tensor as large each time.
    """
    ours = Mamba(WIDTH)
    theirs = transformers_block(ours)
    measurements = []
    for what, task, length in (
        ("inference", inference, plan.training_length),
        ("training step", training_step, plan.block_length),
    ):
        x = torch.randn(1, length, WIDTH)
        with torch.no_grad():
            check_equal("transformers' block", theirs(x), ours(x))
        best = race({"ours": task(ours, x), "theirs": task(theirs, x)}, plan.seconds)
        measured = Measurement(
            f"one Mamba block (1, {length}, {WIDTH}), {what}",
            Quantity("our block", best["ours"], "s"),
            Quantity("transformers' slow path", best["theirs"], "s"),
            judged=False,
        )
        measurements.append(measured)
    return measurements
