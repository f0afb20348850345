"""Errors of forecasts, summed window by window so that no forecast need be kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Problem
from tsmamba.data.windows import Windows
from tsmamba.metrics import naive_scale

_STRETCHES = 24  # of the horizon, for the error against the step ahead


@dataclass
class Scores:
    """Errors on standardised values; missing values are not scored.

    Examples
    --------
    >>> scores = Scores(horizon=2)
    >>> truth, forecast = torch.tensor([[1.0, 2.0]]), Forecast(torch.tensor([[1.0, 4.0]]))
    >>> scores.add(truth, torch.tensor([[True, True]]), forecast)
    >>> scores.summary()["mse"], scores.summary()["mae"]
    (2.0, 1.0)
    """

    horizon: int
    windows: int = 0
    _squared: Tensor = field(init=False)
    _absolute: Tensor = field(init=False)
    _count: Tensor = field(init=False)
    _inside: dict[int, float] = field(default_factory=dict)
    _interval: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._squared, self._absolute, self._count = torch.zeros(3, self.horizon).double()

    def add(self, truth: Tensor, observed: Tensor, forecast: Forecast) -> None:
        """Count a batch of windows in.

        Parameters
        ----------
        truth, observed : Tensor of shape (n, H)
            What came, and which of it is real.
        forecast : Forecast
            What was said.
        """
        error = (forecast.point - truth).double() * observed
        self.windows += len(truth)
        self._squared += error.square().sum(0)
        self._absolute += error.abs().sum(0)
        self._count += observed.sum(0)
        for level, (low, high) in forecast.bands.items():
            inside = (low <= truth) & (truth <= high) & observed
            outside = (low - truth).clamp(min=0) + (truth - high).clamp(min=0)
            # The interval score of Gneiting and Raftery: width, and a fine for what lies outside.
            score = (high - low) + outside * 2 / (1 - level / 100)
            self._inside[level] = self._inside.get(level, 0.0) + float(inside.sum())
            total = float((score.double() * observed).sum())
            self._interval[level] = self._interval.get(level, 0.0) + total

    def summary(self) -> dict[str, Any]:
        """Return means over all that was counted.

        Returns
        -------
        dict
            ``mse``, ``mae``, ``mse_ahead`` (over 24 stretches of the horizon), and for each level
            ``coverage_80`` and ``interval_score_80``.
        """
        count = float(self._count.sum())
        parts = zip(
            self._squared.tensor_split(_STRETCHES),
            self._count.tensor_split(_STRETCHES),
            strict=True,
        )
        ahead = [float(error.sum() / n.sum()) for error, n in parts if n.sum() > 0]
        return {
            "mse": float(self._squared.sum()) / count,
            "mae": float(self._absolute.sum()) / count,
            **{f"coverage_{level}": n / count for level, n in self._inside.items()},
            **{f"interval_score_{level}": x / count for level, x in self._interval.items()},
            "mse_ahead": [round(x, 5) for x in ahead],
        }


@dataclass
class CompetitionScores:
    """Errors of the M4 competition: sMAPE in percent, MASE, and OWA, their mean against Naive2."""

    problem: Problem
    windows: int = 0
    _smape: float = 0.0
    _mase: float = 0.0

    def add(self, windows: Windows, truth: Tensor, point: Tensor) -> None:
        """Count a batch in; the competition has one window a series."""
        series = windows.series.numpy()
        loc, scale = self.problem.panel.loc[series, None], self.problem.panel.scale[series, None]
        y, forecast = (x.double().numpy() * scale + loc for x in (truth, point))
        error = np.abs(y - forecast)
        self._smape += float((200 * error / (np.abs(y) + np.abs(forecast))).mean(1).sum())
        self._mase += float((error.mean(1) / self._naive_scales[series]).sum())
        self.windows += len(series)

    def summary(self) -> Mapping[str, float]:
        """Return ``smape``, ``mase`` and ``owa``."""
        smape, mase = self._smape / self.windows, self._mase / self.windows
        naive2 = self.problem.source.naive2
        if naive2 is None:
            return {"smape": smape, "mase": mase}
        owa = (smape / naive2.smape + mase / naive2.mase) / 2
        return {"smape": smape, "mase": mase, "owa": owa}

    @cached_property
    def _naive_scales(self) -> np.ndarray:
        """Mean error of the seasonal naive forecast before the test part, the unit of MASE."""
        panel, source = self.problem.panel, self.problem.source
        return np.array(
            [
                naive_scale(panel.restored(s)[: -source.test_steps], source.season)
                for s in range(len(panel))
            ]
        )
