"""Memory of a training step, and of the state of a stream."""

from tsmamba.benchmark.claims import CLAIMS, Finding, Measurement, Piece, Quantity
from tsmamba.benchmark.networks import ATTENTION, OURS, WIDTH
from tsmamba.benchmark.plan import Plan
from tsmamba.benchmark.probe import ProbeError, peak_bytes
from tsmamba.nn import MambaStack

CACHE_LENGTHS = (8192, 32768, 131072)

# Keys and values of one layer in float32.
_CACHE_BYTES_PER_STEP = 2 * WIDTH * 4


def measure_memory(plan: Plan) -> Finding:
    """Compare the peak of a training step, and the state with a cache of keys and values."""
    notes = [
        "peak memory is resident memory of a process of its own beyond what it held before the "
        "call; the bytes of states and caches are exact"
    ]
    measurements: list[Measurement] = []
    try:
        measurements += _training_peaks(plan.training_length)
    except ProbeError as error:
        notes.append(f"peak memory is missing: {error}")
    state = state_bytes()
    measurements += [
        Measurement(
            f"state of a stream after {length:,} steps",
            Quantity(OURS, state, "B"),
            Quantity(f"{ATTENTION}, KV cache", length * _CACHE_BYTES_PER_STEP, "B"),
        )
        for length in CACHE_LENGTHS
    ]
    return Finding(measurements, notes=[*notes, _crossing(state)])


def state_bytes() -> int:
    """Return the bytes of the state of one stream of two Mamba blocks.

    Examples
    --------
    >>> state_bytes()
    19456
    """
    state = MambaStack(WIDTH, n_layers=2).init_state(1)
    return sum(part.nbytes for layer in state for part in layer)


def _training_peaks(length: int) -> list[Measurement]:
    (ours,) = peak_bytes("train", OURS, [length])
    peaks = {
        kernel: peak_bytes("train", ATTENTION, [length], kernel=kernel)[0]
        for kernel in ("math", "fused")
    }
    return [
        Measurement(
            f"training step (1, {length}, {WIDTH}), peak",
            Quantity(OURS, ours, "B"),
            Quantity(f"{ATTENTION}, {kernel} kernel", peak, "B"),
        )
        for kernel, peak in peaks.items()
    ]


def _crossing(state: int) -> str:
    """Say where the claimed ratio is met, for it can be had at any size by choice of the length."""
    claimed = CLAIMS[Piece.memory].claimed or (1, 1)
    length = claimed[0] * state / _CACHE_BYTES_PER_STEP
    return (
        f"a KV cache grows with the length and the state does not: it is {claimed[0]:g} times as "
        f"large after {length:,.0f} steps"
    )
