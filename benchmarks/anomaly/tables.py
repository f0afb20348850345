"""Tables in Markdown: metrics by set, and what was published beside what was reached here."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, median, stdev

from benchmarks.anomaly.methods import CONTROL, CORRECTED, METHODS, OURS
from benchmarks.anomaly.published import Published, read_published, read_scoreboard
from benchmarks.anomaly.results import Cell, by_series, scored, sets_in
from benchmarks.anomaly.scores import PROFILES, TRAINING_QUANTILE
from benchmarks.forecast.results import Results, by_model, select, succeeded
from benchmarks.forecast.tables import failures, grid, provenance

NONE = "\N{EN DASH}"
_COLUMNS = {
    "vus_pr": "VUS-PR",
    "vus_roc": "VUS-ROC",
    "auc_pr": "AUC-PR",
    "f1": "event F1",
    "recall": "events found",
    "delay": "delay, steps",
    "affiliation": "affiliation F1",
    "hit": "hit",
    "channels": "right channel",
    "seconds": "s per 10,000 steps",
}
_BEST = {"delay": None, "seconds": min}  # the highest elsewhere; few events found make no delay
_TSB_AD, _OWN_PREFIX = "TSB-AD", "TSB-AD, archive's prefix"


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
    lines = scored(good)
    threshold = f"Thresholds are the {TRAINING_QUANTILE:g} quantile of the training part's scores."
    sections = [f"{provenance(good)} {threshold}", _overview(lines)]
    sections += [_differences(lines), _corrected(lines)]
    sections += [_tsb_ad(lines), _hits(lines), _scoreboard(good)]
    sections += [_metrics(source.name, lines) for source in sets_in(lines)]
    sections += [_seconds(lines), _left_out(good), failures(results, Cell.of)]
    return "\n\n".join(section for section in sections if section)


def means(lines: Results, key: str, names: Iterable[str] = METHODS) -> dict[str, float]:
    """Return the mean over series of the methods that have them all: others would mislead.

    Parameters
    ----------
    lines : sequence of dict
        Of one set.
    key : str
        A metric.
    names : iterable of str, optional
        Methods.

    Returns
    -------
    dict
        By method, in the order of ``names``.

    Examples
    --------
    >>> lines = [{"series": "a", "model": "PCA", "f1": 0.5}, {"series": "b", "model": "PCA"}]
    >>> means(lines, "f1", ["PCA", "robust z"])
    {'PCA': 0.5}
    """
    numbers = {name: by_series(found, key) for name, found in by_model(lines, names).items()}
    most = max(map(len, numbers.values()), default=0)
    return {
        name: fmean(found.values()) for name, found in numbers.items() if 0 < len(found) == most
    }


def rivals(lines: Results) -> list[str]:
    """Return the baseline with the highest VUS-PR on a set, and those that left out a series.

    Of the latter no mean over the set is known, so ours have to stand beside them, too.

    Parameters
    ----------
    lines : sequence of dict
        Of one set.
    """
    reached = {name: mean for name, mean in means(lines, "vus_pr").items() if _is_baseline(name)}
    best = sorted(reached, key=lambda name: -reached[name])[:1]
    return best + [n for n in by_model(lines, METHODS) if _is_baseline(n) and n not in reached]


def _is_baseline(name: str) -> bool:
    return name != CONTROL and not name.startswith(OURS)


def _overview(lines: Results) -> str:
    sources = sets_in(lines)
    columns = [_texts(means(select(lines, set=source.name), "vus_pr")) for source in sources]
    series = [len(by_series(select(lines, set=source.name), "vus_pr")) for source in sources]
    header = ["", *(f"{s.name} ({n})" for s, n in zip(sources, series, strict=True))]
    return f"### VUS-PR, mean over series\n\n{grid(header, _rows(columns, [max] * len(columns)))}"


def _differences(lines: Results) -> str:
    """Return how far each of ours is from its rivals, series by series."""
    rows = []
    for source in sets_in(lines):
        of_set = select(lines, set=source.name)
        for rival in rivals(of_set):
            theirs = by_series(select(of_set, model=rival), "vus_pr")
            for name, found in by_model(of_set, _ours()).items():
                mine = by_series(found, "vus_pr")
                gaps = [mine[series] - theirs[series] for series in mine if series in theirs]
                if gaps:
                    rows.append([source.name, name, rival, _with_error(gaps), str(len(gaps))])
    if not rows:
        return ""
    header = ["set", "", "baseline", "difference ± standard error", "series"]
    return (
        "### VUS-PR beside the best baseline, and beside those that left out a series\n\n"
        f"{grid(header, rows)}"
    )


def _corrected(lines: Results) -> str:
    """Return what the corrector adds, series by series."""
    rows = []
    for source in sets_in(lines):
        found = by_model(select(lines, set=source.name), _ours())
        for name, with_it in found.items():
            plain = found.get(name.replace(f", {CORRECTED}", ""))
            if CORRECTED in name and plain:
                before, after = (by_series(part, "vus_pr") for part in (plain, with_it))
                gaps = [after[series] - before[series] for series in after if series in before]
                rows.append([source.name, name, _with_error(gaps), str(len(gaps))])
    if not rows:
        return ""
    header = ["set", "", "difference ± standard error", "series"]
    return f"### VUS-PR with the corrector, less that without\n\n{grid(header, rows)}"


def _tsb_ad(lines: Results) -> str:
    """Return all that was published on the files that are here, and the methods here on them."""
    rows = [row for row in read_published() if row.source]
    groups = {"all": rows}
    groups |= {name: [row for row in rows if row.source == name] for name in ("NAB", "UCR")}
    here = {source: select(lines, set=source) for source in (_TSB_AD, _OWN_PREFIX)}
    if not any(here.values()):
        return ""
    table = {
        f"{name}, published": {group: _mean_of(of, name) for group, of in groups.items()}
        for name in rows[0].vus_pr
    }
    for name in METHODS:
        reached = {
            source: by_series(select(found, model=name), "vus_pr") for source, found in here.items()
        }
        own = {group: _reached(of, reached[_TSB_AD]) for group, of in groups.items()}
        own["prefix"] = _reached(rows, reached[_OWN_PREFIX])
        table[f"**{name}**"] = {group: mean for group, mean in own.items() if mean is not None}
    keys = [*groups, "prefix"]
    order = sorted(
        filter(lambda name: "all" in table[name], table), key=lambda name: -table[name]["all"]
    )
    shown = [[name, *(_texts(table[name]).get(key, NONE) for key in keys)] for name in order]
    header = [
        "",
        *(f"{group} ({len(of)})" for group, of in groups.items()),
        "all, archive's prefix",
    ]
    return (
        "### TSB-AD: mean VUS-PR on the same files\n\n"
        f"{_matched()} Training part as in TSB-AD, in the last column that of the archive. Methods "
        f"in bold ran here, those that have all files.\n\n{grid(header, shown)}"
    )


def _mean_of(rows: Sequence[Published], name: str) -> float:
    return fmean(row.vus_pr[name] for row in rows)


def _reached(rows: Sequence[Published], reached: Mapping[str, float]) -> float | None:
    """Return the mean over files, or nothing where one is missing."""
    if any(row.file not in reached for row in rows):
        return None
    return fmean(reached[row.file] for row in rows)


def _matched() -> str:
    rows = read_published()
    reasons = Counter(row.reason for row in rows if row.reason)
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return (
        f"Of the {len(rows)} files from NAB and UCR in the evaluation list, "
        f"{sum(not row.reason for row in rows)} are here; the others: {why}."
    )


def _hits(lines: Results) -> str:
    """Return the share of the UCR archive whose highest score lies at the anomaly."""
    of_set = by_model(select(lines, set="UCR"), METHODS)
    hits = {name: by_series(found, "hit") for name, found in of_set.items()}
    if not hits:
        return ""
    common = set.intersection(*(set(found) for found in hits.values()))
    rows = [
        [
            name,
            _share(list(found.values())),
            str(len(found)),
            _share([found[series] for series in common]),
            METHODS[name].ahead,
        ]
        for name, found in hits.items()
    ]
    on_common = f"on the {len(common)} that all have"
    header = ["", "hit ± standard error", "series", on_common, "looks ahead over"]
    return f"### UCR: highest score within 100 steps of the anomaly\n\n{grid(header, rows)}"


def _share(hits: Sequence[float]) -> str:
    if not hits:
        return NONE
    share = fmean(hits)
    return f"{share:.3f} ± {sqrt(share * (1 - share) / len(hits)):.3f}"


def _scoreboard(results: Results) -> str:
    """Return NAB's score of each profile, published and here."""
    here = [line for line in results if "nab_standard" in line]
    if not here:
        return ""
    columns = {profile: profile.replace("_", " ") for profile in PROFILES}
    board = {f"{name}, published": row for name, row in read_scoreboard().items()}
    for name, found in by_model(here, METHODS).items():
        keys = (*columns, "records")
        board[f"**{name}**"] = {key: fmean(line[f"nab_{key}"] for line in found) for key in keys}
    ahead = {f"**{name}**": entry.ahead for name, entry in METHODS.items()}
    rows = [
        [
            name,
            *(f"{board[name][key]:.1f}" for key in columns),
            f"{board[name]['records']:.1f}" if "records" in board[name] else NONE,
            ahead.get(name, "nothing"),
        ]
        for name in sorted(board, key=lambda name: -board[name][PROFILES[0]])
    ]
    header = ["", *columns.values(), "standard, records only", "looks ahead over"]
    return f"### NAB: score of all files with one threshold\n\n{grid(header, rows)}"


