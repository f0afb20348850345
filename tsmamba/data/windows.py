"""Training windows as indices into one store of values: no window is ever copied out whole.

Axis letters: n windows, L steps of history, H steps of horizon.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tsmamba.data.panel import Panel

_SEASONS_BACK = 8


@dataclass(frozen=True)
class Windows:
    """Positions of forecast windows in a `WindowStore`.

    Parameters
    ----------
    origin : int Tensor of shape (n,)
        Position of the first step to forecast.
    series : int Tensor of shape (n,)
        Number of the series.
    """

    origin: Tensor
    series: Tensor

    def __len__(self) -> int:
        return self.origin.numel()

    def select(self, index: Tensor) -> "Windows":
        """Return the windows at ``index`` (positions or a mask)."""
        return Windows(self.origin[index], self.series[index])

    def thinned(self, most: int) -> "Windows":
        """Return at most ``most`` windows, evenly spread."""
        if len(self) <= most:
            return self
        return self.select(torch.linspace(0, len(self) - 1, most).round().long())

    def batches(self, size: int) -> "list[Windows]":
        """Return all windows in batches of at most ``size``."""
        pairs = zip(self.origin.split(size), self.series.split(size), strict=True)
        return [Windows(*pair) for pair in pairs]


class WindowStore:
    """The values of a panel as tensors, read by the windows of a batch.

    Memory is that of the panel; a batch costs its own size and nothing else. Missing steps are
    filled from the past of their series, so that no value leaks back in time, and stay marked as
    not observed.

    Parameters
    ----------
    panel : Panel
        Standardised series.
    season : int, default 1
        Season in steps: a gap takes the values of the season before it.

    Examples
    --------
    >>> import polars as pl
    >>> from tsmamba.data.panel import read_panel
    >>> store = WindowStore(read_panel(pl.DataFrame({"ds": range(6), "y": range(6)})))
    >>> windows = store.windows(min_history=3, horizon=2)
    >>> windows.origin.tolist(), store.history(windows, 3).shape
    ([3, 4], torch.Size([2, 3]))
    """

    def __init__(self, panel: Panel, season: int = 1) -> None:
        observed = ~np.isnan(panel.values)
        self.offsets = torch.from_numpy(panel.offsets)
        self._numbers = torch.from_numpy(panel.numbers)
        self._begin = self.offsets[:-1]
        self.observed = torch.from_numpy(observed)
        self._weights = None if panel.weights is None else torch.from_numpy(panel.weights)
        self._times = None if panel.stamps is None else torch.from_numpy(panel.stamps.elapsed)
        self.values = torch.from_numpy(_filled(panel.values, panel.offsets, season))
        # Sums of any stretch are differences of two of these.
        self._sums = torch.cat([torch.zeros(1).double(), self.values.double().cumsum(0)])

    def starting(self, steps: np.ndarray) -> "WindowStore":
        """Return the same values with windows from a step of each series on.

        Parameters
        ----------
        steps : int ndarray of shape (S,)
            First step to forecast of each series; what lies before is history only.

        Returns
        -------
        WindowStore
            It shares the values; `longest` and `progress` count from these steps.
        """
        other = copy.copy(self)
        other._begin = self.offsets[:-1] + torch.from_numpy(steps)
        return other

    @property
    def longest(self) -> int:
        """Steps of the longest series, as far as windows are taken from it."""
        return int((self.offsets[1:] - self._begin).max())

    def windows(self, min_history: int, horizon: int, stride: int = 1) -> Windows:
        """Return every window with enough history behind it and a full horizon before it.

        Parameters
        ----------
        min_history : int
            Least number of steps of the series before the origin.
        horizon : int
            Steps of the series from the origin on.
        stride : int, default 1
            Take every so many origins of a series.

        Returns
        -------
        Windows
            In order of series and time.
        """
        first = (self.offsets[:-1] + min_history).maximum(self._begin)
        count = ((self.offsets[1:] - horizon - first) // stride + 1).clamp(min=0)
        series = torch.arange(len(count)).repeat_interleave(count)
        rank = torch.arange(int(count.sum())) - (count.cumsum(0) - count)[series]
        return Windows(first[series] + rank * stride, series)

    def last(self) -> Windows:
        """Return one window for each series: what follows its last step."""
        return Windows(self.offsets[1:], torch.arange(len(self.offsets) - 1))

    def history(self, windows: Windows, length: int) -> Tensor:
        """Return the last ``length`` steps before each origin, shape (n, L).

        Before the first step of a series its first value is repeated.
        """
        return self._before(self.values, windows, length)

    def history_observed(self, windows: Windows, length: int) -> Tensor:
        """Return which of those steps hold a value of the user's, bool of shape (n, L)."""
        observed = self._before(self.observed, windows, length)
        steps = torch.arange(length, 0, -1)
        return observed & (steps <= self.elapsed(windows)[:, None])

    def _before(self, source: Tensor, windows: Windows, length: int) -> Tensor:
        """Return what lies before each origin, the first step of the series standing in."""
        begin, start = windows.origin - length, self.offsets[windows.series]
        if length > len(source):
            return source[(begin[:, None] + torch.arange(length)).maximum(start[:, None])]
        # Rows of an overlapping view are copied ten times faster than they are gathered.
        rows = source.unfold(0, length, 1).index_select(0, begin.clamp(min=0))
        edge = begin < start
        if edge.any():
            index = begin[edge, None] + torch.arange(length)
            rows[edge] = source[index.maximum(start[edge, None])]
        return rows

    def future(self, windows: Windows, horizon: int) -> tuple[Tensor, Tensor]:
        """Return the steps from each origin on and which are observed, both (n, H)."""
        index = windows.origin[:, None] + torch.arange(horizon)
        return self.values[index], self.observed[index]

    def target_weights(self, windows: Windows, horizon: int) -> Tensor:
        """Return how much each step from the origin on counts in training, float of shape (n, H).

        That is zero where it is missing and else the user's weight, or one.
        """
        index = windows.origin[:, None] + torch.arange(horizon)
        observed = self.observed[index].float()
        return observed if self._weights is None else observed * self._weights[index]

    def past_means(
        self, windows: Windows, skip: int, width: int, count: int
    ) -> tuple[Tensor, Tensor]:
        """Return means over stretches of the far past.

        Parameters
        ----------
        windows : Windows
            Where to look.
        skip : int
            Steps before the origin that are left out.
        width, count : int
            Steps of a stretch, and number of stretches.

        Returns
        -------
        means : Tensor of shape (n, count)
            Oldest first; over the part inside the series.
        inside : bool Tensor of shape (n, count)
            Whether the stretch reaches into the series at all; elsewhere the mean is zero.
        """
        edges = windows.origin[:, None] - skip + width * torch.arange(-count, 1)
        edges = edges.maximum(self._start(windows))
        steps = edges.diff(dim=1)
        means = self._sums[edges].diff(dim=1) / steps.clamp(min=1)
        return means.float(), steps > 0

    def progress(self, windows: Windows) -> Tensor:
        """Return how far along its series each origin lies, from 0 to 1, shape (n,)."""
        begin, end = self._begin[windows.series], self.offsets[windows.series + 1]
        return (windows.origin - begin) / (end - begin)

    def numbers(self, windows: Windows) -> Tensor:
        """Return the number of each series among the fitted ones, or -1, shape (n,)."""
        return self._numbers[windows.series]

    def elapsed(self, windows: Windows) -> Tensor:
        """Return the steps from the start of its series to each origin, shape (n,)."""
        return windows.origin - self.offsets[windows.series]

    def times(self, windows: Windows, steps: Tensor) -> Tensor:
        """Return the time from the first stamp of the series to steps around each origin.

        From the origin on time goes by the usual gap, for later stamps are not known there.

        Parameters
        ----------
        windows : Windows
            Where, n of them.
        steps : int Tensor of shape (T,)
            Counted from the origin; negative ones lie before it.

        Returns
        -------
        Tensor of shape (n, T)
            In steps, or float64 in usual gaps.
        """
        elapsed = self.elapsed(windows)[:, None]
        steps = elapsed + steps
        if self._times is None:
            return steps
        known = steps.minimum(elapsed - 1).clamp(min=0)
        return self._times[self._start(windows) + known] + (steps - known)

    def _start(self, windows: Windows) -> Tensor:
        return self.offsets[windows.series][:, None]


def _filled(values: np.ndarray, offsets: np.ndarray, season: int) -> np.ndarray:
    """Fill missing steps with the value of a season before, else with the last one before.

    A series that begins with missing steps takes its mean, zero, there.
    """
    filled = values.copy()
    start = np.repeat(offsets[:-1], np.diff(offsets))
    gaps = np.flatnonzero(np.isnan(filled))
    for back in range(1, _SEASONS_BACK + 1):
        source = gaps - back * season
        usable = source >= start[gaps]
        filled[gaps[usable]] = values[source[usable]]
        gaps = gaps[np.isnan(filled[gaps])]
        if not gaps.size:
            return filled
    position = np.where(np.isnan(filled), -1, np.arange(len(filled)))
    last_seen = np.maximum.accumulate(position)
    filled = np.where(last_seen >= start, filled[np.maximum(last_seen, 0)], np.float32(0))
    return filled
