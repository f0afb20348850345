"""Pictures of why a stay gets its answer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from tsmamba._optional import require
from tsmamba.data.frame import to_polars
from tsmamba.errors import FrameError
from tsmamba.outcomes.classes import as_probabilities
from tsmamba.outcomes.classifier import MambaClassifier
from tsmamba.outcomes.explanation import as_times, class_number, explain_events
from tsmamba.plotting import axis_times, save_figure, style_axes
from tsmamba.records.events import Events, Repairs, read_events
from tsmamba.records.ranges import range_of
from tsmamba.records.tokens import bin_of

__all__ = ["MAX_CODES", "plot_explanation"]

MAX_CODES = 6

_LINE, _TEXT, _QUIET = "#9aa0a8", "#22252a", "#5f646c"
# The ends of the colour map of the points: red raises and blue lowers, told apart by everyone.
_COLOURS, _RAISES, _LOWERS = "RdBu_r", "#b2182b", "#2166ac"
# The colour is full from this quantile on, lest a single point make all others pale.
_LARGEST = 0.95
_WIDTH, _PANEL_HEIGHT, _REST, _DPI = 11.0, 1.2, 0.7, 150
_LEAST_ROWS = 3
_GAP = 1.0
_SHOWN = 5
_TITLE: dict[str, Any] = {
    "loc": "left", "fontsize": 10, "fontweight": "bold", "color": _TEXT,
}  # fmt: skip
_SMALL: dict[str, Any] = {"fontsize": 8, "color": _QUIET}


def plot_explanation(
    classifier: MambaClassifier,
    events: Any,
    subject_id: Any,
    *,
    label: Any = None,
    path: str | Path | None = None,
) -> Any:
    """Draw the measurements of a stay that count most, and how each changes its odds.

    Six codes have a curve, whose points are coloured by their own part. The area up to the usual
    value is red where the code raises the odds in all, blue where it lowers them. Bars beside them
    tell by which factor, and what is known at the start. Where the classifier can `stream`, the
    probability over time comes first.

    Parameters
    ----------
    classifier : MambaClassifier
        Fitted.
    events : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        As in `fit`, of this stay and perhaps of others.
    subject_id : object
        The stay.
    label : object, optional
        The class whose odds are explained; the second of two by default.
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
    NotFittedError
        If the classifier is not fitted.
    FrameError
        If the stay is not in the events, or none of its codes is known.
    ParameterError
        If `label` is not a class, or the ending of `path` names no format of matplotlib.

    Examples
    --------
    >>> from tsmamba import MambaClassifier
    >>> rng = np.random.default_rng(0)
    >>> stay = np.repeat(np.arange(60), 20)
    >>> events = pl.DataFrame({
    ...     "subject_id": stay, "time": np.tile(np.arange(20.0), 60), "code": "pulse",
    ...     "numeric_value": 80 + 20 * (stay % 2) + rng.normal(size=1200),
    ... })
    >>> labels = pl.DataFrame({"subject_id": np.arange(60), "label": np.arange(60) % 2})
    >>> classifier = MambaClassifier(preset="tiny", random_state=0).fit(events, labels)
    >>> plot_explanation(classifier, events, 3).axes[0].get_title(loc="left")
    'pulse'
    """
    figure_type = require("matplotlib.figure", "plot").Figure
    stay = _read(classifier, events, subject_id, label)
    curves = stay.totals.filter(~pl.col("is_static"))["code"].head(MAX_CODES).to_list()
    n_panels = len(curves) + (stay.risk is not None)
    n_rows = max(n_panels, _LEAST_ROWS)
    figure = figure_type(
        figsize=(_WIDTH, _PANEL_HEIGHT * n_rows + _REST), dpi=_DPI, layout="constrained"
    )
    grid = figure.add_gridspec(n_rows, 2, width_ratios=(3, 1))
    first = figure.add_subplot(grid[0, 0])
    axes = [first, *(figure.add_subplot(grid[i, 0], sharex=first) for i in range(1, n_panels))]
    shown = stay.points.filter(pl.col("code").is_in(curves))
    largest = shown["contribution"].abs().quantile(_LARGEST) or 1.0
    for ax, code in zip(axes[-len(curves) :], curves, strict=True):
        dots = _draw_curve(ax, stay, code, largest)
    for ax in axes:
        style_axes(ax, temporal=shown["x"].dtype.is_temporal())
        ax.margins(y=0.2)
        ax.tick_params(labelbottom=ax is axes[-1])
        ax.locator_params(axis="y", nbins=3)
    if stay.risk is not None:
        _draw_risk(axes[0], stay.risk)
    axes[-1].set_xlabel(stay.clock, fontsize=9, color=_QUIET)
    _draw_bars(figure.add_subplot(grid[:-1, 1]), stay.totals, curves)
    _draw_key(figure, figure.add_subplot(grid[-1, 1]), dots, largest)
    figure.suptitle(stay.title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=_TEXT)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


@dataclass(frozen=True)
class _Stay:
    """All there is to draw of a stay."""

    title: str
    clock: str
    points: pl.DataFrame  # x, code, value, contribution: each measurement
    totals: pl.DataFrame  # code, value, contribution, is_static: the largest first
    usual: dict[str, float]
    risk: pl.DataFrame | None  # x, probability


def _read(classifier: MambaClassifier, events: Any, subject_id: Any, label: Any) -> _Stay:
    """Explain one stay, with its measurements as they were."""
    check_is_fitted(classifier)
    number = class_number(label, classifier.classes_)
    reader, ensemble = classifier._reader, classifier._ensemble
    given = read_events(events, classifier._columns(), Repairs())
    here = np.array([each == subject_id for each in given.ids])
    if not here.any():
        shown = ", ".join(map(repr, given.ids.head(_SHOWN)))
        raise FrameError(f"there is no stay {subject_id!r} in the events, whose stays are {shown}")
    given = given.only(here)
    stay = reader.clean(given, Repairs())
    if not reader.measured(stay).all():
        raise FrameError(f"stay {subject_id!r} has no measurement of a code that the model reads")
    parts = explain_events(stay, reader, ensemble, number)
    stays = reader.stays(stay, summaries=classifier.base is not None)
    probability = float(as_probabilities(ensemble.scores(stays))[0, number])
    usual = float(expit(logit(probability) - parts["contribution"].sum()))
    streams = classifier.causal and classifier.base is None
    dtype = to_polars(events, [classifier.time_col]).schema[classifier.time_col]
    start = 0.0 if given.from_zero else reader.rules.starts(given)[0]

    def placed(rows: pl.DataFrame) -> pl.DataFrame:
        hours = rows["time"] + start
        return rows.with_columns(x=hours if given.from_zero else as_times(hours, dtype))

    bins = bin_of(stay.rows["time"].to_numpy(), reader.width)
    points = stay.rows.with_columns(start=pl.Series(bins * reader.width)).join(
        parts.select("code", pl.col("time").alias("start"), "contribution"),
        on=["code", "start"],
    )
    totals = (
        parts.group_by("code", maintain_order=True)
        .agg(pl.col("value").mean(), pl.col("contribution").sum())
        .with_columns(is_static=pl.col("code").is_in(list(reader.vocabulary.statics)))
        .sort(pl.col("contribution").abs(), descending=True)
    )
    name = f"{classifier.label_col} {classifier.classes_[number]}"
    title = f"{subject_id}: {probability:.0%} for {name}, {usual:.0%} if all values were usual"
    return _Stay(
        title=title,
        clock="hours" if isinstance(dtype, pl.Duration) else classifier.time_col,
        points=placed(points),
        totals=totals,
        usual={code: scale.usual for code, scale in reader.vocabulary.codes.items()},
        risk=placed(_risk(classifier, stay, number)) if streams else None,
    )


def _risk(classifier: MambaClassifier, stay: Events, number: int) -> pl.DataFrame:
    """Return the probability after the events of each time."""
    stream = classifier.stream()
    risks = [
        stream.observe(0, time, code, value).probabilities[number]
        for time, code, value in stay.rows.select("time", "code", "value").iter_rows()
    ]
    rows = stay.rows.with_columns(pl.Series("probability", risks))
    return rows.group_by("time", maintain_order=True).agg(pl.col("probability").last())


def _draw_risk(ax: Any, risk: pl.DataFrame) -> None:
    ax.step(axis_times(risk["x"]), risk["probability"], where="post", color=_TEXT, lw=1.4)
    ax.set_title("probability, after each event", **_TITLE)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _draw_curve(ax: Any, stay: _Stay, code: str, largest: float) -> Any:
    """Draw a code over time; return its points."""
    points = stay.points.filter(pl.col("code") == code)
    x, y = axis_times(points["x"]), points["value"].to_numpy()
    usual = stay.usual[code]
    raises = stay.totals.filter(pl.col("code") == code)["contribution"][0] > 0
    ax.fill_between(x, y, usual, color=_RAISES if raises else _LOWERS, alpha=0.12, lw=0)
    ax.axhline(usual, color=_QUIET, lw=0.9, ls=(0, (4, 3)), zorder=1)
    ax.plot(x, y, color=_LINE, lw=0.8, zorder=2)
    known = range_of(code)
    ax.set_title(f"{code}, {known.unit}" if known and known.unit else code, **_TITLE)
    colours = {"c": points["contribution"], "cmap": _COLOURS, "vmin": -largest, "vmax": largest}
    return ax.scatter(x, y, s=26, ec=_QUIET, lw=0.5, zorder=3, **colours)


def _draw_bars(ax: Any, totals: pl.DataFrame, curves: list[str]) -> None:
    """Draw the parts of codes with a curve, of all others in one, and of what is static."""
    static = totals.filter("is_static")
    drawn = totals.filter(pl.col("code").is_in(curves))
    rest = totals.filter(~pl.col("code").is_in(curves) & ~pl.col("is_static"))
    names = drawn["code"].to_list()
    sizes = drawn["contribution"].to_list()
    if len(rest):
        names.append(f"{len(rest)} others")
        sizes.append(rest["contribution"].sum())
    places = [*range(len(names)), *(len(names) + _GAP + i for i in range(len(static)))]
    if len(static):
        header = len(names) + _GAP - 0.7
        at = {"transform": ax.get_yaxis_transform(), "ha": "right"}
        ax.text(-0.03, header, "known at the start", **at, **_SMALL)
    names += [f"{code} {value:.4g}" for code, value in static.select("code", "value").rows()]
    sizes += static["contribution"].to_list()
    ax.barh(places, sizes, color=[_RAISES if size > 0 else _LOWERS for size in sizes], height=0.6)
    for place, size in zip(places, sizes, strict=True):
        at = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(f"×{np.exp(size):.2f}", (max(size, 0.0), place), **at, **_SMALL)
    ax.axvline(0.0, color=_LINE, lw=0.9)
    ax.set_title("what changes the odds", **_TITLE)
    ax.spines[:].set_visible(False)
    ax.set_yticks(places, names)
    ax.set_xticks([])
    ax.tick_params(length=0, labelsize=9, colors=_TEXT)
    ax.margins(x=0.3)
    ax.invert_yaxis()


def _draw_key(figure: Any, ax: Any, dots: Any, largest: float) -> None:
    """Say what the colours and the dashed line mean."""
    ax.set_axis_off()
    scale = figure.colorbar(
        dots, cax=ax.inset_axes((0.0, 0.3, 1.0, 0.12)), orientation="horizontal", extend="both"
    )
    ticks = [-largest, 0.0, largest]
    scale.set_ticks(ticks, labels=[f"×{np.exp(tick):.2f}" for tick in ticks])
    scale.ax.set_title("points: factor of the odds in their bin", loc="left", x=-0.04, **_SMALL)
    scale.ax.tick_params(length=0, labelsize=8, colors=_QUIET)
    scale.outline.set_visible(False)
    ax.text(
        0.0, -0.2, "areas: the code raises (red) or lowers\nthem; dashed: usual value", **_SMALL
    )
