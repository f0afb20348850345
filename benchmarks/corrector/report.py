"""Results of the variants as tables."""

from collections.abc import Callable, Mapping
from statistics import fmean, stdev

from benchmarks.corrector.run import Cell
from benchmarks.corrector.variants import PRESENT, VARIANTS
from benchmarks.forecast.results import Line, Results, select, succeeded
from benchmarks.forecast.tables import failures, grid, provenance, spread

# Errors by member of the pool or by set.
Measure = Callable[[Line], Mapping[str, float]]

_NONE = "\N{EN DASH}"


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
    good = {name: lines for name in VARIANTS if (lines := select(succeeded(results), variant=name))}
    sections = [
        provenance(succeeded(results)),
        f"### Variants\n\n{_variants(good)}",
        f"### Error in parts of the base's\n\n{_overview(good)}",
        f"### Against {PRESENT}, in percent of the base's error\n\n{_against_present(good)}",
        f"### MSE of the gated forecast, mean over horizons\n\n{_by_set(good)}",
        failures(results, Cell.of),
    ]
    return "\n\n".join(section for section in sections if section)


def _on_pool(number: int) -> Measure:
    return lambda line: {name: errors[number] for name, errors in line["pool"].items()}


def _on_sets(forecast: str, error: str) -> Measure:
    """Return the measure of a forecast in parts of the base's error, mean over horizons."""

    def measure(line: Line) -> dict[str, float]:
        return {
            name: fmean(trial[forecast][error] / trial["base"][error] for trial in trials)
            for name, trials in _trials(line).items()
        }

    return measure


_MEASURES = {
    "pool, absolute": _on_pool(0),
    "pool, squared": _on_pool(1),
    "sets, MAE": _on_sets("corrected", "mae"),
    "sets, MAE, gated": _on_sets("gated", "mae"),
    "sets, MSE": _on_sets("corrected", "mse"),
    "sets, MSE, gated": _on_sets("gated", "mse"),
}


def _trials(line: Line) -> dict[str, list[Line]]:
    names = dict.fromkeys(trial["set"] for trial in line["sets"])
    return {name: select(line["sets"], set=name) for name in names}


def _variants(good: Mapping[str, Results]) -> str:
    rows = [
        [
            name,
            VARIANTS[name].what,
            f"{lines[0]['parameters']:,}",
            f"{fmean(line['seconds'] for line in lines):,.0f}",
            str(len(lines)),
        ]
        for name, lines in good.items()
    ]
    return grid(["", "", "parameters", "seconds of training", "seeds"], rows)


def _overview(good: Mapping[str, Results]) -> str:
    """Return the mean over members or sets of each measure, with its spread over seeds."""
    rows = [
        [
            name,
            *(
                spread([fmean(measure(line).values()) for line in lines], digits=4)
                for measure in _MEASURES.values()
            ),
        ]
        for name, lines in good.items()
    ]
    return grid(["", *_MEASURES], rows)


def _against_present(good: Mapping[str, Results]) -> str:
    """Return what each variant adds to the errors of the present one; below zero it is better."""
    rows = [
        [name, *(_paired(lines, good[PRESENT], measure) for measure in _MEASURES.values())]
        for name, lines in good.items()
        if PRESENT in good and name != PRESENT
    ]
    return grid(["", *_MEASURES], rows)


def _paired(lines: Results, present: Results, measure: Measure) -> str:
    """Return mean difference in percent, its t and how often the variant is better.

    A pair is a member or a set; its difference is the mean over the seeds that both have.
    """
    pairs = [(line, other) for line in lines for other in select(present, seed=line["seed"])]
    if not pairs:
        return _NONE
    differences = [
        100 * fmean(measure(line)[name] - measure(other)[name] for line, other in pairs)
        for name in measure(pairs[0][0])
    ]
    better = f"{sum(x < 0 for x in differences)} of {len(differences)}"
    mean = fmean(differences)
    if len(differences) < 2 or not (deviation := stdev(differences)):
        return f"{mean:+.2f} ({better})"
    t = mean / deviation * len(differences) ** 0.5
    return f"{mean:+.2f} (t {t:+.1f}, {better})"


def _by_set(good: Mapping[str, Results]) -> str:
    sets = list(_trials(next(iter(good.values()))[0]))

    def row(name: str, lines: Results, forecast: str) -> list[str]:
        means = [
            [fmean(trial[forecast]["mse"] for trial in _trials(line)[one]) for line in lines]
            for one in sets
        ]
        return [name, *map(spread, means)]

    base = next(iter(good.values()))[:1]  # it is the same with every seed
    rows = [row("base", base, "base"), *(row(name, x, "gated") for name, x in good.items())]
    return grid(["", *sets], rows)
