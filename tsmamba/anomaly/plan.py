"""Which windows a detector compares, chosen from the rows it is fitted on."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from tsmamba.anomaly.autoregression import order_for
from tsmamba.anomaly.period import dominant_period

Form: TypeAlias = Literal["raw", "half", "z"]

# A patch of fewer rows says little of a shape, where there is only one channel to see it in.
_WIDTHS = {True: (64, 400), False: (16, 64)}
_OFFLINE: tuple[tuple[Form, float], ...] = (
    ("half", 0.5),
    ("half", 1),
    ("half", 2),
    ("z", 0.5),
    ("z", 1),
    ("z", 2),
    ("raw", 1),
)
_STREAMING: tuple[tuple[Form, float], ...] = (
    ("half", 0.25), ("half", 0.5), ("half", 1), ("raw", 0.25), ("raw", 0.5), ("raw", 1),
)  # fmt: skip
# Shape alone is noisy; it helps where there is time to average.
_AVERAGED: tuple[tuple[Form, float], ...] = (("z", 0.25), ("z", 0.5), ("z", 1))
DELAYS = {"p/4": 0.25, "p/2": 0.5, "p": 1.0}
# Single residuals are noisy: without a delay they are averaged over this part of a patch.
_RESIDUAL_PART = 8


@dataclass(frozen=True)
class Block:
    """Distance of patches of one form and width to those in memory.

    Parameters
    ----------
    form : {"raw", "half", "z"}
        How windows become points.
    width : int
        Rows of a patch.
    """

    form: Form
    width: int


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Parameters
    ----------
    period : int
        Of the series, in rows.
    width : int
        Base width of a patch; scores that look both ways are averaged over as many rows.
    order : int
        Rows that the autoregression looks back; 0 judges a row by itself.
    delay : int
        Rows that a stream waits before it scores a row.
    repeat : int
        Rows before a gap that it is filled from: the period, or 0 to carry the last value on.
    offline, streaming : tuple of Block
        Patches compared in either mode.
    """

    period: int
    width: int
    order: int
    delay: int = 0
    repeat: int = 0
    offline: tuple[Block, ...] = ()
    streaming: tuple[Block, ...] = ()

    @property
    def patch(self) -> int:
        """Rows of the widest patch."""
        return max((block.width for block in (*self.offline, *self.streaming)), default=1)

    def span(self, width: int) -> tuple[int, int]:
        """Tell over which patches a stream averages the distance around a row.

        Best are as many as the base width, the middle one of them with the row at its centre;
        those not there after the delay are missing, first at the far end.

        Parameters
        ----------
        width : int
            Rows of a patch; 1 for the residuals of the autoregression.

        Returns
        -------
        oldest, newest : int
            Rows between the end of a patch and the newest row, ``oldest >= newest >= 0``.
        """
        last = min(self.delay, (width + self.width) // 2)
        first = max((width - self.width) // 2, min(0, width - self.delay))
        if width == 1:
            first = min(first, last - self.width // _RESIDUAL_PART)
        return self.delay - first, self.delay - last


def plan_for(values: np.ndarray, delay: str | int = 0, period: int | None = None) -> Plan:
    """Choose windows for a series.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_channels)
        Without gaps, standardised.
    delay : int or {"p/4", "p/2", "p"}, default 0
        Of streams: in rows, or in parts of the base width.
    period : int, optional
        Known period in rows; by default the median of those of the channels.

    Returns
    -------
    Plan
        A third of the rows at most in a patch.

    Examples
    --------
    >>> plan_for(np.sin(np.arange(3_000) / 20)[:, None]).width
    126
    """
    n, channels = values.shape
    if period is None:
        changing = [column for column in values.T if column.any()] or [values[:, 0]]
        period = int(np.median([dominant_period(column) for column in changing]))
    period = int(period)  # a number of numpy would be told from it in a file
    longest = max(1, n // 3)
    low, high = _WIDTHS[channels == 1]
    width = min(max(low, min(period, high)), longest)

    def blocks(kinds: tuple[tuple[Form, float], ...]) -> tuple[Block, ...]:
        sized = (Block(form, int(min(max(4, width * part), longest))) for form, part in kinds)
        return tuple(dict.fromkeys(sized))

    rows = int(width * DELAYS[delay]) if isinstance(delay, str) else int(delay)
    order = order_for(period, n, channels)
    streaming = _STREAMING + (_AVERAGED if rows else ())
    repeat = period if period <= width and _repeats(values, period) else 0
    return Plan(period, width, order, rows, repeat, blocks(_OFFLINE), blocks(streaming))


def _repeats(values: np.ndarray, period: int) -> bool:
    """Tell whether a row is nearer to the one a period before than to one a quarter before."""

    def distance(lag: int) -> float:
        return float(np.abs(values[lag:] - values[:-lag]).mean())

    return period < len(values) and distance(period) < distance(max(1, period // 4))


POINTWISE = Plan(period=1, width=1, order=0)
