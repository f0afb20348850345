"""Command line: ``run`` fills a file of results, ``report`` turns it into tables and a plot.

Needs the folder of the data sets in ``TSMAMBA_DATA``.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.forecast.report import fill_page
from benchmarks.forecast.results import read_results
from benchmarks.records.forecasters import FORECASTERS
from benchmarks.records.models import MODELS
from benchmarks.records.regressors import REGRESSORS
from benchmarks.records.report import draw_calibration, tables
from benchmarks.records.run import Cell, run, run_forecasts
from benchmarks.records.sets import SETS

_ROOT = Path(__file__).resolve().parents[2]
_RESULTS = Path(__file__).with_name("results.jsonl")


def main() -> int:
    """Read the command line and do what it says.

    Returns
    -------
    int
        1 where a cell failed.
    """
    given = _parser().parse_args()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if given.command == "run":
        return min(1, run(given.sets, given.models, given.out, console.print))
    if given.command == "forecast":
        return min(1, run_forecasts(given.models, given.out, console.print))
    results = read_results(given.results, Cell.of)
    fill_page(results, given.docs / "accuracy-records.md", tables)
    draw_calibration(results, given.docs / "images" / "records-calibration.png")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.records", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    models = list(dict.fromkeys((*MODELS, *REGRESSORS)))
    runs = commands.add_parser("run", help="run what has no result yet")
    runs.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    runs.add_argument("--models", nargs="+", choices=models, default=models, metavar="MODEL")
    runs.add_argument("--out", type=Path, default=_RESULTS)
    forecast = commands.add_parser("forecast", help="the same, of forecasts of the next values")
    forecast.add_argument(
        "--models", nargs="+", choices=FORECASTERS, default=list(FORECASTERS), metavar="MODEL"
    )
    forecast.add_argument("--out", type=Path, default=_RESULTS)
    report = commands.add_parser("report", help="write tables and a plot into the documentation")
    report.add_argument("results", type=Path, nargs="?", default=_RESULTS)
    report.add_argument("--docs", type=Path, default=_ROOT / "docs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
