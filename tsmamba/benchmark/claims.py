"""What is claimed, what a measurement is, and how the one is held against the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

# A claim holds where the measured value is within a tenth of what is claimed.
MARGIN = 0.1


class Piece(StrEnum):
    """Names of the pieces, one for each claim."""

    loop = "loop"
    parallel = "parallel"
    training = "training"
    latency = "latency"
    memory = "memory"
    length = "length"
    step = "step"
    threads = "threads"


@dataclass(frozen=True)
class Quantity:
    """Seconds or bytes of one contestant.

    Parameters
    ----------
    name : str
        The contestant.
    value : float
        What was measured.
    unit : {"s", "B"}
        Seconds or bytes.

    Examples
    --------
    >>> Quantity("loop over time", 0.85, "s").value
    0.85
    """

    name: str
    value: float
    unit: Literal["s", "B"]


@dataclass(frozen=True)
class Measurement:
    """One comparison, or one exponent.

    Parameters
    ----------
    what : str
        What was measured, at which size.
    ours : Quantity
        What this library needs; of an exponent, the one at the largest size.
    baseline : Quantity, optional
        What it is compared with. An exponent has none.
    exponent : float, optional
        Of the power law fitted over all sizes.
    judged : bool, default True
        Whether the claim speaks of it; other peers stand beside for comparison.

    Examples
    --------
    >>> ours, theirs = Quantity("scan", 0.02, "s"), Quantity("loop", 0.8, "s")
    >>> Measurement("forward", ours, theirs).ratio
    40.0
    """

    what: str
    ours: Quantity
    baseline: Quantity | None = None
    exponent: float | None = None
    judged: bool = True

    @property
    def ratio(self) -> float | None:
        """How many times as much the baseline needs; None of an exponent."""
        return None if self.baseline is None else self.baseline.value / self.ours.value


@dataclass(frozen=True)
class Claim:
    """A claim as articles put it.

    Parameters
    ----------
    statement : str
        The claim in their words.
    source : str
        Who says so, and of what.
    unit : {"x", "%", "exponent"}
        Whether it is a ratio, a saving in percent or an exponent of the length.
    claimed : (float, float), optional
        Least and largest value that is claimed; None where nobody claims anything.

    Examples
    --------
    >>> claim = Claim("ten times as fast", "an article", "x", (10, 10))
    >>> ours, theirs = Quantity("scan", 0.02, "s"), Quantity("loop", 0.8, "s")
    >>> claim.verdict(Measurement("forward", ours, theirs))
    'higher'
    """

    statement: str
    source: str
    unit: Literal["x", "%", "exponent"] = "x"
    claimed: tuple[float, float] | None = None

    def value(self, measurement: Measurement) -> float:
        """Return the measurement in the unit of the claim."""
        if measurement.exponent is not None:
            return measurement.exponent
        ratio = measurement.ratio
        if ratio is None:
            raise ValueError(f"{measurement.what!r} has neither a baseline nor an exponent")
        return 100 * (1 - 1 / ratio) if self.unit == "%" else ratio

    def verdict(self, measurement: Measurement) -> str:
        """Return "holds", "not reached here" or "higher", or that there is nothing to judge."""
        if self.claimed is None or not measurement.judged:
            return "for comparison"
        low, high = self.claimed
        value = self.value(measurement)
        if value < low * (1 - MARGIN):
            return "not reached here"
        return "higher" if value > high * (1 + MARGIN) else "holds"


@dataclass(frozen=True)
class Finding:
    """Everything that one piece found.

    Parameters
    ----------
    measurements : list of Measurement
        In the order in which they are shown.
    curves : dict of str to list of (int, float), optional
        Seconds by length, for each network.
    notes : list of str, optional
        What else a reader must know, absent peers among it.

    Examples
    --------
    >>> Finding([], notes=["mambapy is not installed"]).curves
    {}
    """

    measurements: list[Measurement]
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


CLAIMS: Mapping[Piece, Claim] = {
    Piece.loop: Claim(
        "the scan is 47x faster than a naive loop",
        "articles; neither the paper nor its code says it",
        claimed=(47, 47),
    ),
    Piece.parallel: Claim(
        "20-40x faster than a standard scan in PyTorch",
        "Gu and Dao 2023, on an A100 GPU in bfloat16, up to",
        claimed=(20, 40),
    ),
    Piece.training: Claim(
        "4x the training throughput of a Transformer",
        "articles; the paper has 4-5x for generation in large batches on a GPU",
        claimed=(4, 4),
    ),
    Piece.latency: Claim(
        "37 % lower latency at 32K steps",
        "articles",
        "%",
        (37, 37),
    ),
    Piece.memory: Claim(
        "248x less memory",
        "articles; the paper has parity with a fused Transformer in training",
        claimed=(248, 248),
    ),
    Piece.length: Claim(
        "linear in length",
        "Gu and Dao 2023",
        "exponent",
        (0, 1),
    ),
    Piece.step: Claim("one step of a stream, in native code and in PyTorch", "no claim"),
    Piece.threads: Claim("two threads instead of one", "no claim"),
}
