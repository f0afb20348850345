"""From the names of the pieces to what they found."""

from collections.abc import Callable

import torch

from tsmamba.benchmark.claims import Finding, Piece
from tsmamba.benchmark.measure_length import measure_length
from tsmamba.benchmark.measure_memory import measure_memory
from tsmamba.benchmark.measure_networks import measure_latency, measure_step, measure_training
from tsmamba.benchmark.measure_scans import measure_loop, measure_parallel, measure_threads
from tsmamba.benchmark.networks import NETWORKS, WIDTH, training_step
from tsmamba.benchmark.plan import Plan

SEED = 0

MEASURES: dict[Piece, Callable[[Plan], Finding]] = {
    Piece.loop: measure_loop,
    Piece.parallel: measure_parallel,
    Piece.training: measure_training,
    Piece.latency: measure_latency,
    Piece.memory: measure_memory,
    Piece.length: measure_length,
    Piece.step: measure_step,
    Piece.threads: measure_threads,
}


def measure(piece: Piece, plan: Plan) -> Finding:
    """Measure one piece; weights and inputs are the same in every run.

    Parameters
    ----------
    piece : Piece
        Which one.
    plan : Plan
        Sizes.

    Returns
    -------
    Finding
        What came out.

    Raises
    ------
    ParityError
        If a contestant computes something else than ours; then no speed is of interest.
    """
    torch.manual_seed(SEED)
    _warm_up()
    return MEASURES[piece](plan)


def _warm_up() -> None:
    """Let torch load at the first call of an operation what it loads, which takes seconds."""
    for make in NETWORKS.values():
        training_step(make(), torch.randn(1, 64, WIDTH))()
