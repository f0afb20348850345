"""Forecasts from origins inside the data: `cross_validation` and `score` of an estimator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from sklearn.base import clone

from tsmamba.callbacks import current_fit, observed
from tsmamba.data.frame import frame_kind, to_native
from tsmamba.data.panel import Panel
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast import backtest
from tsmamba.forecast.columns import Bands
from tsmamba.forecast.defaults import Plan, check_parameters
from tsmamba.forecast.frames import FrameReader
from tsmamba.forecast.presets import Preset


class RollingOrigins(FrameReader):
    """What a forecaster can do with rows whose truth is known."""

    freq: str | int | None
    quantiles: Sequence[float] | None

    def _check_parameters(self) -> Preset:
        raise NotImplementedError

    def _plan(self, panel: Panel, preset: Preset) -> Plan:
        raise NotImplementedError

    @observed
    def cross_validation(
        self,
        df: Any,
        *,
        n_windows: int = 1,
        step_size: int | None = None,
        refit: bool = False,
        use_fitted: bool = False,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        base_only: bool = False,
    ) -> Any:
        """Forecast the end of each series from rolling origins, beside what came.

        Parameters
        ----------
        df : frame
            The series.
        n_windows : int >= 1, default 1
            Number of origins; the last leaves one horizon.
        step_size : int >= 1, optional
            Steps between origins; the horizon by default.
        refit : bool, default False
            Fit anew before each origin; otherwise once, before the first.
        use_fitted : bool, default False
            Fit nothing and use this estimator as it is.
        level, quantiles, base_only
            As in `predict`.

        Returns
        -------
        frame of the type that came in
            Columns of id, time, "cutoff", "y" and the forecasts, as
            ``utilsforecast.evaluation.evaluate`` takes them.

        Raises
        ------
        ParameterError, FrameError, NotFittedError
            If the arguments or the frame cannot be used, or nothing is fitted with ``use_fitted``.
        """
        check_parameters(n_windows=n_windows, step_size=step_size)
        bands = Bands.of(level, quantiles, self.quantiles)
        if use_fitted:
            self._check_of_series("cross_validation")
            panel, _ = self._known(df)
            horizon = self.horizon_
        else:
            preset = self._check_parameters()
            panel = self._inputs().panel(df, self.freq)
            horizon = self._plan(panel, preset).horizon
        step = step_size or horizon
        elapsed = backtest.cutoffs(panel, horizon, n_windows, step)
        rows = self._inputs().rows(df, panel, np.zeros_like(elapsed), panel.lengths)
        frames = []
        for first, count in [(k, 1) for k in range(n_windows)] if refit else [(0, n_windows)]:
            at = elapsed + first * step
            fitted = self if use_fitted else self._fitted_before(rows, panel, at, horizon)
            frames.append(fitted._backtest(rows, at, count, step, bands, base_only))
        table = to_native(pl.concat(frames), frame_kind(df))
        current_fit().tell("on_backtest", table)
        return table

    def score(self, test: Any, y: None = None, *, metric: str = "mase") -> float:
        """Judge forecasts of rows that follow the fitted history.

        Forecasts start at the end of the history and again after every horizon, each from all rows
        before it; nothing is fitted.

        Parameters
        ----------
        test : frame
            Rows after the history of each series; rows of the history itself are allowed.
        y : None
            Ignored; here for scikit-learn's interface.
        metric : {"mase", "mae", "mse", "rmse", "smape"}, default "mase"
            Error to take, averaged over series. Scaled errors compare with the seasonal naive
            forecast in the history, of the season that the data show.

        Returns
        -------
        float
            The negative error: higher is better, and with "mase" above -1 is better than the
            seasonal naive forecast was.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        ParameterError
            If there is no such metric.
        FrameError
            If the frame cannot be used or holds no row after the history.
        """
        self._check_of_series("score")
        backtest.check_metric(metric)
        history, _ = self._known(None)
        following = self._inputs().panel(test, self.freq_, self._fitted.scaling)
        joined = self._joined(test)
        panel, _ = self._known(joined)
        at = backtest.continued(history, following, panel)
        frame = self._backtest(joined, at, None, self.horizon_, Bands(()), False)
        scale = self._fitted.naive_scale if metric == "mase" else None
        return -backtest.series_error(panel, frame, metric, scale)

    def _fitted_before(
        self, df: Any, panel: Panel, elapsed: np.ndarray, horizon: int
    ) -> "RollingOrigins":
        """Return a clone fitted on the rows of each series before its origin."""
        history = self._inputs().rows(df, panel, np.zeros_like(elapsed), elapsed)
        fresh: RollingOrigins = clone(self)
        # What was found on all rows need not be found on few; a usual gap is measured anew.
        freq = panel.freq.every if self.freq is None else self.freq
        fresh.set_params(horizon=horizon, freq=freq).fit(history)
        return fresh

    def _backtest(
        self,
        df: Any,
        elapsed: np.ndarray,
        count: int | None,
        step: int,
        bands: Bands,
        base_only: bool,
    ) -> pl.DataFrame:
        """Forecast ``count`` origins of each series from ``elapsed`` on, or all there are."""

        def pick(store: WindowStore) -> Windows:
            windows = backtest.origins(store, elapsed, step)
            if count is None:
                return windows
            rank = (windows.origin - store.offsets[windows.series]).numpy()
            return windows.select(
                torch.from_numpy((rank - elapsed[windows.series.numpy()]) // step < count)
            )

        panel, covariates = self._known(df)
        windows, columns = backtest.forecast_values(
            self._fitted.model, panel, self.season_length_, pick, bands,
            covariates=covariates, base_only=base_only,
        )  # fmt: skip
        return backtest.backtest_frame(panel, windows, columns)