def _metrics(name: str, lines: Results) -> str:
    """Return all metrics of a set."""
    of_set = select(lines, set=name)
    columns = {key: _texts(means(of_set, key)) for key in _COLUMNS}
    columns["delay"] = _texts(_delays(of_set), digits=0)
    shown = {key: column for key, column in columns.items() if column}
    rows = _rows(list(shown.values()), [_BEST.get(key, max) for key in shown])
    header = ["", *(_COLUMNS[key] for key in shown)]
    count = len(by_series(of_set, "vus_pr"))
    return f"### {name}: mean over {count} series\n\n{grid(header, rows)}"


def _delays(lines: Results) -> dict[str, float]:
    """Return the median over the series on which a method found any event."""
    delays = {name: by_series(found, "delay") for name, found in by_model(lines, METHODS).items()}
    return {name: median(found.values()) for name, found in delays.items() if found}


def _seconds(lines: Results) -> str:
    """Return what fit and score of 10,000 steps take, in the middle of all series of a set."""
    sources = sets_in(lines)
    rows = [
        [
            name,
            *(
                f"{median(by_series(part, 'seconds').values()):.3f}"
                if (part := select(found, set=source.name))
                else NONE
                for source in sources
            ),
        ]
        for name, found in by_model(lines, METHODS).items()
    ]
    header = ["", *(source.name for source in sources)]
    return f"### Seconds of one core for 10,000 steps, median over series\n\n{grid(header, rows)}"


