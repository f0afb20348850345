"""Command line: ``run`` fills a file of results, ``report`` turns it into tables."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.finetune.report import tables
from benchmarks.finetune.run import WAYS, Cell, cells, run
from benchmarks.forecast.report import fill_page
from benchmarks.forecast.results import read_results

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "finetuning.md"
_RESULTS = Path(__file__).with_name("results.jsonl")


def main() -> int:
    """Read the command line and do what it says.

    Returns
    -------
    int
        1 where a cell failed.
    """
    given = _parser().parse_args()
    if given.command == "report":
        fill_page(read_results(given.results, Cell.of), given.page, tables)
        return 0
    console = Console(highlight=False, markup=False, soft_wrap=True)
    return min(1, run(cells(given.ways, given.seeds), given.out, console.print))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.finetune", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    names = list(WAYS)
    runs = commands.add_parser("run", help="run what has no result yet")
    runs.add_argument("--ways", nargs="+", choices=names, default=names, metavar="NAME")
    runs.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="SEED")
    runs.add_argument("--out", type=Path, default=_RESULTS)
    report = commands.add_parser("report", help="write tables into the documentation")
    report.add_argument("results", type=Path, nargs="?", default=_RESULTS)
    report.add_argument("--page", type=Path, default=_PAGE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
