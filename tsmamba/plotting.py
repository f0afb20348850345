"""Pictures of forecasts, drawn without a display and without global state."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tsmamba._optional import require
from tsmamba.data.frame import to_polars
from tsmamba.errors import FrameError, ParameterError

MAX_SERIES = 4

_HISTORY, _TRUTH, _FORECAST, _GRID = "#5f646c", "#111111", "#d1410c", "#e4e6ea"
_HISTORY_PER_HORIZON = 3
_DPI = 150
_WIDTH = 10.0
_HEIGHTS = {1: 4.2, 2: 6.2}
_PANEL_HEIGHT = 2.6
_LEGEND_HEIGHT = 0.8


def plot_forecast(
    history: Any,
    forecast: Any,
    *,
    truth: Any = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str | Sequence[str] = "y",
    history_steps: int | None = None,
    path: str | Path | None = None,
) -> Any:
    """Draw forecasts behind the end of their history.

    Use it to look at what `MambaForecaster.predict` gave: every interval in the frame is shaded,
    and the truth, where it is known by now, is drawn over it. At most four series are drawn, the
    first ones of the forecast; filter the frame to see others.

    Parameters
    ----------
    history : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        What the forecast was made from. Rows from the first forecast stamp on are left out.
    forecast : frame of one of these kinds
        As `MambaForecaster.predict` returns it.
    truth : frame of one of these kinds, optional
        What came after, with the columns of `history`.
    id_col, time_col : str
        Columns of the series ids and of the time stamps; without an id column it is one series.
    target_col : str or sequence of str
        Column of the values, or several of a wide frame.
    history_steps : int >= 0, optional
        Steps of history to draw; three times the horizon by default.
    path : str or Path, optional
        File to write; its ending chooses the format: png, svg, pdf.

    Returns
    -------
    matplotlib.figure.Figure
        The picture, which notebooks show by themselves.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    FrameError
        If a column is missing, or no series of the forecast is in the history.
    ParameterError
        If `history_steps` is negative, or the ending of `path` names no format of matplotlib.

    Examples
    --------
    >>> import polars as pl
    >>> history = pl.DataFrame({"ds": range(48), "y": [step % 24 for step in range(48)]})
    >>> forecast = pl.DataFrame({"ds": range(48, 72), "MambaForecaster": range(24)})
    >>> figure = plot_forecast(history, forecast)
    >>> figure.axes[0].get_title(loc="left")
    'y, 24 steps ahead'
    """
    require("matplotlib", "plot")
    figure_type = require("matplotlib.figure", "plot").Figure
    if history_steps is not None and history_steps < 0:
        raise ParameterError(f"history_steps={history_steps} must be 0 or more, or None")
    targets = [target_col] if isinstance(target_col, str) else list(target_col)
    read = [
        _checked(name, frame, time_col, targets if name != "forecast" else [])
        for name, frame in (("history", history), ("forecast", forecast), ("truth", truth))
        if frame is not None
    ]
    panels = _panels(read, id_col, time_col, targets)
    shown = panels[:MAX_SERIES]
    height = _HEIGHTS.get(len(shown), _PANEL_HEIGHT * len(shown) + _LEGEND_HEIGHT)
    figure = figure_type(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")
    axes = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for ax, panel in zip(axes, shown, strict=True):
        _draw(ax, panel, history_steps)
    _legend(figure, axes)
    if len(panels) > len(shown):
        figure.supxlabel(f"{len(shown)} of {len(panels)} series", fontsize=8, color=_HISTORY)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


@dataclass(frozen=True)
class _Line:
    """Values over time."""

    time: pl.Series
    values: pl.Series


@dataclass(frozen=True)
class _Panel:
    """Everything to be drawn of one series."""

    title: str
    history: _Line
    forecast: _Line
    truth: _Line | None
    bands: tuple[tuple[str, pl.Series, pl.Series], ...]  # name, low, high; widest first


def _checked(name: str, frame: Any, time_col: str, targets: list[str]) -> pl.DataFrame:
    table = to_polars(frame)
    for column in (time_col, *targets):
        if column not in table.columns:
            listed = ", ".join(map(repr, table.columns))
            raise FrameError(
                f"the {name} frame has no column {column!r}, only {listed}; name columns with "
                "id_col=, time_col= and target_col="
            )
    if table.is_empty():
        raise FrameError(f"the {name} frame has no rows; give at least one")
    return table


def _panels(
    read: list[pl.DataFrame], id_col: str, time_col: str, targets: list[str]
) -> list[_Panel]:
    """Cut the frames into series, in the order of the forecast."""
    history, forecast, *rest = read
    keys = [key for key in (id_col, "target") if key in forecast.columns and key not in targets]
    model = _model_name(forecast, {*keys, time_col, *targets})
    groups = forecast.group_by(keys, maintain_order=True) if keys else [((), forecast)]
    panels = []
    for values, part in groups:
        key = dict(zip(keys, values, strict=True))
        target = key.get("target", targets[0])
        own = part.sort(time_col)
        start = own.get_column(time_col)[0]
        past = _series(history, id_col, key, time_col)
        past = past.filter(pl.col(time_col) < start)
        if past.is_empty():
            continue
        later = [_series(table, id_col, key, time_col) for table in rest]
        names = [str(key[id_col])] if id_col in key else []
        names += [str(target)] if "target" in key or not names else []
        panels.append(
            _Panel(
                f"{', '.join(names)}, {own.height} steps ahead",
                _line(past, time_col, target),
                _line(own, time_col, model),
                _line(later[0], time_col, target) if later else None,
                _bands(own, model),
            )
        )
    if not panels:
        raise FrameError(
            "no series of the forecast has history before its first stamp; pass the frame that "
            f"the forecast was made from, with the same values in {id_col!r} and {time_col!r}"
        )
    return panels


def _series(table: pl.DataFrame, id_col: str, key: dict[str, Any], time_col: str) -> pl.DataFrame:
    """Rows of one series; a table without ids is that of the only one."""
    if id_col in key and id_col in table.columns:
        table = table.filter(pl.col(id_col) == key[id_col])
    return table.sort(time_col)


def _line(table: pl.DataFrame, time_col: str, column: str) -> _Line:
    return _Line(table.get_column(time_col), table.get_column(column))


def _model_name(forecast: pl.DataFrame, known: set[str]) -> str:
    """Find the column of point forecasts: the first one that is neither a key nor a bound."""
    bound = re.compile(r".+(-(lo|hi)-[\d.]+|_ql[\d.]+)$")
    free = [c for c in forecast.columns if c not in known and not bound.match(c)]
    if free:
        return free[0]
    medians = [c for c in forecast.columns if c.endswith("_ql0.5")]
    if medians:
        return medians[0]
    listed = ", ".join(map(repr, forecast.columns))
    raise FrameError(f"the forecast frame has no column of point forecasts, only {listed}")


def _bands(forecast: pl.DataFrame, model: str) -> tuple[tuple[str, pl.Series, pl.Series], ...]:
    """Pair the bounds of each interval, whether named by level or by quantile."""
    stem = model.removesuffix("_ql0.5")
    pairs: dict[float, tuple[str, str]] = {}
    for column in forecast.columns:
        if found := re.fullmatch(re.escape(stem) + r"-lo-([\d.]+)", column):
            pairs[float(found[1])] = (column, f"{stem}-hi-{found[1]}")
        elif found := re.fullmatch(re.escape(stem) + r"_ql([\d.]+)", column):
            low = float(found[1])
            if low < 0.5:
                pairs[round(100 * (1 - 2 * low), 6)] = (column, f"{stem}_ql{round(1 - low, 6):g}")
    return tuple(
        (f"{level:g} % interval", forecast.get_column(low), forecast.get_column(high))
        for level, (low, high) in sorted(pairs.items(), reverse=True)
        if high in forecast.columns
    )


def _draw(ax: Any, panel: _Panel, history_steps: int | None) -> None:
    """Draw one series on its axes."""
    if history_steps is None:
        history_steps = _HISTORY_PER_HORIZON * len(panel.forecast.time)
    time, values = panel.history.time, panel.history.values
    origin = time[-1:]
    # At least the last point, which the line of the origin goes through.
    kept = max(history_steps, 1)
    ax.plot(axis_times(time[-kept:]), _y(values[-kept:]), color=_HISTORY, lw=1.1, label="history")
    ahead = axis_times(panel.forecast.time)
    for number, (name, low, high) in enumerate(panel.bands):
        # Opaque tints, not transparent layers, so that the legend shows the colours drawn.
        strength = 0.18 + 0.24 * number / max(len(panel.bands) - 1, 1)
        ax.fill_between(ahead, _y(low), _y(high), color=_tint(strength), lw=0, label=name)
    ax.plot(ahead, _y(panel.forecast.values), color=_FORECAST, lw=1.8, label="forecast", zorder=4)
    if panel.truth is not None:
        until = panel.truth.time.is_between(panel.forecast.time[0], panel.forecast.time[-1])
        ax.plot(
            axis_times(panel.truth.time.filter(until)),
            _y(panel.truth.values.filter(until)),
            color=_TRUTH,
            lw=0.9,
            label="truth",
            zorder=5,
        )
    ax.axvline(axis_times(origin)[0], color=_HISTORY, lw=0.9, ls=(0, (4, 3)), zorder=1)
    ax.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", color="#22252a")
    style_axes(ax, temporal=time.dtype.is_temporal())


def _tint(strength: float) -> tuple[float, ...]:
    """Mix the colour of the forecast with white."""
    parts = (int(_FORECAST[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(1 - strength * (1 - part) for part in parts)


def style_axes(ax: Any, *, temporal: bool) -> None:
    """Quiet axes: a light grid, no box, short dates."""
    if temporal:
        dates = require("matplotlib.dates", "plot")
        locator = dates.AutoDateLocator(minticks=5, maxticks=10)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}".replace("-", "\N{MINUS SIGN}"))
    ax.margins(x=0.01)
    ax.grid(color=_GRID, lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color("#b5b9c0")
    ax.tick_params(length=0, labelsize=9, colors="#4a4e55")


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend above all axes, each name once, lines before bands."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    names = sorted(found, key=lambda name: (name.endswith("interval"), list(found).index(name)))
    figure.legend(
        [found[name] for name in names],
        names,
        loc="outside upper right",
        ncols=len(names),
        frameon=False,
        fontsize=9,
    )


def axis_times(time: pl.Series) -> Any:
    """Stamps as matplotlib takes them; a zoned stamp shows the time of its own clock."""
    if isinstance(time.dtype, pl.Datetime) and time.dtype.time_zone is not None:
        time = time.dt.replace_time_zone(None)
    return time.to_numpy()


def _y(values: pl.Series) -> Any:
    """Missing values become NaN, where a line breaks."""
    return values.cast(pl.Float64).to_numpy()


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format that the ending of the path names.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : Path
        File to write.

    Raises
    ------
    ParameterError
        If matplotlib knows no such format, or there is no such folder.
    """
    formats = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in formats:
        raise ParameterError(
            f"cannot draw to {path}: the name must end with one of "
            f"{', '.join('.' + name for name in sorted(formats))}"
        )
    if not path.parent.is_dir():
        raise ParameterError(f"cannot draw to {path}: there is no folder {path.parent}; make it")
    figure.savefig(path)
