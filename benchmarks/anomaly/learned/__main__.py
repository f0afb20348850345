"""Command line: ``run`` judges what has no result yet, ``report`` writes the table."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.anomaly.learned.blocks import BLOCKS
from benchmarks.anomaly.learned.judged import fresh_names, judged_names
from benchmarks.anomaly.learned.report import write_report
from benchmarks.anomaly.learned.run import cells, run
from benchmarks.anomaly.results import read_results

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "accuracy-anomaly.md"
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
        write_report(read_results(given.results), given.page)
        return 0
    console = Console(highlight=False, markup=False, soft_wrap=True)
    keys = [*judged_names(), *(fresh_names() if given.fresh else [])]
    return min(1, run(cells(given.blocks, given.seeds, keys), given.out, console.print))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.anomaly.learned", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="judge what has no result yet")
    names = list(BLOCKS)
    runs.add_argument("--blocks", nargs="+", choices=names, default=names, metavar="BLOCK")
    runs.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED")
    runs.add_argument("--fresh", action="store_true", help="judge on the series left over, too")
    runs.add_argument("--out", type=Path, default=_RESULTS)
    report = commands.add_parser("report", help="write the table into the documentation")
    report.add_argument("results", type=Path, nargs="?", default=_RESULTS)
    report.add_argument("--page", type=Path, default=_PAGE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
