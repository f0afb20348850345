"""Pictures of the scores of a log."""

from pathlib import Path
from typing import Any

import polars as pl

from tsmamba._optional import require
from tsmamba.data.frame import to_polars
from tsmamba.errors import FrameError, ParameterError
from tsmamba.plotting import axis_times, save_figure, style_axes

__all__ = ["plot_log_scores"]

MAX_STRIPS = 6

_NEEDED = ("time", "score", "is_anomaly", "reason")
_INCIDENT = ("start", "end", "name")
_USUAL, _LIMIT, _INCIDENT_FILL = "#9aa0a8", "#5f646c", "#f6e3c5"
# One colour for each reason, in every picture; those of sessions never meet those of lines.
_COLOURS = {
    "unseen_template": "#d1410c",
    "rare_template": "#e8a33d",
    "sequence": "#7b3fa0",
    "value": "#1f9e89",
    "level": "#1f77b4",
    "gap": "#8c564b",
    "rate": "#d6279a",
    "silence": "#111111",
    "counts": "#1f9e89",
    "transition": "#1f77b4",
    "distance": "#8c564b",
    "network": "#7f8c1d",
}
_WIDTH, _STRIP_HEIGHT, _REST, _DPI = 10.0, 1.35, 0.7, 150
# Usual scores are drawn as the highest of each of so many parts of the time.
_PARTS = 600
_LOWEST = 0.07


def plot_log_scores(
    scores: Any,
    *,
    by: str | None = "stream",
    incidents: Any = None,
    path: str | Path | None = None,
) -> Any:
    """Draw the scores of a log over time, a strip for each stream, alerts coloured by reason.

    Of more than six streams those with most alerts are drawn.

    Parameters
    ----------
    scores : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        As `LogDetector.score` returns it. Without any time the rows are drawn in their order.
    by : str or None, default "stream"
        Column whose values have a strip each, such as ``"source"``; None draws one strip, which
        suits scores of sessions.
    incidents : frame of one of these kinds, optional
        What is known to have happened: ``start``, ``end`` and ``name``. It is shaded.
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
        If a column is missing, or no row has a score.
    ParameterError
        If the ending of `path` names no format of matplotlib.

    Examples
    --------
    >>> from tsmamba import LogDetector
    >>> detector = LogDetector().fit([f"job {i} done" for i in range(1_000)])
    >>> figure = plot_log_scores(detector.score(["job 1 done", "disk failed", "job 2 done"]))
    >>> figure.axes[0].get_title(loc="left")
    'log'
    """
    figure_type = require("matplotlib.figure", "plot").Figure
    rows = _checked("scores", scores, (*_NEEDED, *([] if by is None else [by])))
    known = None if incidents is None else _checked("incidents", incidents, _INCIDENT)
    rows = _placed(rows).filter(pl.col("score").is_not_null())
    if rows.is_empty():
        raise FrameError(
            "no row of the scores has a score and a time; score more lines than the warm-up takes"
        )
    if known is not None and not rows["x"].dtype.is_temporal():
        raise ParameterError("incidents need scores with times; leave incidents out")
    strips = _strips(rows, by)
    shown = strips[:MAX_STRIPS]
    figure = figure_type(
        figsize=(_WIDTH, _STRIP_HEIGHT * len(shown) + _REST), dpi=_DPI, layout="constrained"
    )
    axes = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, (name, strip) in zip(axes, shown, strict=True):
        _draw(ax, strip)
        ax.set_title(name, loc="left", fontsize=10, fontweight="bold", color="#22252a")
        style_axes(ax, temporal=rows["x"].dtype.is_temporal())
        ax.tick_params(which="minor", length=0)
        _shade(ax, known, named=ax is axes[0])
    axes[0].set_ylim(_LOWEST, 1.5 * max(2.0, *rows["score"]))
    figure.supylabel("score, alert at 1", fontsize=9, color=_LIMIT)
    _legend(figure, axes)
    if len(strips) > len(shown):
        figure.supxlabel(f"{len(shown)} of {len(strips)}", fontsize=8, color=_LIMIT)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


def _checked(name: str, frame: Any, needed: tuple[str, ...]) -> pl.DataFrame:
    table = to_polars(frame)
    for column in needed:
        if column not in table.columns:
            listed = ", ".join(map(repr, table.columns))
            raise FrameError(f"the {name} have no column {column!r}, only {listed}")
    return table


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with their place on the time axis; those without a time have none beside others."""
    if rows["time"].null_count() == rows.height:
        return rows.with_row_index("x", offset=1)
    return rows.filter(pl.col("time").is_not_null()).with_columns(x="time")


def _strips(rows: pl.DataFrame, by: str | None) -> list[tuple[str, pl.DataFrame]]:
    """Rows of each strip, the one with most alerts first."""
    if by is None:
        return [("log", rows)]
    parts = rows.partition_by(by, maintain_order=True)
    parts.sort(key=lambda part: -part["is_anomaly"].sum())
    return [(str(part[by][0] or "log"), part) for part in parts]


def _draw(ax: Any, strip: pl.DataFrame) -> None:
    """Usual scores as the highest of each part of the time, alerts as dots."""
    ax.set_yscale("log")
    usual = _highest(strip.filter(~pl.col("is_anomaly")))
    ax.plot(axis_times(usual["x"]), usual["score"].to_numpy(), color=_USUAL, lw=0.6)
    ax.axhline(1.0, color=_LIMIT, lw=0.9, ls=(0, (4, 3)))
    for reason, colour in _COLOURS.items():
        alerts = strip.filter(pl.col("is_anomaly") & (pl.col("reason") == reason))
        if not alerts.is_empty():
            x, y = axis_times(alerts["x"]), alerts["score"].to_numpy()
            ax.scatter(x, y, s=14, color=colour, lw=0, label=reason, zorder=4)


def _highest(rows: pl.DataFrame) -> pl.DataFrame:
    """Highest score of each part of the time."""
    place = pl.col("x").to_physical().cast(pl.Float64)
    share = (place - place.min()) / (place.max() - place.min())
    part = (share * _PARTS).floor().clip(upper_bound=_PARTS - 1)
    return rows.group_by(part=part, maintain_order=True).agg(
        pl.col("x").first(), pl.col("score").max()
    )


def _shade(ax: Any, incidents: pl.DataFrame | None, *, named: bool) -> None:
    if incidents is None:
        return
    starts, ends = axis_times(incidents["start"]), axis_times(incidents["end"])
    for start, end, name in zip(starts, ends, incidents["name"], strict=True):
        # The line keeps a short one visible.
        ax.axvspan(start, end, fc=_INCIDENT_FILL, ec=_INCIDENT_FILL, lw=2.0, zorder=0)
        if named:
            ax.annotate(
                name,
                (start, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize=8,
                color=_LIMIT,
            )


def _legend(figure: Any, axes: Any) -> None:
    """One legend below all strips, each reason once."""
    found = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    names = [name for name in _COLOURS if name in found]
    if names:
        figure.legend(
            [found[name] for name in names],
            [name.replace("_", " ") for name in names],
            loc="outside lower center",
            ncols=len(names),
            frameon=False,
            fontsize=9,
            handletextpad=0.1,
            markerscale=1.5,
        )
