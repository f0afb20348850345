"""Results of the ways to fine-tune as tables."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

from benchmarks.finetune.run import ALONE, BEFORE, WAYS, Cell
from benchmarks.forecast.results import Line, Results, select, succeeded
from benchmarks.forecast.tables import failures, grid, provenance

_NONE = "\N{EN DASH}"
Measure = Callable[[Line], float]


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
    good = {name: lines for name in WAYS if (lines := select(succeeded(results), way=name))}
    sections = [
        provenance(succeeded(results)),
        f"### Error on the target\n\n{_errors(good, 'target_error')}",
        f"### Error on the sources\n\n{_errors(good, 'source_error')}",
        f"### Differences\n\n{_differences(good)}",
        f"### Error by target\n\n{_by_target(good)}",
        failures(results, Cell.of),
    ]
    return "\n\n".join(section for section in sections if section)


def _of(where: str, forecast: str) -> Measure:
    """Return the measure of a forecast, in percent of the mean load."""
    return lambda line: 100 * line[where][forecast]


def _ratio(where: str) -> Measure:
    return lambda line: line[where]["corrected"] / line[where]["base"]


def _errors(good: Mapping[str, Results], where: str) -> str:
    rows = [
        [
            name,
            f"{fmean(map(_of(where, 'corrected'), lines)):.3f}",
            f"{fmean(map(_of(where, 'base'), lines)):.3f}",
            f"{fmean(map(_ratio(where), lines)):.4f}",
            f"{fmean(line['seconds'] for line in lines):.0f}",
            f"{sum(line['report'].get('finetuning', '').startswith('used') for line in lines)}"
            f" of {len(lines)}",
        ]
        for name, lines in good.items()
    ]
    header = ["", "corrected, %", "base, %", "corrected / base", "seconds", "taken"]
    return grid(header, rows)


def _differences(good: Mapping[str, Results]) -> str:
    """Return how much more each way errs than others; below zero it is better."""
    target, sources = _of("target_error", "corrected"), _of("source_error", "corrected")
    rows = [
        [
            name,
            _paired(lines, good.get(ALONE, []), target),
            _paired(lines, good.get(BEFORE, []), target),
            _paired(lines, good.get(BEFORE, []), sources),
            _paired(lines, good.get("full", []), sources),
            _paired(lines, good.get(BEFORE, []), _ratio("source_error"), digits=4),
        ]
        for name, lines in good.items()
        if name not in (ALONE, BEFORE)
    ]
    header = [
        "",
        f"target, against {ALONE}",
        f"target, against {BEFORE}",
        f"sources, against {BEFORE}",
        "sources, against full",
        f"sources, corrected / base, against {BEFORE}",
    ]
    return grid(header, rows)


def _paired(lines: Results, others: Results, measure: Measure, digits: int = 3) -> str:
    """Return the mean difference over targets and seeds, and its standard error."""
    differences = [
        measure(line) - measure(other)
        for line in lines
        for other in select(others, target=line["target"], seed=line["seed"])
    ]
    if not differences:
        return _NONE
    mean = f"{fmean(differences):+.{digits}f}"
    if len(differences) < 2:
        return mean
    return f"{mean} ± {stdev(differences) / len(differences) ** 0.5:.{digits}f}"


def _by_target(good: Mapping[str, Results]) -> str:
    targets = list(dict.fromkeys(line["target"] for lines in good.values() for line in lines))

    def mean(lines: Results) -> str:
        return f"{fmean(map(_of('target_error', 'corrected'), lines)):.3f}" if lines else _NONE

    rows: list[Sequence[str]] = [
        [name, *(mean(select(lines, target=target)) for target in targets)]
        for name, lines in good.items()
    ]
    return grid(["corrected, %", *targets], rows)
