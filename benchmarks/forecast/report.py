"""Results as tables between two marks of a page, and as plots beside it."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.forecast.plots import plot_ahead, plot_relative
from benchmarks.forecast.results import Results, succeeded
from benchmarks.forecast.tables import tables

_PAGE = "accuracy.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

_PLOTS = """![MSE of each method over that of RLinear](images/accuracy.png)

![MSE against the step ahead](images/horizons.png)"""


def write_report(results: Results, docs: Path) -> None:
    """Rewrite what stands between the marks of ``accuracy.md``, and the plots in ``images``.

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
    good = succeeded(results)
    if not good:
        raise ValueError("the results hold no cell that succeeded; run the benchmark first")
    replaced = replaced_between_marks(docs / _PAGE, f"{_PLOTS}\n\n{tables(results)}")
    images = docs / "images"
    images.mkdir(exist_ok=True)
    plot_relative(good, images / "accuracy.png")
    plot_ahead(good, images / "horizons.png")
    (docs / _PAGE).write_text(replaced, encoding="utf-8")


def fill_page(results: Results, page: Path, tables: Callable[[Results], str]) -> None:
    """Rewrite what stands between the marks of a page; for benchmarks whose page is tables alone.

    Parameters
    ----------
    results : sequence of dict
        Lines of results, failed cells among them.
    page : Path
        The page.
    tables : callable
        Makes Markdown of the results.

    Raises
    ------
    ValueError
        If there is no result, or the page lacks the marks between which the tables stand.
    """
    if not succeeded(results):
        raise ValueError("the results hold no cell that succeeded; run the benchmark first")
    page.write_text(replaced_between_marks(page, tables(results)), encoding="utf-8")


def replaced_between_marks(page: Path, body: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """Return the text of a page with other results between its marks.

    Parameters
    ----------
    page : Path
        Holds each of the two marks once.
    body : str
        The results, in Markdown.
    marks : (str, str), optional
        Where they begin and end.

    Raises
    ------
    ValueError
        If the page lacks the marks.
    """
    text = page.read_text(encoding="utf-8")
    begin, end = marks
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{page} must hold the lines {begin} and {end} once each")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{body}\n\n{end}{after}"
