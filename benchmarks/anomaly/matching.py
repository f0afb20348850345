"""Which series here are the files of TSB-AD's evaluation list, and what was published on them.

The list names length, first labelled row and number of labelled rows, which several copies of a
series share. So a match is proved: the published VUS-PR of an isolation forest on single values
must come out again.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import polars as pl
from sklearn.ensemble import IsolationForest

from benchmarks.anomaly.problem import Problem
from benchmarks.anomaly.published import (
    Published,
    as_in_tsb_ad,
    write_published,
    write_scoreboard,
)
from benchmarks.anomaly.sets import find_set
from tsmamba.metrics import vus_pr, window_of

_PROOF = "IForest"  # column of the published table
_TOLERANCE = 1e-9  # it comes out to the last digits
_FACTS = 7  # columns after the detectors: length and kinds of anomalies

Signature = tuple[int, int, int]  # length, first labelled row, labelled rows


def remake(folder: Path) -> Counter[str]:
    """Write both tables of published results anew.

    Parameters
    ----------
    folder : Path
        Holds ``tsb_ad`` and ``nab`` as published.

    Returns
    -------
    Counter
        Files of the evaluation list by outcome.
    """
    scores = json.loads((folder / "nab/results/final_results.json").read_text(encoding="utf-8"))
    write_scoreboard(scores)
    rows = matched(pl.read_csv(folder / "tsb_ad/uni_mergedTable_VUS-PR.csv"))
    write_published(rows)
    return Counter(row.reason or f"matched in {row.source}" for row in rows)


def matched(table: pl.DataFrame) -> list[Published]:
    """Find the series of the files from NAB and UCR.

    Parameters
    ----------
    table : polars.DataFrame
        VUS-PR as published, one row a file.

    Returns
    -------
    list of Published
    """
    known = defaultdict(list)
    for name in ("NAB", "UCR"):
        for problem in map(as_in_tsb_ad, find_set(name).problems()):
            known[signature(problem)].append(problem)
    chosen = table.filter(pl.col("file").str.contains("_(NAB|UCR)_"))
    return [_match(row, known) for row in chosen.iter_rows(named=True)]


def signature(problem: Problem) -> Signature:
    """Return what the list tells of a series."""
    labels = problem.labels
    first = int(labels.argmax()) if labels.any() else -1
    return len(labels), first, int(labels.sum())


def _match(row: dict[str, Any], known: dict[Signature, list[Problem]]) -> Published:
    none = Published(row["file"], "", "", "", {})
    length, first = row["ts_len"], none.first
    candidates = known[length, first, row["anomaly_len"]]
    found = [p for p in candidates if abs(forest_score(p) - row[_PROOF]) < _TOLERANCE]
    if len(found) == 1:
        methods = list(row)[1:-_FACTS]
        published = {name: row[name] for name in methods}
        return Published(row["file"], found[0].set, found[0].name, "", published)
    placed = any((length, first) == key[:2] for key, problems in known.items() if problems)
    if candidates:
        reason = "with several series alike here" if found else "of which only a copy is here"
    else:
        reason = (
            "with other labels here"
            if placed
            else "without a series of that length and first label here"
        )
    return Published(row["file"], "", "", reason, {})


def forest_score(problem: Problem) -> float:
    """Return the VUS-PR of an isolation forest on single values, with the settings of TSB-AD.

    Parameters
    ----------
    problem : Problem
        As TSB-AD cuts it.

    Returns
    -------
    float
        The published one to the last digits, if the series is the published one.
    """
    forest = IsolationForest(n_estimators=200, max_features=1, random_state=0)
    scores = -forest.fit(problem.values).decision_function(problem.values)
    return vus_pr(problem.labels, scores, window_of(problem.values))
