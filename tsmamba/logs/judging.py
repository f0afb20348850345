"""Whether a trained network is of use, and what it is judged by: the n-gram on usual lines."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tsmamba.logs.network import Committee

__all__ = ["Gaps", "Reading", "Trainer", "is_as_usual"]

Gaps: TypeAlias = list[float]
Reading: TypeAlias = Callable[[list[float]], float]
Trainer: TypeAlias = Callable[
    [list[list[int]], list[Gaps], Callable[["Committee"], bool]], "Committee | None"
]
"""Trains networks on sequences and their gaps; gets what judges one of them."""

# A network is of no use if what it says of usual lines is so many times dearer than what the
# n-gram says, and so many nats.
_FAR, _NEAR = 2.0, 0.5


def is_as_usual(
    told: list[list[float]], expected: list[list[float]], readings: Sequence[Reading]
) -> bool:
    """Whether usual sequences are usual for a network; a training may come to nothing.

    Parameters
    ----------
    told, expected : list of list of float
        Costs of the steps of each sequence, by the network and by the n-gram.
    readings : sequence of callable
        What a sequence costs by its steps; each of them has to be near.

    Examples
    --------
    >>> is_as_usual([[0.2, 0.3]], [[0.4, 0.1]], [max])
    True
    """
    # A network that is nan is not below anything.
    return all(
        fmean(map(reading, told)) <= _FAR * fmean(map(reading, expected)) + _NEAR
        for reading in readings
    )