def _left_out(results: Results) -> str:
    found = Counter(
        (line["model"], line["set"], line["left_out"]) for line in results if "left_out" in line
    )
    if not found:
        return ""
    listed = "\n".join(
        f"- {model} on {source}: {count} series ({reason})"
        for (model, source, reason), count in found.items()
    )
    return f"### Series left out\n\n{listed}"


def _ours() -> list[str]:
    return [name for name in METHODS if name.startswith(OURS)]


def _with_error(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:+.3f}"
    return f"{fmean(values):+.3f} ± {stdev(values) / sqrt(len(values)):.3f}"


def _rows(
    columns: Sequence[Mapping[str, str]], best: Sequence[Callable[..., str] | None]
) -> list[list[str]]:
    """Return a row for each method that has a number; what a function chooses is bold."""
    chosen = [
        choose(column.values(), key=_value, default=NONE) if choose else NONE
        for column, choose in zip(columns, best, strict=True)
    ]

    def marked(text: str, best: str) -> str:
        return f"**{text}**" if text == best != NONE else text

    return [
        [name, *(marked(c.get(name, NONE), top) for c, top in zip(columns, chosen, strict=True))]
        for name in METHODS
        if any(name in column for column in columns)
    ]


def _texts(numbers: Mapping[str, float], digits: int = 3) -> dict[str, str]:
    return {name: f"{x:,.{digits}f}" for name, x in numbers.items()}


def _value(text: str) -> float:
    return float(text.replace(",", ""))
