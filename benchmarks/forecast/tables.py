"""Tables in Markdown: errors by set and horizon, intervals, seconds, and where it all ran."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from benchmarks.forecast.models import CONTESTANTS
from benchmarks.forecast.models.network import BUDGET
from benchmarks.forecast.results import (
    Cell,
    Line,
    Results,
    by_model,
    complete,
    select,
    sets_in,
    succeeded,
)
from benchmarks.forecast.sets import ForecastSet

# Our own stand together, the base beside what is built on it.
_SHOWN = sorted(CONTESTANTS, key=lambda name: name.startswith("tsmamba"))
_NONE = "\N{EN DASH}"
_EFFORT = (
    f"Networks train for at most {BUDGET.steps:,} steps of {BUDGET.batch} windows and stop after "
    f"{BUDGET.patience} validations, {BUDGET.every} steps apart, without a gain."
)


def tables(results: Results) -> str:
    """Return all tables, one section each.

    Parameters
    ----------
    results : sequence of dict
        Lines of results, failed cells among them.

    Returns
    -------
    str
        Markdown.
    """
    good = succeeded(results)
    sections = [f"{provenance(good)} {_EFFORT}", _overview(good)]
    sections += [_errors(source, good) for source in sets_in(good)]
    sections += [_competition(good), _intervals(good), _seconds(good), failures(results, Cell.of)]
    return "\n\n".join(section for section in sections if section)


def _overview(results: Results) -> str:
    """Return the MSE of each set, averaged over horizons; the least of a set is bold."""
    sources = sets_in(results)
    rows = {
        name: [_average(select(lines, set=source.name), source)[:1] for source in sources]
        for name, lines in by_model(results, _SHOWN).items()
    }
    header = ["", *(source.name for source in sources)]
    return f"### MSE, average over horizons\n\n{_table(header, rows)}"


def _errors(source: ForecastSet, results: Results) -> str:
    """Return MSE and MAE by horizon and on average; the least of a column is bold."""
    rows = {
        name: [_pair(lines, horizon) for horizon in source.horizons] + [_average(lines, source)]
        for name, lines in by_model(select(results, set=source.name), _SHOWN).items()
    }
    header = ["MSE / MAE", *map(str, source.horizons), "average"]
    return f"### {source.name}\n\n{_table(header, rows)}"


def _competition(results: Results) -> str:
    """Return the errors of the M4 competition."""
    scored = [line for line in results if "owa" in line]
    if not scored:
        return ""
    rows = {
        name: [[spread([line[key] for line in lines])] for key in ("smape", "mase", "owa")]
        for name, lines in by_model(scored, _SHOWN).items()
    }
    return f"### M4, as the competition counts\n\n{_table(['', 'sMAPE', 'MASE', 'OWA'], rows)}"


def _intervals(results: Results) -> str:
    """Return coverage in percent and interval score, means over horizons and seeds."""
    scored = [line for line in results if "coverage_80" in line]
    if not scored:
        return ""
    keys = [f"{kind}_{level}" for kind in ("coverage", "interval_score") for level in (80, 90)]
    rows: list[list[str]] = []
    for source in sets_in(scored):
        for name, lines in by_model(select(scored, set=source.name), _SHOWN).items():
            whole = complete(lines, source)
            if not whole:
                continue
            means = [fmean(line[key] for line in whole) for key in keys]
            shown = [f"{100 * x:.1f} %" for x in means[:2]] + [f"{x:.3f}" for x in means[2:]]
            rows.append([source.name, name, *shown])
    header = ["set", "", "80 %", "90 %", "score, 80 %", "score, 90 %"]
    return f"### Intervals: share of values inside, and mean interval score\n\n{grid(header, rows)}"


def _seconds(results: Results) -> str:
    """Return seconds of fit and forecast, all horizons of a set together, mean over seeds."""
    sources = sets_in(results)
    rows = [
        [name, *(_total(select(lines, set=source.name), source) for source in sources)]
        for name, lines in by_model(results, _SHOWN).items()
    ]
    header = ["", *(source.name for source in sources)]
    return (
        f"### Seconds for fit and all test windows, all horizons together\n\n{grid(header, rows)}"
    )


def _total(lines: Results, source: ForecastSet) -> str:
    whole = complete(lines, source)
    if not whole:
        return _NONE
    seconds = [line["fit_seconds"] + line["predict_seconds"] for line in whole]
    return f"{sum(seconds) / len({line['seed'] for line in whole}):,.0f}"


def failures(results: Results, cell_of: Callable[[Line], object]) -> str:
    """Return a section that lists the cells that failed; nothing if none did.

    Parameters
    ----------
    results : sequence of dict
        Lines of results.
    cell_of : callable
        Gives the cell of a line.

    Returns
    -------
    str
        Markdown.
    """
    failed = [f"- {cell_of(line)}: {line['error']}" for line in results if "error" in line]
    return "### Cells that failed\n\n" + "\n".join(failed) if failed else ""


def provenance(results: Results) -> str:
    """Say in a sentence where and when the numbers of any benchmark were made."""
    dates = [line["date"][:10] for line in results]
    places = {f"{line['device']} (threads: {line['threads']})" for line in results}
    versions = {f"{name} {v}" for line in results for name, v in line["versions"].items()}
    commits = {str(line["commit"]) for line in results}
    seeds = {str(line["seed"]) for line in results}
    return (
        f"Run from {min(dates)} to {max(dates)} on {_listed(places)}; {_listed(versions)}; commit "
        f"{_listed(commits)}; seeds {_listed(seeds)}."
    )


def _pair(lines: Results, horizon: int) -> list[str]:
    """Return MSE and MAE of a horizon, mean over seeds; nothing where it was not run."""
    at = select(lines, horizon=horizon)
    return [f"{fmean(line[key] for line in at):.3f}" for key in ("mse", "mae") if at]


def _average(lines: Results, source: ForecastSet) -> list[str]:
    """Return MSE and MAE over all horizons with their spread; nothing where one is missing."""
    whole = complete(lines, source)
    by_seed = [select(whole, seed=seed) for seed in sorted({line["seed"] for line in whole})]
    return [
        spread([fmean(line[key] for line in seed_lines) for seed_lines in by_seed])
        for key in ("mse", "mae")
        if whole
    ]


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return a mean, with the standard deviation where there are several values.

    Examples
    --------
    >>> spread([0.5]), spread([0.5, 0.7])
    ('0.500', '0.600 ± 0.141')
    """
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def _table(header: Sequence[str], rows: dict[str, list[list[str]]]) -> str:
    """Return a table whose cells hold several numbers; the least at each place is bold."""
    best: dict[tuple[int, int], float] = {}
    for row in rows.values():
        for place, text in _places(row):
            best[place] = min(best.get(place, float("inf")), _value(text))

    def marked(column: int, cell: list[str]) -> str:
        texts = [
            f"**{text}**" if _value(text) == best[column, n] else text
            for n, text in enumerate(cell)
        ]
        return " / ".join(texts) or _NONE

    shown = [[name, *(marked(n, cell) for n, cell in enumerate(row))] for name, row in rows.items()]
    return grid(header, shown)


def _places(row: list[list[str]]) -> Iterable[tuple[tuple[int, int], str]]:
    return (((n, m), text) for n, cell in enumerate(row) for m, text in enumerate(cell))


def _value(text: str) -> float:
    return float(text.partition(" ")[0])


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown.

    Examples
    --------
    >>> print(grid(["a"], [["1"]]))
    | a |
    | --- |
    | 1 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(items: Iterable[str]) -> str:
    return ", ".join(sorted(items))
