"""The picture of a run: time against length, and every ratio beside what is claimed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tsmamba._optional import require
from tsmamba.benchmark.claims import CLAIMS, Claim, Finding, Measurement, Piece
from tsmamba.benchmark.measure_length import exponent
from tsmamba.benchmark.networks import ATTENTION, LSTM, OURS
from tsmamba.errors import ParameterError

# Okabe and Ito's colours, which the colour-blind tell apart; markers differ too.
_STYLES = {OURS: ("#0072B2", "o"), ATTENTION: ("#D55E00", "s"), LSTM: ("#009E73", "^")}
_RATIO, _CLAIMED, _TEXT, _GRID = "#0072B2", "#E69F00", "#3c4046", "#e4e6ea"
_WIDTH, _CURVES_HEIGHT, _ROW_HEIGHT, _MARGIN = 9.5, 4.2, 0.3, 1.2
_DPI = 150


class _Row(NamedTuple):
    """A comparison and the claim that speaks of it."""

    claim: Claim
    measurement: Measurement
    ratio: float


def check_format(path: Path) -> None:
    """Refuse a file that could not be drawn to, before the work that fills it.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ParameterError
        If the ending of the name is no format of matplotlib.

    Examples
    --------
    >>> check_format(Path("bench.png"))
    """
    known = require("matplotlib.figure", "plot").Figure().canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in known:
        listed = ", ".join(f".{name}" for name in sorted(known))
        raise ParameterError(f"cannot draw to {path}: the name must end with one of {listed}")


def draw(findings: Mapping[Piece, Finding], caption: str, path: Path) -> Any:
    """Draw what was found.

    Parameters
    ----------
    findings : dict of Piece to Finding
        What was found, a measurement at least.
    caption : str
        Where it was measured.
    path : Path
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
        The picture, also written to `path`.
    """
    curves = {name: curve for f in findings.values() for name, curve in f.curves.items()}
    rows = [
        _Row(CLAIMS[piece], measurement, measurement.ratio)
        for piece, finding in findings.items()
        for measurement in finding.measurements
        if measurement.ratio is not None
    ]
    heights = [_CURVES_HEIGHT] * bool(curves)
    heights += [_MARGIN + _ROW_HEIGHT * len(rows)] * bool(rows)
    figure = require("matplotlib.figure", "plot").Figure(
        figsize=(_WIDTH, sum(heights)), dpi=_DPI, layout="constrained"
    )
    axes = list(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    if curves:
        _draw_curves(axes.pop(0), curves)
    if rows:
        _draw_ratios(axes.pop(0), rows)
    figure.supxlabel(caption, fontsize=7.5, color=_TEXT)
    figure.savefig(path)
    return figure


def _draw_curves(ax: Any, curves: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    for name, curve in curves.items():
        colour, marker = _STYLES[name]
        lengths, seconds = zip(*curve, strict=True)
        label = f"{name}, time ~ $L^{{{exponent(curve):.2f}}}$"
        ax.loglog(lengths, seconds, color=colour, marker=marker, ms=5, lw=1.6, label=label)
    ax.set_xscale("log", base=2)
    ax.set_title("One forward pass against length", loc="left", fontsize=11, fontweight="bold")
    ax.set_xlabel("length L (steps)", fontsize=9, color=_TEXT)
    ax.set_ylabel("time (s)", fontsize=9, color=_TEXT)
    ax.xaxis.set_major_formatter(_steps)
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    _tidy(ax)


def _draw_ratios(ax: Any, rows: Sequence[_Row]) -> None:
    """One row a comparison, the first on top."""
    for at, row in enumerate(rows):
        label = "measured here" if at == 0 else None
        ax.plot([1, row.ratio], [at, at], color=_RATIO, lw=1.0, alpha=0.5)
        ax.plot(row.ratio, at, "o", color=_RATIO, ms=6, zorder=4, label=label)
        text = f"{row.ratio:,.3g}x" if row.ratio < 1000 else f"{row.ratio:,.0f}x"
        # In a column of their own, where no mark hides them.
        ax.text(1.01, at, text, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
    _draw_claimed(ax, rows)
    ax.axvline(1, color=_TEXT, lw=0.9, ls=(0, (4, 3)))
    ax.set_xscale("log")
    ax.set_yticks(range(len(rows)), [_row_label(row.measurement) for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_title("Baseline over ours", loc="left", fontsize=11, fontweight="bold")
    ax.set_xlabel("ratio of time or memory, right of 1 ours needs less", fontsize=9, color=_TEXT)
    ax.xaxis.set_major_formatter("{x:g}x")
    ax.legend(
        frameon=False,
        fontsize=9,
        ncols=2,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0,
    )
    _tidy(ax)


def _draw_claimed(ax: Any, rows: Sequence[_Row]) -> None:
    label: str | None = "claimed"
    for at, (claim, measurement, _) in enumerate(rows):
        if claim.claimed is not None and measurement.judged:
            ends = [_as_ratio(claim, end) for end in claim.claimed]
            ax.plot(ends, [at, at], "|-", color=_CLAIMED, ms=12, mew=3, lw=5, label=label)
            label = None


def _as_ratio(claim: Claim, value: float) -> float:
    return 1 / (1 - value / 100) if claim.unit == "%" else value


def _row_label(measurement: Measurement) -> str:
    baseline = measurement.baseline.name if measurement.baseline is not None else ""
    return f"{measurement.what}\nagainst {baseline}"


def _steps(length: float, _: int) -> str:
    """Lengths as powers of two are usually written."""
    for scale, letter in ((2**20, "M"), (2**10, "K")):
        if length >= scale:
            return f"{length / scale:g}{letter}"
    return f"{length:g}"


def _tidy(ax: Any) -> None:
    ax.grid(color=_GRID, lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=0, labelsize=8, colors=_TEXT)
