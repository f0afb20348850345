"""`MambaForecaster`: frames in, frames out, around a `ForecastModel`."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tsmamba.callbacks import observed
from tsmamba.data.frame import frame_kind, to_native
from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import Panel, Scaling, future_frame
from tsmamba.errors import GuidanceWarning, ParameterError
from tsmamba.forecast.advice import concern
from tsmamba.forecast.backtest import forecast_ahead, naive_scales
from tsmamba.forecast.columns import Bands
from tsmamba.forecast.defaults import Plan, check_parameters, choose_season, plan
from tsmamba.forecast.embedding import Embeddings
from tsmamba.forecast.events.model import EventModel
from tsmamba.forecast.finetuning import FineTuning
from tsmamba.forecast.fitting import Fitting
from tsmamba.forecast.network import CorrectorConfig
from tsmamba.forecast.presets import AUTO, Preset, get_preset
from tsmamba.forecast.pretrained import pretrained_corrector
from tsmamba.forecast.recipe import Recipe
from tsmamba.forecast.saved import Fitted, load_fitted, save_fitted
from tsmamba.forecast.settings import Network
from tsmamba.forecast.source import Source
from tsmamba.training import Training

_MODES = ("fast", "full", "base")


class MambaForecaster(FineTuning, Embeddings):
    """Forecasts of many long series: a linear base in closed form and a Mamba that corrects it.

    Use it on series of thousands of steps: loads, sensors, traffic, logs counted by the hour. Below
    about 512 steps there is nothing for the Mamba to learn and the linear base answers alone. The
    correction is applied only as far as it proved its gain on parts of the history that it was not
    trained on.

    Parameters
    ----------
    horizon : int >= 1, optional
        Steps to forecast, one season of the data by default; of events bins of time, 3.
    context_length : int >= 1, optional
        Steps of history that a forecast sees; chosen by the length of the series, 8,192 at most.
    preset : str, default "auto"
        Kind of the data: "sensor", "energy", "logs", "ehr", "finance" or "short", which settles
        what you leave open. "auto" goes by the data and warns where a simpler model will do.
    mode : {"fast", "full", "base"}, default "fast"
        Use the corrector that comes with the package (seconds), train one on your data, too
        (minutes) and keep the better, or leave it out.
    quantiles : sequence of float in (0, 1), optional
        Quantiles that `predict` gives by default, in place of the 90 % interval.
    target_col : str or list of str, default "y"
        Column of the values; a list makes a wide frame of several series.
    multivariate : bool, default False
        Let the columns of a wide frame tell about each other, where that proves its gain.
    id_col, time_col : str, default "unique_id" and "ds"
        Columns of the series id and the time stamp. Without the id column a frame is one series.
    freq : str or int, optional
        The step, such as "1h" or 1; found by default. "uneven" takes each row as a step, whatever
        its distance in time.
    season_length : int >= 1, optional
        Season in steps; found by default.
    past_covariates, future_covariates, static_covariates : sequence of str, optional
        Columns of numbers, categories or booleans: known up to now, known ahead as well, and one
        value a series. Only ``mode="full"`` learns from those of the past and the static ones.
    weight_col : str, optional
        Column of sample weights, from 0 on, for training.
    calendar : bool, optional
        Let a corrector that is trained see the phase of day, week and year; true by default.
    network : Network, optional
        Shape of the corrector in ``mode="full"``.
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
        Seconds, validation errors of base and correction, the gate, and whether the corrector is
        used or why not. Of events: what was set aside, and errors by code on stays held out.

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
        preset: str = "auto",
        mode: str = "fast",
        quantiles: Sequence[float] | None = None,
        target_col: str | Sequence[str] = "y",
        multivariate: bool = False,
        id_col: str = "unique_id",
        time_col: str = "ds",
        freq: str | int | None = None,
        season_length: int | None = None,
        past_covariates: Sequence[str] | None = None,
        future_covariates: Sequence[str] | None = None,
        static_covariates: Sequence[str] | None = None,
        weight_col: str | None = None,
        calendar: bool | None = None,
        network: Network | None = None,
        training: Training | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.horizon = horizon
        self.context_length = context_length
        self.preset = preset
        self.mode = mode
        self.quantiles = quantiles
        self.target_col = target_col
        self.multivariate = multivariate
        self.id_col = id_col
        self.time_col = time_col
        self.freq = freq
        self.season_length = season_length
        self.past_covariates = past_covariates
        self.future_covariates = future_covariates
        self.static_covariates = static_covariates
        self.weight_col = weight_col
        self.calendar = calendar
        self.network = network
        self.training = training
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> "MambaForecaster":
        """Set parameters, those of a default `Training` and `Network` included.

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
        if self.network is None and any(name.startswith("network__") for name in params):
            self.network = Network()
        super().set_params(**params)
        return self

    @observed
    def fit(self, df: Any, y: None = None, *, val_size: int = 0) -> "MambaForecaster":
        """Fit on a frame of series.

        Parameters
        ----------
        df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
            A row for each series and stamp; with preset "ehr" also a row for each event of stays.
        y : None
            Ignored; here for scikit-learn's interface.
        val_size : int >= 0, default 0
            Steps at the end of each series to judge the corrector on and leave out of training; by
            default each quarter of the time is left out in turn, which misleads less.

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
        preset = self._check_parameters()
        check_parameters(least=0, val_size=val_size)
        columns = self._event_columns(df)
        if columns is not None:
            return self._fit_events(df, columns, val_size)
        inputs = self._inputs()
        panel = inputs.weighted(df, inputs.panel(df, self.freq))
        sizes = self._plan(panel, preset)
        covariates, encoding = inputs.covariates(df, panel)
        calendar = preset.calendar if self.calendar is None else self.calendar
        source = Source.of(panel, sizes.season, None if calendar else (), covariates)
        recipe = self._recipe(sizes, source, preset)
        self._warn(panel, sizes, recipe)
        fitting = Fitting(
            source, sizes, recipe, val_size, self.random_state, multivariate=self.multivariate
        )
        model, report = self._run(fitting)
        fitted = Fitted(
            model=model,
            scaling=Scaling.of(panel),
            # Of the data's own season, whatever was set: scores of a search must be in one unit.
            naive_scale=naive_scales(panel, choose_season(panel)),
            history=self._kept(df, panel, model, sizes.season),
            encoding=encoding,
            kind=frame_kind(df),
        )
        self.horizon_ = sizes.horizon
        self.context_length_ = sizes.context.length
        self.season_length_ = sizes.season
        self.freq_ = panel.freq
        self.report_ = report
        self._fitted = fitted
        self._forget_events()
        return self

    def predict(
        self,
        df: Any = None,
        *,
        X_df: Any = None,
        future: Any = None,
        horizon: int | None = None,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        context_length: int | None = None,
        base_only: bool = False,
    ) -> Any:
        """Forecast the steps that follow each series.

        Parameters
        ----------
        df : frame, optional
            History to start from, in place of the fitted one: newer rows, or other series. Nothing
            is fitted to it. After a fit on events it must be given: the events so far.
        X_df : frame, optional
            Of events, the rows to forecast: subject, time and, if not all are wanted, code. By
            default every code at the end of each bin of the horizon.
        future : frame, optional
            Covariates that are known ahead, a row for each series and step; `make_future_frame`
            lists these.
        horizon : int >= 1, optional
            Steps to forecast. Beyond ``horizon_`` forecasts are made from forecasts, and intervals
            widen with the square root of the step.
        level : sequence of float in (0, 100), optional
            Contents of central intervals in percent, such as [80, 90]. ``lo-90`` is the 5 %
            quantile.
        quantiles : sequence of float in (0, 1), optional
            Quantiles, in place of levels.
        context_length : int >= 1, optional
            Steps of history that the corrector reads, whatever it was trained on; what the base
            reads stays. More than the fit asks for ``df``, as only so much history is kept.
        base_only : bool, default False
            Leave the corrector out, to see what it adds.

        Returns
        -------
        frame of the type that came in
            Columns of id and time, "target" for wide frames, "MambaForecaster" and one for each
            bound or quantile; ``horizon_`` rows a series. Of events: subject, time, code and these.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        ParameterError, FrameError
            If the arguments or the frames cannot be used.
        """
        check_is_fitted(self)
        check_parameters(horizon=horizon, context_length=context_length)
        bands = Bands.of(level, quantiles, self.quantiles)
        if self._events is not None:
            of_series = {"future": future, "context_length": context_length, "base_only": base_only}
            return self._answer_events(df, X_df, horizon, bands, of_series)
        if X_df is not None:
            raise ParameterError(
                "X_df= is for events, and the forecaster was fitted on series; pass future= in its "
                "place, or fit on events with preset='ehr'"
            )
        horizon = horizon or self.horizon_
        panel, covariates = self._known(df)
        inputs, fitted, model = self._inputs(), self._fitted, self._fitted.model
        if context_length is not None:
            model = model.with_history(context_length)
        covariates = inputs.ahead(covariates, panel, fitted.encoding, future, horizon)
        columns = forecast_ahead(
            model, panel, self.season_length_, horizon, bands,
            covariates=covariates, base_only=base_only,
        )  # fmt: skip
        frame = future_frame(panel, horizon).with_columns(
            pl.Series(name, values.ravel()) for name, values in columns.items()
        )
        return to_native(frame, fitted.kind if df is None else frame_kind(df))

    def plot(
        self,
        *,
        future: Any = None,
        level: Sequence[float] | None = None,
        truth: Any = None,
        path: str | Path | None = None,
    ) -> Any:
        """Draw the end of the history and what is forecast to follow.

        Parameters
        ----------
        future, level
            As in `predict`.
        truth : frame, optional
            What came after, drawn over the forecast.
        path : str or path, optional
            File to write.

        Returns
        -------
        matplotlib.figure.Figure
            See `tsmamba.plotting.plot_forecast`, which draws forecasts of any other rows, too.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        MissingExtraError
            Without matplotlib.
        """
        self._check_of_series("plot")
        from tsmamba.plotting import plot_forecast

        forecast = self.predict(future=future, level=level)
        return plot_forecast(
            self._fitted.history,
            forecast,
            truth=truth,
            id_col=self.id_col,
            time_col=self.time_col,
            target_col=self.target_col,
            path=path,
        )

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
        for name in ("training", "network"):
            nested = parameters[name]
            parameters[name] = None if nested is None else nested.get_params()
        settings = {"parameters": parameters, "report": self.report_}
        if self._events is not None:
            save_fitted(path, settings, self._events)
            return
        settings |= {"season": self.season_length_, "freq": self.freq_.to_dict()}
        save_fitted(path, settings, self._fitted)

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
        settings, fitted = load_fitted(path)
        parameters = settings["parameters"]
        for name, nested in (("training", Training), ("network", Network)):
            if parameters[name] is not None:
                parameters[name] = nested(**parameters[name])
        self = cls(**parameters)
        if isinstance(fitted, EventModel):
            self._took_events(fitted, settings["report"])
            return self
        self.horizon_ = fitted.model.horizon
        self.context_length_ = fitted.model.context.length
        self.season_length_ = settings["season"]
        self.freq_ = Frequency.from_dict(settings["freq"])
        self.report_ = settings["report"]
        self._fitted = fitted
        return self

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.estimator_type = "forecaster"
        tags.target_tags.required = False
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None and self.mode == "full"
        return tags

    def _check_parameters(self) -> Preset:
        """Refuse parameters that make no sense, before any data are read; return the preset."""
        check_parameters(
            horizon=self.horizon,
            context_length=self.context_length,
            season_length=self.season_length,
        )
        check_parameters(least=0, random_state=self.random_state)
        preset = AUTO if self.preset == "auto" else get_preset(self.preset)
        if self.mode not in _MODES:
            raise ParameterError(f"mode={self.mode!r}; pass one of {', '.join(map(repr, _MODES))}")
        for name, kind in (("training", Training), ("network", Network)):
            nested = getattr(self, name)
            if nested is None:
                continue
            if not isinstance(nested, kind):
                raise ParameterError(f"{name}={nested!r}; pass a tsmamba.{kind.__name__} or None")
            nested.check()
        self._check_multivariate()
        Bands.of(None, None, self.quantiles)
        return preset

    def _check_multivariate(self) -> None:
        if not isinstance(self.multivariate, bool):
            raise ParameterError(f"multivariate={self.multivariate!r}; pass True or False")
        if self.multivariate and (isinstance(self.target_col, str) or len(self.target_col) < 2):
            raise ParameterError(
                f"multivariate=True with target_col={self.target_col!r}, a single column; pass the "
                'names of two columns or more of a wide frame, as in target_col=["load", "heat"] '
                "(df.pivot makes one of a long frame), or leave multivariate out"
            )

    def _plan(self, panel: Panel, preset: Preset) -> Plan:
        network = self.network or Network()
        return plan(
            panel,
            horizon=self.horizon,
            context_length=self.context_length,
            season_length=self.season_length or preset.season_length,
            patch_length=network.patch_length or preset.patch_length,
            most_context=preset.context_length,
        )

    def _recipe(self, sizes: Plan, source: Source, preset: Preset) -> Recipe:
        """Return where the corrector comes from."""
        mode = preset.mode if self.mode == "fast" else self.mode
        if mode == "base":
            return Recipe()
        bundled = pretrained_corrector()
        if mode == "fast":
            return Recipe(bundled.config, bundled)
        network, training = self.network or Network(), self.training or Training()
        tokens = max(1, sizes.context.length // sizes.patch)
        config = CorrectorConfig(
            history=tokens * sizes.patch,
            horizon=sizes.horizon,
            patch=sizes.patch,
            n_context=source.n_context,
            d_model=network.d_model,
            n_layers=network.n_layers,
            d_state=network.d_state,
            dropout=network.dropout,
            spread=training.loss == "student-t",
        )
        return Recipe(config, bundled, training)

    def _warn(self, panel: Panel, sizes: Plan, recipe: Recipe) -> None:
        """Say once where a simpler model is the better choice."""
        if recipe.config is None or self.preset != "auto":
            return
        if (sentence := concern(panel, sizes.season, sizes.horizon)) is not None:
            warnings.warn(sentence, GuidanceWarning, stacklevel=4)
