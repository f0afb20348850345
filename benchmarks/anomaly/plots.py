"""Plots of the results: VUS-PR of the series of a set in order, and accuracy against cost."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.anomaly.methods import CONTROL
from benchmarks.anomaly.results import by_series, sets_in
from benchmarks.anomaly.tables import means
from benchmarks.forecast.plots import TEXT, finish, new_figure
from benchmarks.forecast.results import Results, by_model, select

# Okabe and Ito's colours, which the colour-blind tell apart; markers differ too.
STYLES = {
    CONTROL: ("#999999", "x"),
    "robust z": ("#56B4E9", "v"),
    "PCA": ("#009E73", "^"),
    "nearest neighbour": ("#000000", "s"),
    "isolation forest": ("#E69F00", "D"),
    "matrix profile": ("#CC79A7", "P"),
    "tsmamba (alerts)": ("#7570B3", "d"),
    "tsmamba (delay 0)": ("#F0E442", "<"),
    "tsmamba (delay p/4)": ("#A6761D", ">"),
    "tsmamba (delay p/2)": ("#8C4A00", "h"),
    "tsmamba (delay p)": ("#0072B2", "o"),
    "tsmamba (delay p, corrector)": ("#66AAD7", "8"),
    "tsmamba (offline)": ("#D55E00", "*"),
    "tsmamba (offline, corrector)": ("#F0A878", "p"),
}

_SHOWN = ("NAB", "SMAP/MSL", "TSB-AD", "UCR")


def plot_sorted(lines: Results, path: Path) -> Any:
    """Draw the VUS-PR of each method on the series of some sets, from worst to best.

    Parameters
    ----------
    lines : sequence of dict
        Of single series, with metrics.
    path : Path
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.
    """
    present = sets_in(lines)
    sources = [source for source in present if source.name in _SHOWN] or present
    columns = min(2, max(1, len(sources)))
    rows = max(1, -(-len(sources) // columns))
    figure = new_figure(8.5, 1.0 + 2.4 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for ax, source in zip(axes, sources, strict=False):
        of_set = select(lines, set=source.name)
        complete = means(of_set, "vus_pr", STYLES)
        for name, found in by_model(of_set, complete).items():
            values = sorted(by_series(found, "vus_pr").values())
            ax.plot(range(1, len(values) + 1), values, color=STYLES[name][0], lw=1.5, label=name)
        ax.set_title(source.name, loc="left", fontsize=10, fontweight="bold")
        ax.set_xlabel("series, each method in its own order", fontsize=8, color=TEXT)
        ax.set_ylabel("VUS-PR", fontsize=8, color=TEXT)
    for ax in axes[len(sources) :]:
        ax.set_axis_off()
    finish(figure, axes[: len(sources)], path, STYLES)
    return figure


def plot_cost(lines: Results, path: Path) -> Any:
    """Draw VUS-PR, mean over sets, against seconds for 10,000 steps, median over sets.

    Parameters
    ----------
    lines : sequence of dict
        Of single series, with metrics.
    path : Path
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
        The picture; only methods that have every set.
    """
    figure = new_figure(7, 4)
    ax = figure.subplots()
    sets = [select(lines, set=source.name) for source in sets_in(lines)]
    accuracy, seconds = ([means(of, key, STYLES) for of in sets] for key in ("vus_pr", "seconds"))
    for name, (colour, marker) in STYLES.items():
        if sets and all(name in column for column in [*accuracy, *seconds]):
            x = median(_of(seconds, name))
            ax.plot(x, fmean(_of(accuracy, name)), marker, color=colour, ms=9, mew=2, label=name)
    ax.set_xscale("log")
    ax.set_xlabel("seconds of one core for 10,000 steps", fontsize=9, color=TEXT)
    ax.set_ylabel("VUS-PR, mean over sets", fontsize=9, color=TEXT)
    finish(figure, [ax], path, STYLES)
    return figure


def _of(columns: Sequence[dict[str, float]], name: str) -> list[float]:
    return [column[name] for column in columns]
