"""`MambaForecaster` as anyone would use it: no setting but horizon, mode and seed."""

import torch
from torch import Tensor

from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Problem, target_col
from tsmamba import MambaForecaster
from tsmamba.data.windows import Windows
from tsmamba.forecast.backtest import forecast_values
from tsmamba.forecast.columns import POINT, Bands

_LEVELS = (80, 90)


class Tsmamba:
    """Fitted on the rows of the training part alone; it needs no validation part.

    Parameters
    ----------
    mode : {"base", "fast", "full"}
        As in `MambaForecaster`.
    context_length : int, optional
        As there; the harness leaves it open.
    """

    def __init__(self, mode: str, context_length: int | None = None) -> None:
        self._mode = mode
        self._context_length = context_length

    def fit(self, problem: Problem, seed: int) -> None:
        """Fit on a frame."""
        self._panel = problem.panel
        self._forecaster = MambaForecaster(
            horizon=problem.horizon,
            context_length=self._context_length,
            mode=self._mode,
            target_col=target_col(problem.source),
            random_state=seed,
        ).fit(problem.train_frame)

    def forecast(self, windows: Windows) -> Forecast:
        """Forecast with intervals, from as much history as the context holds."""
        # `predict` takes one origin a series; this is the same forecast at any origins.
        _, columns = forecast_values(
            self._forecaster._fitted.model,
            self._panel,
            self._forecaster.season_length_,
            lambda store: windows,
            Bands.of(_LEVELS, None),
        )
        # Forecasts come in the units of the source.
        series = windows.series.numpy()
        loc, scale = self._panel.loc[series, None], self._panel.scale[series, None]

        def standardised(name: str) -> Tensor:
            return torch.from_numpy((columns[name] - loc) / scale).float()

        bands = {
            level: (standardised(f"{POINT}-lo-{level}"), standardised(f"{POINT}-hi-{level}"))
            for level in _LEVELS
        }
        return Forecast(standardised(POINT), bands)
