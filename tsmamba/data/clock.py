"""Where in the day, the week and the year a step lies."""

from dataclasses import dataclass
from math import pi

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tsmamba.data.panel import Panel

_DAY, _WEEK, _YEAR = 86_400.0, 604_800.0, 31_556_952.0
# Period in seconds, and how many of its harmonics describe the phase.
_CYCLES = ((_DAY, 2), (_WEEK, 3), (_YEAR, 2))
_FULL_CYCLES = 2
_STEPS_IN_CYCLE = 2


@dataclass(frozen=True)
class Clock:
    """Phases of the calendar for any time of any series, by arithmetic on its first stamp.

    Only cycles that hold at least two steps and that the data have seen twice are used: on less
    than two years the phase of the year would be a mere time index. Zones are read on the clock of
    the first stamp; a change to summer time shifts the phase of the day by its hour.

    Parameters
    ----------
    first : Tensor of shape (S,), float64
        First stamp of each series in seconds of the wall clock.
    step : float
        Seconds of a step or usual gap.
    cycles : tuple of (float, int)
        Period in seconds and number of harmonics of each cycle.

    Examples
    --------
    >>> import datetime as dt
    >>> import polars as pl
    >>> from tsmamba.data.panel import read_panel
    >>> days = pl.datetime_range(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3), "1h", eager=True)
    >>> panel = read_panel(pl.DataFrame({"ds": days, "y": range(49)}))
    >>> Clock.of(panel).width
    4
    """

    first: Tensor
    step: float
    cycles: tuple[tuple[float, int], ...]

    @classmethod
    def of(cls, panel: Panel, cycles: tuple[tuple[float, int], ...] | None = None) -> "Clock":
        """Return the clock of a panel.

        Parameters
        ----------
        panel : Panel
            Its stamps and frequency; integer stamps have no calendar, so no cycles.
        cycles : tuple of (float, int), optional
            The cycles to use, where a model has fixed them; chosen from the panel by default.

        Returns
        -------
        Clock
            One for all series.
        """
        step = panel.freq.seconds
        if step is None:
            return cls(torch.zeros(len(panel), dtype=torch.float64), 1.0, ())
        stamps = panel.first
        if isinstance(stamps.dtype, pl.Datetime) and stamps.dtype.time_zone:
            stamps = stamps.dt.replace_time_zone(None)
        first = stamps.cast(pl.Datetime("us")).to_physical().to_numpy() / 1e6
        if cycles is None:
            span = float(panel.times_at(np.arange(len(panel)), panel.lengths).max()) * step
            cycles = tuple(
                (period, harmonics)
                for period, harmonics in _CYCLES
                if step * _STEPS_IN_CYCLE <= period and span >= _FULL_CYCLES * period
            )
        return cls(torch.from_numpy(first), step, cycles)

    @property
    def width(self) -> int:
        """Number of features of a step."""
        return 2 * sum(harmonics for _, harmonics in self.cycles)

    def features(self, series: Tensor, times: Tensor) -> Tensor:
        """Return sine and cosine of every harmonic.

        Parameters
        ----------
        series : int Tensor of shape (n,)
            Number of the series.
        times : Tensor of shape (n, T)
            Steps or usual gaps since the first stamp of the series; may lie beyond its end.

        Returns
        -------
        Tensor of shape (n, T, width), float32
            In [-1, 1].
        """
        seconds = self.first[series][:, None] + times.double() * self.step
        angles = [
            2 * pi * k * (seconds % period) / period
            for period, harmonics in self.cycles
            for k in range(1, harmonics + 1)
        ]
        if not angles:
            return torch.zeros(*times.shape, 0)
        stacked = torch.stack(angles, dim=-1).float()
        return torch.cat([stacked.sin(), stacked.cos()], dim=-1)
