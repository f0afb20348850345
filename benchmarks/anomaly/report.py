"""Results as tables between two marks of a page, and as plots beside it."""

from pathlib import Path

from benchmarks.anomaly.plots import plot_cost, plot_sorted
from benchmarks.anomaly.results import scored
from benchmarks.anomaly.tables import tables
from benchmarks.forecast.report import replaced_between_marks
from benchmarks.forecast.results import Results

_PAGE = "accuracy-anomaly.md"
_PLOTS = """![VUS-PR on the series of each set, from worst to best](images/anomaly.png)

![VUS-PR against seconds for 10,000 steps](images/anomaly-cost.png)"""


def write_report(results: Results, docs: Path) -> None:
    """Rewrite what stands between the marks of ``accuracy-anomaly.md``, and the plots.

    Parameters
    ----------
    results : sequence of dict
        Lines of results, failed cells among them.
    docs : Path
        Folder of the page.

    Raises
    ------
    ValueError
        If there is no result, or the page lacks the marks between which the tables stand.
    """
    lines = scored(results)
    if not lines:
        raise ValueError("the results hold no cell with metrics; run the benchmark first")
    replaced = replaced_between_marks(docs / _PAGE, f"{_PLOTS}\n\n{tables(results)}")
    images = docs / "images"
    images.mkdir(exist_ok=True)
    plot_sorted(lines, images / "anomaly.png")
    plot_cost(lines, images / "anomaly-cost.png")
    (docs / _PAGE).write_text(replaced, encoding="utf-8")
