"""A set made ready for one horizon: standardised by its training part, cut into windows.

Series lie end to end in one store of values; the channels of a multivariate series are equally long
and side by side. A window is an index into it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
import torch
from torch import Tensor

from benchmarks.forecast.sets import ForecastSet
from tsmamba.data.panel import Panel, panel_frame, read_panel
from tsmamba.data.windows import Windows, WindowStore


@dataclass(frozen=True)
class Origins:
    """Steps at which forecasts start, each for all channels at once.

    Parameters
    ----------
    first : Windows
        Windows of the first channel, n of them.
    apart : int Tensor of shape (n,)
        Steps in the store from a channel to the next.
    channels : int
        Number of channels, C.
    """

    first: Windows
    apart: Tensor
    channels: int

    def __len__(self) -> int:
        return len(self.first)

    def at(self, index: Tensor) -> Windows:
        """Return n * C windows, those of one origin side by side."""
        channel = torch.arange(self.channels)
        first = self.first.select(index)
        origin = first.origin[:, None] + self.apart[index, None] * channel
        series = first.series[:, None] + channel
        return Windows(origin.flatten(), series.flatten())

    def batches(self, size: int) -> Iterator[Windows]:
        """Give all windows in batches of about ``size``, every origin whole."""
        for index in torch.arange(len(self)).split(max(1, size // self.channels)):
            yield self.at(index)

    def thinned(self, most: int) -> "Origins":
        """Return origins of at most about ``most`` windows, evenly spread."""
        count = max(1, most // self.channels)
        if len(self) <= count:
            return self
        index = torch.linspace(0, len(self) - 1, count).round().long()
        return Origins(self.first.select(index), self.apart[index], self.channels)


@dataclass(frozen=True)
class Problem:
    """What a contestant is given: a set and a horizon.

    Parameters
    ----------
    source : ForecastSet
        The set.
    horizon : int
        Steps to forecast, H.
    panel : Panel
        All series in units of their training part.
    store : WindowStore
        Their values, gaps filled from the past.
    train_frame : polars.DataFrame
        Rows of the training part, in the units of the source.
    """

    source: ForecastSet
    horizon: int
    panel: Panel
    store: WindowStore
    train_frame: pl.DataFrame

    @classmethod
    def of(cls, source: ForecastSet, horizon: int) -> "Problem":
        """Read a set, which is kept for the next horizon."""
        return cls(source, horizon, *_prepared(source))

    @property
    def channels(self) -> int:
        """Channels of a multivariate series, C."""
        return len(self.source.targets)

    @property
    def n_ids(self) -> int:
        """Number of multivariate series."""
        return len(self.panel) // self.channels

    def train(self, lookback: int) -> Origins:
        """Return the origins with ``lookback`` steps behind and H steps ahead in training."""
        _, end = self._borders()
        return self._origins(np.full_like(end, lookback), end)

    @property
    def validation(self) -> Origins:
        """Origins with H steps ahead in the validation part."""
        _, begin = self._borders()
        return self._origins(begin, begin + self.source.validation_steps)

    @property
    def test(self) -> Origins:
        """Origins with H steps ahead in the test part, all of them."""
        length, begin = self._borders()
        return self._origins(begin + self.source.validation_steps, length)

    def _borders(self) -> tuple[np.ndarray, np.ndarray]:
        """Return length and length of the training part of each multivariate series."""
        length = self.panel.lengths[:: self.channels]
        return length, _training_steps(self.source, length)

    def _origins(self, begin: np.ndarray, end: np.ndarray) -> Origins:
        """Return the origins from ``begin`` on whose horizon lies before ``end``, in steps."""
        count = np.maximum(end - self.horizon + 1 - begin, 0)
        row = np.repeat(np.arange(self.n_ids), count)
        rank = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        series = row * self.channels
        origin = self.panel.offsets[series] + begin[row] + rank
        windows = Windows(torch.from_numpy(origin), torch.from_numpy(series))
        return Origins(windows, torch.from_numpy(self.panel.lengths[series]), self.channels)


@lru_cache(maxsize=2)
def _prepared(source: ForecastSet) -> tuple[Panel, WindowStore, pl.DataFrame]:
    frame, targets = source.read(), target_col(source)
    raw = read_panel(frame, target_col=targets)
    end = _training_steps(source, raw.lengths)
    train_frame = panel_frame(raw, np.zeros_like(end), end)
    train = read_panel(train_frame, target_col=targets, freq=raw.freq)
    panel = read_panel(frame, target_col=targets, freq=raw.freq, scaling=train)
    return panel, WindowStore(panel, source.season), train_frame


def _training_steps(source: ForecastSet, length: np.ndarray) -> np.ndarray:
    return length - source.validation_steps - source.test_steps


def target_col(source: ForecastSet) -> str | list[str]:
    """Return the targets as readers of frames take them: one name, or a list for a wide frame."""
    return list(source.targets) if len(source.targets) > 1 else source.targets[0]
