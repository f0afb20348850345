"""Command line: ``run`` fills a file of results, ``report`` turns it into tables and plots.

``published`` remakes the tables of published results from the publishers' files.
"""

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.anomaly.matching import remake
from benchmarks.anomaly.methods import METHODS
from benchmarks.anomaly.report import write_report
from benchmarks.anomaly.results import read_results
from benchmarks.anomaly.run import cells, run
from benchmarks.anomaly.sets import SETS

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
    if given.command == "report":
        write_report(read_results(given.results), given.docs)
        return 0
    if given.command == "published":
        for outcome, count in remake(given.data).most_common():
            console.print(f"{count} files: {outcome}")
        return 0
    sets = [source for source in SETS if source.name in given.sets]
    wanted = cells(sets, given.models, given.seeds, given.max_steps)
    return min(1, run(wanted, sets, given.out, console.print))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.anomaly", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    names = [source.name for source in SETS]
    runs = commands.add_parser("run", help="run what has no result yet")
    runs.add_argument("--sets", nargs="+", choices=names, default=names, metavar="SET")
    runs.add_argument(
        "--models", nargs="+", choices=METHODS, default=list(METHODS), metavar="MODEL"
    )
    runs.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED")
    runs.add_argument("--max-steps", type=int, metavar="STEPS", help="leave longer series out")
    runs.add_argument("--out", type=Path, default=_RESULTS)
    report = commands.add_parser("report", help="write tables and plots into the documentation")
    report.add_argument("results", type=Path, nargs="?", default=_RESULTS)
    report.add_argument("--docs", type=Path, default=_ROOT / "docs")
    published = commands.add_parser("published", help="remake the tables of published results")
    published.add_argument(
        "data",
        type=Path,
        nargs="?",
        default=os.environ.get("TSMAMBA_DATA"),
        help="folder of the data sets; TSMAMBA_DATA by default",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
