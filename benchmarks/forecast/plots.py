"""Plots of the results: error beside RLinear's, and error against the step ahead."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.forecast.results import Results, complete, select, sets_in
from benchmarks.forecast.sets import ForecastSet
from tsmamba._optional import require

# Okabe and Ito's colours, which the colour-blind tell apart; markers differ too.
STYLES = {
    "seasonal naive": ("#999999", "x"),
    "Linear": ("#56B4E9", "v"),
    "RLinear": ("#000000", "|"),
    "CycleNet": ("#009E73", "^"),
    "LSTM": ("#F0E442", "D"),
    "iTransformer": ("#CC79A7", "P"),
    "PatchTST": ("#E69F00", "s"),
    "tsmamba (base)": ("#0072B2", "o"),
    "tsmamba (fast)": ("#8C4A00", "h"),
    "tsmamba (full)": ("#D55E00", "*"),
}
_REFERENCE = "RLinear"
_SHOWN_AHEAD = ("ETTh1", "ETTm1", "Victoria", "PJM")
TEXT, _GRID, _DPI = "#3c4046", "#e4e6ea", 150
_WIDEST = 2.0  # times the reference; what is worse stands at the edge


def plot_relative(results: Results, path: Path) -> Any:
    """Draw the MSE of each contestant on each set, over that of RLinear.

    Parameters
    ----------
    results : sequence of dict
        Lines that succeeded.
    path : Path
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.
    """
    sources = [s for s in sets_in(results) if _mse(results, s, _REFERENCE) is not None]
    figure = new_figure(8.5, 1.4 + 0.5 * max(1, len(sources)))
    ax = figure.subplots()
    for name, (colour, marker) in STYLES.items():
        points = [
            (min(mse / reference, _WIDEST), row)
            for row, source in enumerate(sources)
            if (mse := _mse(results, source, name)) is not None
            and (reference := _mse(results, source, _REFERENCE)) is not None
        ]
        if points:
            x, y = zip(*points, strict=True)
            ax.plot(x, y, marker, color=colour, ms=8, mew=2, ls="", label=name)
    ax.axvline(1, color=TEXT, lw=0.9, ls=(0, (4, 3)), zorder=0)
    ax.set_yticks(range(len(sources)), [source.name for source in sources])
    ax.invert_yaxis()
    ax.set_xlabel(
        f"MSE over RLinear's, mean over horizons; {_WIDEST:g} and above at the edge",
        fontsize=9,
        color=TEXT,
    )
    finish(figure, [ax], path, STYLES)
    return figure


def plot_ahead(results: Results, path: Path) -> Any:
    """Draw the MSE against the step ahead, at the longest horizon run of some sets.

    Parameters
    ----------
    results : sequence of dict
        Lines that succeeded.
    path : Path
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.
    """
    present = sets_in(results)
    sources = [source for source in present if source.name in _SHOWN_AHEAD] or present
    columns = min(2, len(sources))
    rows = -(-len(sources) // columns)
    figure = new_figure(8.5, 1.0 + 2.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for ax, source in zip(axes, sources, strict=False):
        lines = select(results, set=source.name)
        horizon = max(line["horizon"] for line in lines)
        for name, (colour, _) in STYLES.items():
            chosen = select(lines, model=name, horizon=horizon)
            curves = [line["mse_ahead"] for line in chosen]
            if curves:
                mean = [fmean(values) for values in zip(*curves, strict=True)]
                steps = [horizon * (n + 0.5) / len(mean) for n in range(len(mean))]
                ax.plot(steps, mean, color=colour, lw=1.5, label=name)
        ax.set_title(source.name, loc="left", fontsize=10, fontweight="bold")
        ax.set_xlabel("steps ahead", fontsize=8, color=TEXT)
        ax.set_ylabel("MSE", fontsize=8, color=TEXT)
    for ax in axes[len(sources) :]:
        ax.set_axis_off()
    finish(figure, axes[: len(sources)], path, STYLES)
    return figure


def _mse(results: Results, source: ForecastSet, name: str) -> float | None:
    """Return the mean over horizons and seeds, or None where a horizon is missing."""
    lines = complete(select(results, set=source.name, model=name), source)
    return fmean(line["mse"] for line in lines) if lines else None


def new_figure(width: float, height: float) -> Any:
    """Return an empty picture of a size in inches, which needs no screen."""
    figure = require("matplotlib.figure", "plot").Figure
    return figure(figsize=(width, height), dpi=_DPI, layout="constrained")


def finish(figure: Any, axes: Sequence[Any], path: Path, order: Iterable[str]) -> None:
    """Tidy the axes, put one legend beside them and write the file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        From `new_figure`.
    axes : sequence of matplotlib.axes.Axes
        Those in use.
    path : Path
        File to write.
    order : iterable of str
        Labels in the order of the legend.
    """
    handles: dict[str, Any] = {}
    for ax in axes:
        ax.grid(color=_GRID, lw=0.8)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(length=0, labelsize=8, colors=TEXT)
        lines, labels = ax.get_legend_handles_labels()
        handles |= dict(zip(labels, lines, strict=True))
    shown = {name: handles[name] for name in order if name in handles}
    if shown:
        figure.legend(
            shown.values(), shown.keys(), loc="outside right upper", frameon=False, fontsize=8
        )
    figure.savefig(path)
