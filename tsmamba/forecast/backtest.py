"""Forecasts from origins inside the data, beside what really came."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch

from tsmamba.data.checks import SHOWN_COLUMNS, Columns, listing
from tsmamba.data.covariates import Covariates
from tsmamba.data.frame import column_names, to_polars
from tsmamba.data.panel import Panel
from tsmamba.data.place import check_stamps
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.errors import FrameError, ParameterError, SeriesTooShortError
from tsmamba.forecast.columns import POINT, Bands
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.source import Source
from tsmamba.metrics import least_scale

_ROW = "__row__"


def forecast_values(
    model: ForecastModel,
    panel: Panel,
    season: int,
    pick: Callable[[WindowStore], Windows],
    bands: Bands,
    *,
    covariates: Covariates | None = None,
    base_only: bool = False,
) -> tuple[Windows, dict[str, np.ndarray]]:
    """Forecast windows of a panel, in the user's units.

    Parameters
    ----------
    model, panel, season
        The fit, the series, and their season.
    pick : callable
        Picks windows from the store of the panel.
    bands : Bands
        Quantiles to give.
    covariates : Covariates, optional
        Of the panel, where the model was fitted with some.
    base_only : bool, default False
        Leave the corrector out.

    Returns
    -------
    windows : Windows
        What was picked.
    columns : dict of str to ndarray of shape (n, H)
        Point forecast and bands by name of column.
    """
    source = Source.of(panel, season, model.cycles, covariates, model.effects, model.profile)
    windows = pick(source.store)
    forecast = model.forecast(source, windows, base_only=base_only)
    series = windows.series.numpy()
    loc, scale = panel.loc[series, None], panel.scale[series, None]
    columns = {POINT: forecast.point} | {name: forecast.quantile(q) for name, q in bands.columns}
    return windows, {name: x.numpy() * scale + loc for name, x in columns.items()}


def forecast_ahead(
    model: ForecastModel,
    panel: Panel,
    season: int,
    horizon: int,
    bands: Bands,
    *,
    covariates: Covariates | None = None,
    base_only: bool = False,
) -> dict[str, np.ndarray]:
    """Forecast what follows each series, from forecasts where the model does not reach so far.

    Parameters
    ----------
    model, panel, season, bands, base_only
        As in `forecast_values`.
    horizon : int
        Steps to forecast.
    covariates : Covariates, optional
        Of the panel and of ``horizon`` steps beyond.

    Returns
    -------
    dict of str to ndarray of shape (S, horizon)
        Point forecast and bands. Beyond the reach of the model each band keeps the distance to the
        point forecast of its last step, times the square root of the number of steps by that of
        the reach, as for a random walk. A learned spread is that of its own step, and left out.
    """
    reach, done = model.horizon, 0

    def last_windows(model: ForecastModel) -> dict[str, np.ndarray]:
        _, columns = forecast_values(
            model, panel, season, WindowStore.last, bands,
            covariates=covariates, base_only=base_only,
        )  # fmt: skip
        return columns

    parts: dict[str, list[np.ndarray]] = {}
    first: dict[str, np.ndarray] = {}
    while done < horizon:
        columns = last_windows(model)
        point = columns[POINT]
        if not done:
            far = columns
            if model.spread_residuals is not None and horizon > reach:
                far = last_windows(replace(model, spread_residuals=None))
            first = {name: (x - point)[:, -1:] for name, x in far.items()}
        else:
            widening = np.sqrt(np.arange(done + 1, done + reach + 1) / reach)
            columns = {name: point + first[name] * widening for name in columns}
        for name, x in columns.items():
            parts.setdefault(name, []).append(x)
        done += reach
        if done < horizon:
            panel = panel.continued((point - panel.loc[:, None]) / panel.scale[:, None])
    return {name: np.concatenate(x, axis=1)[:, :horizon] for name, x in parts.items()}


def origins(store: WindowStore, elapsed: np.ndarray, step: int) -> Windows:
    """Return windows every ``step`` steps of each series, the first ``elapsed`` steps in.

    The last of them may reach beyond the end of its series.

    Parameters
    ----------
    store : WindowStore
        The series.
    elapsed : int ndarray of shape (S,)
        Step of the first origin of each.
    step : int
        Steps from origin to origin.

    Returns
    -------
    Windows
        In order of series and time.
    """
    first = store.offsets[:-1] + torch.from_numpy(elapsed)
    count = -(-(store.offsets[1:] - first) // step)
    series = torch.arange(len(count)).repeat_interleave(count.clamp(min=0))
    rank = torch.arange(len(series)) - (count.clamp(min=0).cumsum(0) - count.clamp(min=0))[series]
    return Windows(first[series] + rank * step, series)


def backtest_frame(panel: Panel, windows: Windows, columns: dict[str, np.ndarray]) -> pl.DataFrame:
    """Lay forecasts of windows beside the values that came.

    Parameters
    ----------
    panel : Panel
        The series.
    windows : Windows
        Where the forecasts start.
    columns : dict of str to ndarray of shape (n, H)
        Forecasts.

    Returns
    -------
    polars.DataFrame
        Columns id, time, "cutoff" (last stamp before the origin), "target" (wide frames), "y" and
        those of ``columns``; "y" is NaN where the value is missing or lies beyond the series.
    """
    horizon = columns[POINT].shape[1]
    series = np.repeat(windows.series.numpy(), horizon)
    elapsed = windows.origin.numpy() - panel.offsets[windows.series.numpy()]
    steps = (elapsed[:, None] + np.arange(horizon)).ravel()
    position = np.minimum(panel.offsets[series] + steps, len(panel.values) - 1)
    y = panel.values[position] * panel.scale[series] + panel.loc[series]
    y[steps >= panel.lengths[series]] = np.nan
    names = panel.columns
    out = [
        panel.stamps_at(series, steps).alias(names.time_col),
        panel.stamps_at(series, np.repeat(elapsed - 1, horizon)).alias("cutoff"),
    ]
    if names.id_given:
        out.insert(0, panel.ids.gather(series).alias(names.id_col))
    if names.wide:
        out.append(pl.Series("target", panel.targets).gather(series))
    out.append(pl.Series("y", y))
    return pl.DataFrame(out + [pl.Series(name, x.ravel()) for name, x in columns.items()])


def cutoffs(panel: Panel, horizon: int, n_windows: int, step_size: int) -> np.ndarray:
    """Return the first origin of each series for ``n_windows`` full windows at its end.

    Parameters
    ----------
    panel : Panel
        The series.
    horizon, n_windows, step_size : int
        Steps of a forecast, number of windows, and steps between them.

    Returns
    -------
    int ndarray of shape (S,)
        Steps after the start of each series.

    Raises
    ------
    SeriesTooShortError
        If a series has no step before its first origin.
    """
    needed = horizon + (n_windows - 1) * step_size
    elapsed: np.ndarray = panel.lengths - needed
    if (elapsed < 1).any():
        short = int(np.argmin(elapsed))
        raise SeriesTooShortError(
            f"{panel.columns.name(panel.ids[short])} has {panel.lengths[short]} steps; {n_windows} "
            f"windows of {horizon} steps, {step_size} apart, need more than {needed}: ask for "
            "fewer windows or leave the series out"
        )
    return elapsed


def joined(history: pl.DataFrame, rows: Any, columns: Columns) -> pl.DataFrame:
    """Put newer rows behind the history they continue; they win where both have a stamp.

    Parameters
    ----------
    history : polars.DataFrame
        Rows of the fitted series.
    rows : frame
        Newer rows, with the same columns.
    columns : Columns
        Names of the keys.

    Returns
    -------
    polars.DataFrame
        In order of series and time.

    Raises
    ------
    FrameError
        If one has the id column and the other does not, or a column is missing or of another kind.
    """
    present = column_names(rows)
    if (columns.id_col in present) != columns.id_given:
        fitted, given = ("with", "without") if columns.id_given else ("without", "with")
        raise FrameError(
            f"the model was fitted on a frame {fitted} column {columns.id_col!r} and this one "
            f"comes {given} it; give rows of the fitted series, in the same form"
        )
    missing = [name for name in history.columns if name not in present]
    if missing:
        raise FrameError(
            f"the frame has no column {missing[0]!r}, which the model was fitted with; it has "
            f"{listing(present, SHOWN_COLUMNS)}"
        )
    added = to_polars(rows, history.columns)
    check_stamps(added.get_column(columns.time_col), history.get_column(columns.time_col))
    for name in history.columns:
        found = added.schema[name]
        if history.schema[name].is_numeric() and not (found.is_numeric() or found == pl.Null):
            part = "target column" if name in columns.targets else "column"
            raise FrameError(
                f"{part} {name!r} is of type {found} and was of numbers in the history; cast it to "
                "numbers"
            )
    both = pl.concat([history, added.cast(history.schema, strict=False)])
    # Series keep the order in which they first came.
    order = pl.col(_ROW).min().over(columns.id_col) if columns.id_given else pl.lit(0)
    both = both.with_row_index(_ROW).with_columns(order.alias(_ROW))
    both = both.unique(columns.keys, keep="last", maintain_order=True)
    return both.sort(_ROW, columns.time_col).drop(_ROW)


def continued(history: Panel, following: Panel, panel: Panel) -> np.ndarray:
    """Return where the history ends in the series that continue it.

    Parameters
    ----------
    history, following : Panel
        Fitted series, and the newer rows by themselves.
    panel : Panel
        Both joined.

    Returns
    -------
    int ndarray of shape (S,)
        Step of the first newer row of each series of ``panel``; its length where it has none.

    Raises
    ------
    FrameError
        If a series was not fitted, or has no row after its history.
    """
    names = history.columns
    ids = following.ids.cast(history.ids.dtype, strict=False)
    unknown = following.ids.filter(~ids.is_in(history.ids.implode()).fill_null(value=False))
    if names.id_given and len(unknown):
        raise FrameError(
            f"series {unknown[0]!r} was not among the fitted ones; score frames that hold rows of "
            "fitted series only, or forecast new series with predict(df)"
        )
    last = _last_of(history, panel)
    owner = np.repeat(np.arange(len(panel)), panel.lengths)
    stamps = panel.stamps_at(owner, np.arange(len(owner)) - panel.offsets[owner])
    known = (stamps <= last.gather(owner)).to_numpy()
    elapsed = np.bincount(owner[known], minlength=len(panel))
    scored = panel.ids.is_in(ids.implode()).to_numpy()
    late = scored & (elapsed >= panel.lengths)
    if late.any():
        series = int(np.argmax(late))
        raise FrameError(
            f"{names.name(panel.ids[series])} has no row after {last[series]}, where its history "
            "ends; score rows that follow the history"
        )
    return elapsed


def _last_of(history: Panel, panel: Panel) -> pl.Series:
    """Return the last fitted stamp of each series of ``panel``."""
    known = pl.DataFrame({"id": history.ids, "target": history.targets, "last": history.last})
    wanted = pl.DataFrame({"id": panel.ids, "target": panel.targets})
    found = wanted.join(known, on=["id", "target"], how="left", maintain_order="left")
    return found.get_column("last").alias(history.last.name)


def naive_scales(panel: Panel, season: int) -> pl.DataFrame:
    """Return what errors of each series are scaled by: `naive_scale` of all series at once.

    Parameters
    ----------
    panel : Panel
        The series.
    season : int
        Steps of a season.

    Returns
    -------
    polars.DataFrame
        Columns id, target, scale.
    """
    lengths, start = panel.lengths, panel.offsets[:-1]
    series = np.repeat(np.arange(len(panel)), lengths)
    values = panel.values * panel.scale[series] + panel.loc[series]
    lag = np.where(lengths > season, season, 1)[series]
    step = np.arange(len(values))
    known = step - lag >= start[series]
    away = np.abs(values[step[known]] - values[(step - lag)[known]])
    of, seen = series[known], ~np.isnan(away)
    total = np.bincount(of[seen], away[seen], minlength=len(panel))
    count = np.bincount(of[seen], minlength=len(panel))
    largest = np.where(count > 0, np.fmax.reduceat(np.abs(values), start), 0.0)
    scales = least_scale(total / np.maximum(count, 1), largest)
    return pl.DataFrame({"id": panel.ids, "target": panel.targets, "scale": scales})


def check_metric(name: str) -> None:
    """Refuse names that are no metric."""
    if name not in _ERRORS:
        raise ParameterError(f"metric={name!r}; pass one of {', '.join(map(repr, _ERRORS))}")


def series_error(
    panel: Panel, frame: pl.DataFrame, metric: str, scales: pl.DataFrame | None
) -> float:
    """Return the mean over series of an error of a backtest.

    Parameters
    ----------
    panel : Panel
        The series that the backtest ran over.
    frame : polars.DataFrame
        From `backtest_frame`.
    metric : str
        Its name.
    scales : polars.DataFrame, optional
        From `naive_scales`, for scaled errors.

    Returns
    -------
    float
        0 is best.

    Raises
    ------
    FrameError
        If no value came to compare with.
    """
    names = panel.columns
    rows = frame.select(
        (pl.col(names.id_col) if names.id_given else pl.lit(panel.ids[0])).alias("id"),
        (pl.col("target") if names.wide else pl.lit(panel.targets[0])).alias("target"),
        pl.col("y").fill_nan(None),
        pl.col(POINT).alias("forecast"),
    ).drop_nulls("y")
    if scales is not None:
        rows = rows.join(scales, on=["id", "target"])
    score = rows.group_by("id", "target").agg(_ERRORS[metric].alias("error"))["error"].mean()
    if not isinstance(score, float):
        raise FrameError(
            f"column {names.targets[0]!r} holds no value after the history of any series; score "
            "rows that do"
        )
    return score


_AWAY = pl.col("y") - pl.col("forecast")
_SIZE = pl.col("y").abs() + pl.col("forecast").abs()
_ERRORS = {
    "mase": (_AWAY.abs() / pl.col("scale")).mean(),
    "mae": _AWAY.abs().mean(),
    "mse": (_AWAY**2).mean(),
    "rmse": (_AWAY**2).mean().sqrt(),
    "smape": pl.when(_SIZE > 0).then(2 * _AWAY.abs() / _SIZE).otherwise(0.0).mean(),
}
