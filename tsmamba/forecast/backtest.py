"""Forecasts from origins inside the data, beside what really came."""

from collections.abc import Callable

import numpy as np
import polars as pl
import torch

from tsmamba.data.clock import Clock
from tsmamba.data.panel import Panel, panel_frame, read_panel
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.errors import FrameError, SeriesTooShortError
from tsmamba.forecast.columns import POINT, Bands
from tsmamba.forecast.model import ForecastModel
from tsmamba.metrics import naive_scale


def forecast_values(
    model: ForecastModel,
    panel: Panel,
    season: int,
    pick: Callable[[WindowStore], Windows],
    bands: Bands,
    *,
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
    base_only : bool, default False
        Leave the corrector out.

    Returns
    -------
    windows : Windows
        What was picked.
    columns : dict of str to ndarray of shape (n, H)
        Point forecast and bands by name of column.
    """
    store = WindowStore(panel, season)
    windows = pick(store)
    clock = Clock.of(panel, model.cycles)
    forecast = model.forecast(store, clock, windows, base_only=base_only)
    series = windows.series.numpy()
    loc, scale = panel.loc[series, None], panel.scale[series, None]
    columns = {POINT: forecast.point} | {name: forecast.quantile(q) for name, q in bands.columns}
    return windows, {name: x.numpy() * scale + loc for name, x in columns.items()}


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
    names, first = panel.columns, panel.first.gather(series)
    before = pl.Series(np.repeat(elapsed - 1, horizon))
    out = [
        panel.freq.shift(first, pl.Series(steps)).alias(names.time_col),
        panel.freq.shift(first, before).alias("cutoff"),
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


def continued(history: Panel, following: Panel, context: int) -> tuple[Panel, np.ndarray]:
    """Join new rows to the end of the history that a model was fitted on.

    Parameters
    ----------
    history, following : Panel
        Fitted series, and rows of them that may overlap the history.
    context : int
        Steps of history to keep.

    Returns
    -------
    panel : Panel
        The joined series, in the units of ``history``.
    elapsed : int ndarray of shape (S,)
        Steps of each joined series that belong to the history.

    Raises
    ------
    FrameError
        If a series was not fitted, or has no row after its history.
    """
    names = history.columns
    if names.id_given != following.columns.id_given:
        fitted, given = ("with", "without") if names.id_given else ("without", "with")
        raise FrameError(
            f"the model was fitted on a frame {fitted} column {names.id_col!r} and this one comes "
            f"{given} it; score rows of the fitted series, in the same form"
        )
    known = following.ids.cast(history.ids.dtype, strict=False).is_in(history.ids.implode())
    unknown = following.ids.filter(~known.fill_null(value=False))
    if names.id_given and len(unknown):
        raise FrameError(
            f"series {unknown[0]!r} was not among the fitted ones; score frames that hold rows of "
            "fitted series only, or forecast new series with predict(df)"
        )
    end = history.lengths
    old = panel_frame(history, np.maximum(end - context, 0), end)
    new = panel_frame(following, np.zeros(len(following), dtype=np.int64), following.lengths)
    new = new.cast({name: old.schema[name] for name in names.keys}, strict=False)
    both = pl.concat([old, new]).unique(subset=list(names.keys), keep="last", maintain_order=True)
    keys = new.select(names.keys[:-1]).unique() if names.id_given else None
    if keys is not None:
        both = both.join(keys, on=list(names.keys[:-1]), how="semi", maintain_order="left")
    panel = read_panel(
        both.sort(names.keys), id_col=names.id_col, time_col=names.time_col,
        target_col=list(names.targets) if names.wide else names.targets[0],
        freq=history.freq, scaling=history,
    )  # fmt: skip
    last = _aligned(history, panel)
    elapsed = panel.freq.steps_between(panel.first, last).to_numpy() + 1
    if (elapsed >= panel.lengths).any():
        late = int(np.argmax(elapsed >= panel.lengths))
        raise FrameError(
            f"{names.name(panel.ids[late])} has no row after {last[late]}, where its history ends; "
            "score rows that follow the history"
        )
    return panel, elapsed


def _aligned(history: Panel, panel: Panel) -> pl.Series:
    """Return the last fitted stamp of each series of ``panel``."""
    known = pl.DataFrame({"id": history.ids, "target": history.targets, "last": history.last})
    wanted = pl.DataFrame({"id": panel.ids, "target": panel.targets})
    found = wanted.join(known, on=["id", "target"], how="left", maintain_order="left")
    return found.get_column("last").alias(history.last.name)


def series_mase(panel: Panel, history: Panel, season: int, frame: pl.DataFrame) -> float:
    """Return the mean over series of the mean absolute scaled error of a backtest.

    Parameters
    ----------
    panel : Panel
        The series that the backtest ran over.
    history : Panel
        The fitted series; they give the scale.
    season : int
        Season of the naive forecast in it.
    frame : polars.DataFrame
        From `backtest_frame`.

    Returns
    -------
    float
        Below 1 is better than the seasonal naive forecast was in the history.

    Raises
    ------
    FrameError
        If no value came to compare with.
    """
    scale = pl.DataFrame(
        {
            "id": history.ids,
            "target": history.targets,
            "scale": [naive_scale(history.restored(s), season) for s in range(len(history))],
        }
    )
    names = panel.columns
    errors = frame.select(
        (pl.col(names.id_col) if names.id_given else pl.lit(history.ids[0])).alias("id"),
        (pl.col("target") if names.wide else pl.lit(history.targets[0])).alias("target"),
        (pl.col("y") - pl.col(POINT)).abs().fill_nan(None).alias("error"),
    )
    per_series = (
        errors.join(scale, on=["id", "target"])
        .group_by("id", "target")
        .agg((pl.col("error") / pl.col("scale")).mean())
    )
    score = per_series.get_column("error").mean()
    if not isinstance(score, float):
        raise FrameError(
            f"column {names.targets[0]!r} holds no value after the history of any series; score "
            "rows that do"
        )
    return score
