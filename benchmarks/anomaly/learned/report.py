"""The table of what blocks add, between marks of its own on the page."""

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path

import numpy as np

from benchmarks.anomaly.learned.blocks import BLOCKS
from benchmarks.anomaly.learned.judged import Key, family_of, side_of
from benchmarks.anomaly.learned.run import PRESENT
from benchmarks.anomaly.results import Cell
from benchmarks.forecast.report import replaced_between_marks
from benchmarks.forecast.results import Results, by_model, succeeded
from benchmarks.forecast.tables import failures, grid, provenance

MARKS = "<!-- learned: begin -->", "<!-- learned: end -->"
_CELL = set(Cell._fields)
_WORTH_COUNTING = 0.005
_SIDES = {
    "chosen": "settings chosen on",
    "other": "other series",
    "fresh": "series left over",
}
_HEADER = ["block", "", *_SIDES.values(), "better / worse, not chosen on", "s a series"]


def write_report(results: Results, page: Path) -> None:
    """Rewrite what stands between the marks.

    Parameters
    ----------
    results : sequence of dict
        Lines of results, failed cells among them.
    page : Path
        The page.

    Raises
    ------
    ValueError
        If there is no result, or the page lacks the marks.
    """
    if not succeeded(results):
        raise ValueError("the results hold no cell that succeeded; run the benchmark first")
    page.write_text(replaced_between_marks(page, table(results), MARKS), encoding="utf-8")


def table(results: Results) -> str:
    """Return what each block adds to VUS-PR, with standard errors, on both sides.

    Parameters
    ----------
    results : sequence of dict
        Lines of results, at least one of them of a cell that succeeded.

    Returns
    -------
    str
        Markdown.
    """
    good = succeeded(results)
    rows = [row for block, lines in by_model(good, BLOCKS).items() for row in _rows(block, lines)]
    parts = [provenance(good), grid(_HEADER, rows), failures(results, Cell.of)]
    return "\n\n".join(part for part in parts if part)


def _rows(block: str, lines: Results) -> list[list[str]]:
    """Return a row for each variant of a block."""
    known = _CELL | {PRESENT, "seconds", "run", "date", "device", "threads", "versions", "commit"}
    variants = [name for name in lines[0] if name not in known]
    seconds = f"{np.median([line['seconds'] for line in lines]):.1f}"
    rows = []
    for variant in variants:
        gaps = gaps_of(lines, variant)
        parts = []
        for side in _SIDES:
            of_side = {key: gap for key, gap in gaps.items() if side_of(*key) == side}
            parts.append(_told(*with_error(of_side), len(of_side)) if of_side else "–")
        unseen = [gap for key, gap in gaps.items() if side_of(*key) != "chosen"]
        counts = [sum(sign * gap > _WORTH_COUNTING for gap in unseen) for sign in (1, -1)]
        rows.append([block, variant, *parts, " / ".join(map(str, counts)), seconds])
    return rows


def gaps_of(lines: Results, variant: str) -> dict[Key, float]:
    """Return what a variant adds to each series, mean over seeds.

    Parameters
    ----------
    lines : sequence of dict
        Of one block.
    variant : str
        Which of its numbers.

    Returns
    -------
    dict
        By set and series.
    """
    gaps: dict[Key, list[float]] = {}
    for line in lines:
        gaps.setdefault((line["set"], line["series"]), []).append(line[variant] - line[PRESENT])
    return {key: sum(found) / len(found) for key, found in gaps.items()}


def with_error(gaps: Mapping[Key, float]) -> tuple[float, float]:
    """Return a mean over series and its standard error, which takes kin of a series as one draw.

    Parameters
    ----------
    gaps : mapping
        By set and series, one at least.

    Returns
    -------
    mean, error : float
        An error of 0 where all are kin.
    """
    mean = sum(gaps.values()) / len(gaps)
    of_kin: dict[str, float] = {}
    for key, gap in gaps.items():
        family = family_of(*key)
        of_kin[family] = of_kin.get(family, 0.0) + gap - mean
    return mean, _spread(list(of_kin.values())) / len(gaps)


def _spread(sums: Sequence[float]) -> float:
    n = len(sums)
    return sqrt(sum(x * x for x in sums) * n / (n - 1)) if n > 1 else 0.0


def _told(mean: float, error: float, n: int) -> str:
    t = f", t {mean / error:+.1f}" if error else ""
    return f"{mean:+.4f} ± {error:.4f}{t} ({n})"
