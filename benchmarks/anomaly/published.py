"""Published results, and the series they were reached on, from small tables beside this file.

The tables are remade from the publishers' files by ``python -m benchmarks.anomaly published``.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.anomaly.problem import Problem

FOLDER = Path(__file__).with_name("published")
_NAME = re.compile(r"_tr_(\d+)_1st_(\d+)\.csv$")


@dataclass(frozen=True)
class Published:
    """A file of the evaluation list of TSB-AD, and the VUS-PR that detectors reached on it.

    Parameters
    ----------
    file : str
        Its name, which tells the training part and the first labelled row.
    source, series : str
        Set and series that hold the same values here; empty where there is none.
    reason : str
        Why there is none.
    vus_pr : mapping
        By detector; empty where no series matches.

    Examples
    --------
    >>> row = Published("001_NAB_id_1_Facility_tr_1007_1st_2014.csv", "", "", "", {})
    >>> row.n_train, row.first
    (1007, 2014)
    """

    file: str
    source: str
    series: str
    reason: str
    vus_pr: Mapping[str, float]

    @property
    def n_train(self) -> int:
        """Rows of the training part."""
        return self._numbers[0]

    @property
    def first(self) -> int:
        """First labelled row."""
        return self._numbers[1]

    @property
    def _numbers(self) -> tuple[int, int]:
        found = _NAME.search(self.file)
        if found is None:
            raise ValueError(f"{self.file!r} is no name of TSB-AD: it must end in _tr_N_1st_N.csv")
        return int(found[1]), int(found[2])


def as_in_tsb_ad(problem: Problem) -> Problem:
    """Cut and label a series as TSB-AD does.

    There the first row of the files of NAB is missing, and the first row of each event has no
    label.

    Parameters
    ----------
    problem : Problem
        Of NAB or UCR.

    Returns
    -------
    Problem
        All of its rows are scored.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([False, True, True, True, False])
    >>> problem = Problem("UCR", "001", np.zeros((5, 1)), labels, 1, 1)
    >>> as_in_tsb_ad(problem).events
    [(2, 4)]
    """
    labels = problem.labels.copy()
    labels[1:] &= problem.labels[:-1]
    labels[:1] = False
    if problem.set != "NAB":
        return replace(problem, labels=labels, scored_from=0)
    # An event keeps its numbers and loses its last row: without the first row of the file, what
    # was row 1 is row 0.
    return replace(
        problem,
        values=problem.values[1:],
        labels=labels[1:],
        n_train=problem.n_train - 1,
        scored_from=0,
    )


def write_published(rows: Sequence[Published]) -> None:
    """Write the table of TSB-AD."""
    methods = sorted({name for row in rows for name in row.vus_pr})
    table = [["file", "source", "series", "reason", *methods]]
    for row in rows:
        scores = [f"{row.vus_pr[m]:.5f}" if row.vus_pr else "" for m in methods]
        table.append([row.file, row.source, row.series, row.reason, *scores])
    _write(FOLDER / "tsb_ad.csv", table)


def read_published() -> list[Published]:
    """Read the table of TSB-AD.

    Examples
    --------
    >>> read_published()[0].series
    'realKnownCause/ec2_request_latency_system_failure'
    """
    with (FOLDER / "tsb_ad.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Published(
            row.pop("file"),
            row.pop("source"),
            row.pop("series"),
            row.pop("reason"),
            {name: float(x) for name, x in row.items() if x},
        )
        for row in rows
    ]


def write_scoreboard(scores: Mapping[str, Mapping[str, float]]) -> None:
    """Write the scoreboard of NAB: by detector and profile."""
    profiles = sorted({profile for row in scores.values() for profile in row})
    rows = [[name, *(f"{row[p]:.2f}" for p in profiles)] for name, row in sorted(scores.items())]
    _write(FOLDER / "nab.csv", [["detector", *profiles], *rows])


def read_scoreboard() -> dict[str, dict[str, float]]:
    """Read the scoreboard of NAB.

    Examples
    --------
    >>> read_scoreboard()["null"]["standard"]
    0.0
    """
    with (FOLDER / "nab.csv").open(encoding="utf-8", newline="") as file:
        return {
            row.pop("detector"): {profile: float(x) for profile, x in row.items()}
            for row in csv.DictReader(file)
        }


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
