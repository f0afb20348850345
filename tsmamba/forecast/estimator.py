"""`MambaForecaster`: frames in, frames out, around a `ForecastModel`."""

import os
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tsmamba.data.clock import Clock
from tsmamba.data.frame import FrameKind, frame_kind, to_native
from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import Panel, future_frame, panel_frame, read_panel
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.errors import ParameterError
from tsmamba.forecast import backtest
from tsmamba.forecast.columns import Bands
from tsmamba.forecast.defaults import Plan, check_parameters, plan
from tsmamba.forecast.fitting import Fitting
from tsmamba.forecast.network import CorrectorConfig
from tsmamba.forecast.progress import progress_bar
from tsmamba.forecast.saved import load_fitted, save_fitted
from tsmamba.training import Training

_MODES = ("full", "base")


class MambaForecaster(BaseEstimator):
    """Forecasts of many long series: a linear base in closed form and a Mamba that corrects it.

    Use it on series of thousands of steps: loads, sensors, traffic, logs counted by the hour. Below
    about 512 steps there is nothing for the Mamba to learn and the linear base answers alone. The
    correction is applied only as far as it proved its gain on parts of the history that it was not
    trained on.

    Parameters
    ----------
    horizon : int >= 1, optional
        Steps to forecast; one season of the data by default.
    context_length : int >= 1, optional
        Steps of history that a forecast sees; chosen by the length of the series, 8,192 at most.
    mode : {"full", "base"}, default "full"
        Train the corrector on your data, or use the linear base alone (seconds).
    quantiles : sequence of float in (0, 1), optional
        Quantiles that `predict` gives by default, in place of the 90 % interval.
    target_col : str or list of str, default "y"
        Column of the values; a list makes a wide frame of several series.
    id_col, time_col : str, default "unique_id" and "ds"
        Columns of the series id and the time stamp. Without the id column a frame is one series.
    freq : str or int, optional
        The step, such as "1h" or 1; found by default.
    season_length : int >= 1, optional
        Season in steps; found by default.
    calendar : bool, default True
        Let the corrector see the phase of day, week and year of temporal stamps.
    patch_length : int >= 1, optional
        Steps of a token of the corrector; near 48 and a part or multiple of the season by default.
    d_model, n_layers, d_state : int, default 32, 2 and 16
        Width, depth and states of the corrector.
    dropout : float in [0, 1), default 0.1
        Rate of dropout in it.
    training : Training, optional
        Knobs of training.
    random_state : int, optional
        Seed; fits with the same seed, data and number of threads are equal.
    verbose : int, default 0
        0 is silent, 1 shows a progress bar.

    Attributes
    ----------
    horizon_, context_length_, season_length_ : int
        The sizes in use.
    freq_ : Frequency
        The step of the series.
    report_ : dict
        Seconds, windows per second, validation errors of base and correction, the gate, and
        whether the corrector is used or why not.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> t = np.arange(400)
    >>> df = pl.DataFrame({"ds": t, "y": np.sin(2 * np.pi * t / 24)})
    >>> forecaster = MambaForecaster(horizon=24, mode="base").fit(df)
    >>> forecaster.predict().columns
    ['ds', 'MambaForecaster', 'MambaForecaster-lo-90', 'MambaForecaster-hi-90']
    """

    def __init__(
        self,
        horizon: int | None = None,
        *,
        context_length: int | None = None,
        mode: str = "full",
        quantiles: Sequence[float] | None = None,
        target_col: str | Sequence[str] = "y",
        id_col: str = "unique_id",
        time_col: str = "ds",
        freq: str | int | None = None,
        season_length: int | None = None,
        calendar: bool = True,
        patch_length: int | None = None,
        d_model: int = 32,
        n_layers: int = 2,
        d_state: int = 16,
        dropout: float = 0.1,
        training: Training | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.horizon = horizon
        self.context_length = context_length
        self.mode = mode
        self.quantiles = quantiles
        self.target_col = target_col
        self.id_col = id_col
        self.time_col = time_col
        self.freq = freq
        self.season_length = season_length
        self.calendar = calendar
        self.patch_length = patch_length
        self.d_model = d_model
        self.n_layers = n_layers
        self.d_state = d_state
        self.dropout = dropout
        self.training = training
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> "MambaForecaster":
        """Set parameters, those of a default `Training` included.

        Parameters
        ----------
        **params
            By name; ``training__lr`` and its like reach the nested estimator.

        Returns
        -------
        MambaForecaster
            Itself.
        """
        if self.training is None and any(name.startswith("training__") for name in params):
            self.training = Training()
        super().set_params(**params)
        return self

    def fit(self, df: Any, y: None = None, *, val_size: int = 0) -> "MambaForecaster":
        """Fit on a frame of series.

        Parameters
        ----------
        df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
            One row for each series and stamp.
        y : None
            Ignored; here for scikit-learn's interface.
        val_size : int >= 0, default 0
            Steps at the end of each series to validate the corrector on and to leave out of
            training. By default parts of every stretch of time are used, which misleads less.

        Returns
        -------
        MambaForecaster
            Itself.

        Raises
        ------
        ParameterError
            If a parameter is out of range.
        FrameError
            If the frame cannot be used; nothing of an earlier fit is changed then.
        """
        self._check_parameters()
        check_parameters(least=0, val_size=val_size)
        training = Training() if self.training is None else self.training
        panel = self._read(df, freq=self.freq)
        sizes = self._plan(panel)
        clock = Clock.of(panel, None if self.calendar else ())
        config = None
        if self.mode == "full":
            tokens = max(1, sizes.context.length // sizes.patch)
            config = CorrectorConfig(
                history=tokens * sizes.patch,
                horizon=sizes.horizon,
                patch=sizes.patch,
                n_calendar=clock.width,
                d_model=self.d_model,
                n_layers=self.n_layers,
                d_state=self.d_state,
                dropout=self.dropout,
            )
        store = WindowStore(panel, sizes.season)
        fitting = Fitting(store, clock, sizes, config, training, val_size, self.random_state)
        with progress_bar(training.steps, show=self.verbose > 0) as on_step:
            model, report = fitting.run(on_step)
        self.horizon_ = sizes.horizon
        self.context_length_ = sizes.context.length
        self.season_length_ = sizes.season
        self.freq_ = panel.freq
        self.report_ = report
        self._model, self._panel, self._kind = model, panel, frame_kind(df)
        return self

    def predict(
        self,
        df: Any = None,
        *,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        base_only: bool = False,
    ) -> Any:
        """Forecast the steps that follow each series.

        Parameters
        ----------
        df : frame, optional
            History to start from, in place of the fitted one: newer rows, or other series. Nothing
            is fitted to it.
        level : sequence of float in (0, 100), optional
            Contents of central intervals in percent, such as [80, 90]. ``lo-90`` is the 5 %
            quantile.
        quantiles : sequence of float in (0, 1), optional
            Quantiles, in place of levels.
        base_only : bool, default False
            Leave the corrector out, to see what it adds.

        Returns
        -------
        frame of the type that came in
            Columns of id and time, "target" for wide frames, "MambaForecaster" and one for each
            bound or quantile; ``horizon_`` rows a series.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        ParameterError, FrameError
            If the arguments or the frame cannot be used.
        """
        check_is_fitted(self)
        bands = Bands.of(level, quantiles, self.quantiles)
        panel = self._panel if df is None else self._read(df, freq=self.freq_, known=True)
        _, columns = backtest.forecast_values(
            self._model, panel, self.season_length_, WindowStore.last, bands, base_only=base_only
        )
        frame = future_frame(panel, self.horizon_).with_columns(
            pl.Series(name, values.ravel()) for name, values in columns.items()
        )
        return to_native(frame, self._kind if df is None else frame_kind(df))

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
            check_is_fitted(self)
            panel = self._read(df, freq=self.freq_, known=True)
            horizon = self.horizon_
        else:
            self._check_parameters()
            panel = self._read(df, freq=self.freq)
            horizon = self._plan(panel).horizon
        step = step_size or horizon
        elapsed = backtest.cutoffs(panel, horizon, n_windows, step)
        frames = []
        for first, count in [(k, 1) for k in range(n_windows)] if refit else [(0, n_windows)]:
            at = elapsed + first * step
            fitted = self if use_fitted else self._fitted_before(panel, at, horizon)
            windows, columns = fitted._forecast_from(panel, at, count, step, bands, base_only)
            frames.append(backtest.backtest_frame(panel, windows, columns))
        return to_native(pl.concat(frames), frame_kind(df))

    def score(self, test: Any, y: None = None) -> float:
        """Judge forecasts of rows that follow the fitted history.

        Forecasts start at the end of the history and again after every horizon, each from all rows
        before it; nothing is fitted.

        Parameters
        ----------
        test : frame
            Rows after the history of each series; rows of the history itself are allowed.
        y : None
            Ignored; here for scikit-learn's interface.

        Returns
        -------
        float
            Negative mean absolute scaled error, averaged over series: higher is better, and above
            -1 is better than the seasonal naive forecast was in the history.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If the frame cannot be used or holds no row after the history.
        """
        check_is_fitted(self)
        following = self._read(test, freq=self.freq_, known=True)
        panel, at = backtest.continued(self._panel, following, self.context_length_)
        windows, columns = self._forecast_from(panel, at, None, self.horizon_, Bands(()), False)
        frame = backtest.backtest_frame(panel, windows, columns)
        return -backtest.series_mase(panel, self._panel, self.season_length_, frame)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted forecaster to one file, without pickle.

        Parameters
        ----------
        path : str or path
            The file, such as "model.tsm"; replaced if it exists.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        ModelFileError
            If the file cannot be written.
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        parameters["training"] = None if self.training is None else self.training.get_params()
        settings = {
            "parameters": parameters,
            "season": self.season_length_,
            "report": self.report_,
            "library": self._kind.library,
        }
        save_fitted(path, settings, self._model, self._panel)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "MambaForecaster":
        """Read a forecaster that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        MambaForecaster
            Fitted, with the same forecasts.

        Raises
        ------
        ModelFileError
            If the file is missing, damaged, altered, or of another class or version.
        """
        settings, model, panel = load_fitted(path)
        parameters = settings["parameters"]
        if parameters["training"] is not None:
            parameters["training"] = Training(**parameters["training"])
        self = cls(**parameters)
        self.horizon_ = model.horizon
        self.context_length_ = model.context.length
        self.season_length_ = settings["season"]
        self.freq_ = panel.freq
        self.report_ = settings["report"]
        self._model, self._panel = model, panel
        self._kind = FrameKind(settings["library"])
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any data are read."""
        check_parameters(
            horizon=self.horizon,
            context_length=self.context_length,
            season_length=self.season_length,
            patch_length=self.patch_length,
        )
        check_parameters(d_model=self.d_model, n_layers=self.n_layers, d_state=self.d_state)
        if self.mode not in _MODES:
            raise ParameterError(f"mode={self.mode!r}; pass one of {', '.join(map(repr, _MODES))}")
        check_parameters(least=0, random_state=self.random_state)
        if not isinstance(self.dropout, Real) or not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout={self.dropout!r}; pass a number from 0 to below 1")
        if self.training is not None and not isinstance(self.training, Training):
            raise ParameterError(f"training={self.training!r}; pass a tsmamba.Training or None")
        if self.training is not None:
            self.training.check()
        Bands.of(None, None, self.quantiles)

    def _read(self, df: Any, *, freq: str | int | Frequency | None, known: bool = False) -> Panel:
        return read_panel(
            df,
            id_col=self.id_col,
            time_col=self.time_col,
            target_col=self.target_col,
            freq=freq,
            scaling=self._panel if known else None,
        )

    def _plan(self, panel: Panel) -> Plan:
        return plan(
            panel,
            horizon=self.horizon,
            context_length=self.context_length,
            season_length=self.season_length,
            patch_length=self.patch_length,
        )

    def _fitted_before(self, panel: Panel, elapsed: np.ndarray, horizon: int) -> "MambaForecaster":
        """Return a clone fitted on the steps of a panel before each origin."""
        history = panel_frame(panel, np.zeros_like(elapsed), elapsed)
        every = panel.freq.every
        fresh: MambaForecaster = clone(self)
        return fresh.set_params(horizon=horizon, freq=every).fit(history)

    def _forecast_from(
        self,
        panel: Panel,
        elapsed: np.ndarray,
        count: int | None,
        step: int,
        bands: Bands,
        base_only: bool,
    ) -> tuple[Windows, dict[str, np.ndarray]]:
        """Forecast ``count`` origins of each series from ``elapsed`` on, or all there are."""

        def pick(store: WindowStore) -> Windows:
            windows = backtest.origins(store, elapsed, step)
            if count is None:
                return windows
            rank = (windows.origin - store.offsets[windows.series]).numpy()
            return windows.select(
                torch.from_numpy((rank - elapsed[windows.series.numpy()]) // step < count)
            )

        return backtest.forecast_values(
            self._model, panel, self.season_length_, pick, bands, base_only=base_only
        )
