"""Command line: ``run`` fills a file of results, ``report`` turns it into tables and plots."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.forecast.models import CONTESTANTS
from benchmarks.forecast.report import write_report
from benchmarks.forecast.results import read_results
from benchmarks.forecast.run import cells, run
from benchmarks.forecast.sets import SETS

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
    if given.command == "report":
        write_report(read_results(given.results), given.docs)
        return 0
    sets = [source for source in SETS if source.name in given.sets]
    wanted = cells(sets, given.models, given.seeds, given.horizons)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    return min(1, run(wanted, sets, given.out, console.print))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.forecast", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    names = [source.name for source in SETS]
    runs = commands.add_parser("run", help="run what has no result yet")
    runs.add_argument("--sets", nargs="+", choices=names, default=names, metavar="SET")
    runs.add_argument(
        "--models", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), metavar="MODEL"
    )
    runs.add_argument("--horizons", nargs="+", type=int, metavar="STEPS")
    runs.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="SEED")
    runs.add_argument("--out", type=Path, default=_RESULTS)
    report = commands.add_parser("report", help="write tables and plots into the documentation")
    report.add_argument("results", type=Path, nargs="?", default=_RESULTS)
    report.add_argument("--docs", type=Path, default=_ROOT / "docs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
