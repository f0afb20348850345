"""One fit in one MLflow run: what is logged, in few requests, to a server that may be away."""

import importlib.util
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
import torch
from sklearn.base import BaseEstimator

from tsmamba._memory import peak_memory_mb
from tsmamba._optional import require
from tsmamba.callbacks import Fit
from tsmamba.data.frame import column_names, to_polars
from tsmamba.errors import FrameError
from tsmamba.forecast.columns import POINT
from tsmamba.mlflow.flavor import log_model
from tsmamba.plotting import plot_forecast

# Limits of MLflow: metrics and parameters of a request, and characters of a parameter or tag.
_MOST_METRICS = 1_000
_MOST_PARAMETERS = 100
_LONGEST_VALUE = 6_000
# Seconds between two requests, so that a curve can be watched while it grows.
_PAUSE = 5.0
# MLflow retries for minutes. A fit waits for seconds, unless the user has set these.
_IMPATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# Types that MLflow's schema lacks; it speaks of each of their columns on the screen.
_KNOWN_TYPES: dict[Any, Any] = {
    pl.Date: pl.Datetime("us"),
    pl.Categorical: pl.String,
    pl.Enum: pl.String,
    pl.UInt8: pl.Int64,
    pl.UInt16: pl.Int64,
    pl.UInt32: pl.Int64,
}

_turn = threading.RLock()


@contextmanager
def impatient() -> Iterator[None]:
    """Give up on a server that does not answer within seconds, and print nothing.

    MLflow reads its limits from the environment, so one thread at a time talks to it.
    """
    with _turn:
        added = [name for name in _IMPATIENCE if name not in os.environ]
        os.environ.update((name, _IMPATIENCE[name]) for name in added)
        try:
            yield
        finally:
            for name in added:
                os.environ.pop(name, None)


@dataclass(frozen=True)
class Contents:
    """What to log beside parameters and numbers.

    Parameters
    ----------
    models : bool
        The fitted estimator.
    datasets : bool
        Schema and digest of the data.
    registered_model_name : str, optional
        Where to register the estimator.
    """

    models: bool = True
    datasets: bool = True
    registered_model_name: str | None = None


