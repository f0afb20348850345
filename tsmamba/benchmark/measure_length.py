"""How time and memory grow with the length."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from tsmamba.benchmark.claims import Finding, Measurement, Quantity
from tsmamba.benchmark.networks import NETWORKS, OURS, WIDTH, inference
from tsmamba.benchmark.plan import Plan
from tsmamba.benchmark.probe import ProbeError, peak_bytes
from tsmamba.benchmark.timing import race

Curve = list[tuple[int, float]]

# Lengths at the upper end that get a fit of their own.
_LAST = 3


def measure_length(plan: Plan) -> Finding:
    """Time a forward pass in one call at each length, and fit exponents to time and memory."""
    curves = _time_curves({name: make() for name, make in NETWORKS.items()}, plan)
    measurements = [
        Measurement(
            f"time of a forward, {_range(part)}",
            Quantity(name, part[-1][1], "s"),
            exponent=exponent(part),
            judged=name == OURS,
        )
        for name, curve in curves.items()
        for part in (curve, curve[-_LAST:])
    ]
    notes = [
        "exponents are least-squares fits on logarithms; fixed costs flatten those over all "
        "lengths, so the upper end stands beside them. The quantity is that at the longest; a "
        f"peer stops after a call of more than {plan.call_seconds:g} s"
    ]
    try:
        peaks = peak_bytes("forward", OURS, plan.lengths)
    except ProbeError as error:
        notes.append(f"peak memory is missing: {error}")
    else:
        curve = [(length, float(peak)) for length, peak in zip(plan.lengths, peaks, strict=True)]
        measured = Measurement(
            f"peak memory of a forward, {_range(curve)}",
            Quantity(OURS, curve[-1][1], "B"),
            exponent=exponent(curve),
        )
        measurements.append(measured)
    return Finding(measurements, curves, notes)


def exponent(curve: Sequence[tuple[int, float]]) -> float:
    """Fit a power law and return its exponent.

    Parameters
    ----------
    curve : sequence of (int, float)
        Length and seconds or bytes, all positive, at two lengths or more.

    Returns
    -------
    float
        Slope of the least-squares line on logarithms.

    Examples
    --------
    >>> round(exponent([(10, 3.0), (20, 12.0), (40, 48.0)]), 6)
    2.0
    """
    x = [math.log(length) for length, _ in curve]
    y = [math.log(value) for _, value in curve]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)


def _time_curves(networks: dict[str, nn.Module], plan: Plan) -> dict[str, Curve]:
    curves: dict[str, Curve] = {name: [] for name in networks}
    for length in plan.lengths:
        x = torch.randn(1, length, WIDTH)
        runs = {
            name: inference(network, x)
            for name, network in networks.items()
            if name == OURS or not curves[name] or curves[name][-1][1] <= plan.call_seconds
        }
        for name, seconds in race(runs, plan.seconds).items():
            curves[name].append((length, seconds))
    return curves


def _range(curve: Curve) -> str:
    return f"{curve[0][0]:,} to {curve[-1][0]:,} steps"
