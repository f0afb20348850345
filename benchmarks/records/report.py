"""Tables of results and a plot of calibration."""

from pathlib import Path

import numpy as np

from benchmarks.forecast.plots import TEXT, finish, new_figure
from benchmarks.forecast.results import Results, select, succeeded
from benchmarks.forecast.tables import failures, grid, provenance
from benchmarks.records.forecasters import FORECASTERS
from benchmarks.records.models import MODELS
from benchmarks.records.regressors import REGRESSORS
from benchmarks.records.run import VALUES, Cell
from benchmarks.records.sets import NUMBERS, SETS

__all__ = ["draw_calibration", "tables", "value_tables"]

# Those of most values have a row of their own.
_CODES = 20
_FIGURES = "AUROC", "AUPRC", "Brier", "ECE"
_NUMBER_FIGURES = "MAE", "RMSE", "R²", "inside 90 %"
_COVERAGE = "coverage_macro", "coverage"

# Okabe and Ito's colours, which the colour-blind tell apart; markers differ too.
_STYLES = {
    "MambaClassifier": ("#D55E00", "o"),
    "boosting on summaries": ("#0072B2", "s"),
    "logistic regression on summaries": ("#009E73", "^"),
    "GRU-D": ("#CC79A7", "D"),
}


def tables(results: Results) -> str:
    """Return a table for each set that has results, means over its splits.

    Parameters
    ----------
    results : list of dict
        Lines of the file.

    Returns
    -------
    str
        In Markdown.
    """
    parts = [provenance(succeeded(results))]
    for name in SETS:
        rows = []
        numbers = name in NUMBERS
        for model in REGRESSORS if numbers else MODELS:
            lines = select(succeeded(results), set=name, model=model)
            if lines:
                cells = _number_cells(lines) if numbers else _cells(lines)
                rows.append(f"| {model} | {' | '.join(cells)} |")
        if rows:
            splits = len({line["split"] for line in select(results, set=name)})
            head = f"**{name}**, {splits} split{'s' * (splits > 1)}"
            header = ["model", *(_NUMBER_FIGURES if numbers else _FIGURES), "seconds"]
            columns = f"| {' | '.join(header)} |\n" + "| --- " * len(header)
            parts.append(f"{head}\n\n{columns}|\n" + "\n".join(rows))
    parts += value_tables(select(succeeded(results), set=VALUES))
    parts.append(failures(results, Cell.of))
    return "\n\n".join(part for part in parts if part)


def value_tables(results: Results) -> list[str]:
    """Return the errors of forecasts of next values, on average and by code.

    Parameters
    ----------
    results : list of dict
        Lines about these.

    Returns
    -------
    list of str
        Two tables in Markdown, none without results.
    """
    found = {line["model"]: line for line in results}
    models = [name for name in FORECASTERS if name in found]
    if not models:
        return []
    rows = []
    for name in models:
        line = found[name]
        inside = [f"{100 * line[key]:.1f} %" if key in line else "–" for key in _COVERAGE]
        rows.append([name, f"{line['macro']:.4f}", f"{line['micro']:.4f}", *inside])
        rows[-1].append(f"{line['seconds']:.0f}")
    header = ["model", "MAE, mean over codes", "MAE, all values", "inside 90 %, mean over codes"]
    first = grid([*header, "inside 90 %, all values", "seconds"], rows)
    codes = found[models[0]]["codes"]
    frequent = sorted(codes, key=lambda code: -codes[code]["values"])[:_CODES]
    by_code = [
        [
            code,
            f"{codes[code]['values']:,}",
            *(f"{found[name]['codes'][code]['mae']:.3f}" for name in models),
            f"{100 * codes[code]['coverage']:.1f} %" if "coverage" in codes[code] else "–",
        ]
        for code in frequent
    ]
    second = grid(["code", "values", *models, f"inside 90 % of {models[0]}"], by_code)
    return [f"**{VALUES}**\n\n{first}", second]


def _cells(lines: Results) -> list[str]:
    told = []
    for figure, digits in (("auroc", 4), ("auprc", 4), ("brier", 4), ("ece", 3)):
        values = np.array([line[figure] for line in lines])
        spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 and digits == 4 else ""
        told.append(f"{values.mean():.{digits}f}{spread}")
    return [*told, f"{np.mean([line['seconds'] for line in lines]):.0f}"]


def _number_cells(lines: Results) -> list[str]:
    told = []
    for figure, digits in (("mae", 3), ("rmse", 3), ("r2", 3)):
        values = np.array([line[figure] for line in lines])
        spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
        told.append(f"{values.mean():.{digits}f}{spread}")
    inside = [line["coverage"] for line in lines if "coverage" in line]
    told.append(f"{100 * np.mean(inside):.1f} %" if inside else "–")
    return [*told, f"{np.mean([line['seconds'] for line in lines]):.0f}"]


def draw_calibration(results: Results, path: Path) -> None:
    """Draw what was said and what came, on the first set.

    Parameters
    ----------
    results : list of dict
        Lines of the file.
    path : Path
        Of the picture.
    """
    first = next(iter(SETS))
    figure = new_figure(7.5, 4.4)
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], color="#999999", lw=1, ls="--")
    for model, (colour, marker) in _STYLES.items():
        for line in select(succeeded(results), set=first, model=model):
            ax.plot(line["said"], line["came"], color=colour, marker=marker, lw=1.5, label=model)
    ax.set_xlabel("probability that was given", color=TEXT)
    ax.set_ylabel("share that died", color=TEXT)
    ax.set_xlim(0, 0.8)
    ax.set_ylim(0, 0.8)
    finish(figure, [ax], path, _STYLES)