class FitRun:
    """The run that one fit is logged into.

    Parameters
    ----------
    fit : Fit
        The fit.
    contents : Contents
        What to log of it.
    """

    def __init__(self, fit: Fit, contents: Contents) -> None:
        self._fit = fit
        self._contents = contents
        self._started = time.perf_counter()
        self._mlflow: Any = require("mlflow", "mlflow")
        self._own = False
        self._first_step = 0
        self._waiting: list[Any] = []
        self._sent = time.monotonic()

    def start(self) -> None:
        """Take the active run or open one; log parameters and data."""
        mlflow, estimator = self._mlflow, self._fit.estimator
        run = mlflow.active_run()
        if run is None:
            run = mlflow.start_run()
            self._own = True
        self._client: Any = mlflow.MlflowClient()
        self._id: str = run.info.run_id
        if not self._own:
            self._first_step = self._last_step()
        # MLflow refuses other values of the same parameters: a run tells of fits of one kind.
        parameters = [mlflow.entities.Param(*each) for each in _parameters(estimator).items()]
        for part in _parts(parameters, _MOST_PARAMETERS):
            self._client.log_batch(self._id, params=part)
        self._tag("mlflow.autologging", "tsmamba")
        self._tag("tsmamba.estimator", type(estimator).__name__)
        self._tag("tsmamba.call", self._fit.call)
        frame = _frame_of(self._fit.data) if self._contents.datasets else None
        if frame is not None:
            dataset = mlflow.data.from_polars(frame.cast(_KNOWN_TYPES, strict=False))
            mlflow.log_input(dataset, context="training")

    def add(self, name: str, value: float, step: int, model_id: str | None = None) -> bool:
        """Note a number, and say whether it is time to `send`.

        Parameters
        ----------
        name : str
            Name of the metric.
        value : float
            Any, NaN included.
        step : int
            Steps of the fit so far.
        model_id : str, optional
            The logged model that it tells about.

        Returns
        -------
        bool
            Whether a request is full, or the last one a while ago.
        """
        now, step = int(1_000 * time.time()), self._first_step + step
        metric = self._mlflow.entities.Metric
        self._waiting.append(metric(name, float(value), now, step, model_id))
        return len(self._waiting) >= _MOST_METRICS or time.monotonic() - self._sent > _PAUSE

    def send(self) -> None:
        """Send what was noted, in as few requests as MLflow takes."""
        for part in _parts(self._waiting, _MOST_METRICS):
            self._client.log_batch(self._id, metrics=part)
        self._waiting = []
        self._sent = time.monotonic()

    def log_backtest(self, table: Any) -> None:
        """Log forecasts beside what came: as a table, as a picture and in mean errors.

        Parameters
        ----------
        table : frame
            From `MambaForecaster.cross_validation`.
        """
        frame = to_polars(table)
        self._client.log_table(self._id, _for_json(frame), "backtest.json")
        away = (frame[POINT] - frame["y"]).to_numpy()
        away = away[~np.isnan(away)]
        if away.size:
            self.add("backtest_mae", np.abs(away).mean(), self._fit.steps)
            self.add("backtest_rmse", np.sqrt(np.square(away).mean()), self._fit.steps)
        # A backtest inside of something else is of an estimator and of data that are not known.
        drawable = self._fit.call == "cross_validation"
        if drawable and importlib.util.find_spec("matplotlib") is not None:
            figure = _backtest_figure(self._fit, frame)
            self._client.log_figure(self._id, figure, "backtest.png")

    def log_result(self) -> None:
        """Log the report of the fit and the fitted estimator."""
        # A search of scikit-learn holds the estimator that it found.
        estimator = getattr(self._fit.estimator, "best_estimator_", self._fit.estimator)
        report = {
            "seconds": time.perf_counter() - self._started,
            "peak_memory_mb": peak_memory_mb(),
        }
        model_id = None
        # A cross-validation fits clones, and leaves the estimator as it was.
        if self._fit.call != "cross_validation":
            report |= getattr(estimator, "report_", {})
            self._client.log_dict(self._id, report, "fit_report.json")
            # Whoever observes fits of other kinds names what has no file of ours.
            if self._contents.models and hasattr(estimator, "save"):
                model_id = self._log_model(estimator)
        for name, value in report.items():
            if isinstance(value, Real) and not isinstance(value, bool):
                self.add(name, value, self._fit.steps, model_id)
        self.send()

    def log_error(self, error: BaseException) -> None:
        """Log why the fit failed, and all that it did before.

        Parameters
        ----------
        error : BaseException
            What it raises.
        """
        self._tag("tsmamba.error", f"{type(error).__name__}: {error}")
        self.send()

    def end(self, status: str) -> None:
        """End the run if it was opened here.

        Parameters
        ----------
        status : {"FINISHED", "FAILED", "KILLED"}
            How the fit ended.
        """
        if self._own:
            self._own = False
            self._mlflow.end_run(status)

    def _log_model(self, estimator: Any) -> str:
        name = self._contents.registered_model_name
        # MLflow loads the model to try it, and each network that is made draws its first weights.
        with torch.random.fork_rng(devices=[]):
            model_id: str = log_model(estimator, "model", registered_model_name=name).model_id
        return model_id

    def _tag(self, name: str, value: str) -> None:
        self._client.set_tag(self._id, name, _cut(value))

    def _last_step(self) -> int:
        """Return the step that an earlier fit into the same run ended at."""
        if "loss" not in self._client.get_run(self._id).data.metrics:
            return 0
        steps: list[int] = [each.step for each in self._client.get_metric_history(self._id, "loss")]
        return max(steps)


def _parameters(estimator: Any) -> dict[str, str]:
    """Return parameters by name as MLflow takes them, those of nested estimators one by one."""
    if not isinstance(estimator, BaseEstimator):
        return {}
    return {
        name: _cut(str(value))
        for name, value in estimator.get_params().items()
        if not hasattr(value, "get_params")
    }


def _parts(items: list[Any], size: int) -> Iterator[list[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _frame_of(data: Any) -> pl.DataFrame | None:
    """Return data as a frame; None for files, lines, and frames that are not read yet."""
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return pl.from_numpy(data)
    if isinstance(data, pl.LazyFrame):
        return None
    try:
        return to_polars(data)
    except FrameError:
        return None


def _for_json(frame: pl.DataFrame) -> Any:
    """Return a pandas frame of numbers and text; other types of columns make MLflow warn."""
    pandas = require("pandas", "mlflow")
    columns = frame.with_columns((~pl.selectors.numeric()).cast(pl.String))
    return pandas.DataFrame(
        {
            each.name: pandas.Series(
                each.to_list(), dtype=None if each.dtype.is_numeric() else object
            )
            for each in columns
        }
    )


def _backtest_figure(fit: Fit, frame: pl.DataFrame) -> Any:
    """Draw the last forecast of each series over what came."""
    estimator = fit.estimator
    targets = estimator.target_col
    targets = [targets] if isinstance(targets, str) else list(targets)
    columns = {"id_col": estimator.id_col, "time_col": estimator.time_col}
    keys = [name for name in columns.values() if name in column_names(fit.data)]
    rows = to_polars(fit.data, [*keys, *targets])
    groups = [name for name in (estimator.id_col, "target") if name in frame.columns]
    latest = pl.col("cutoff").max()
    last = frame.filter(pl.col("cutoff") == (latest.over(groups) if groups else latest))
    forecast = last.drop("cutoff", "y")
    return plot_forecast(rows, forecast, truth=rows, target_col=targets, **columns)
