"""The sets: where the series come from, how much of each is for training, and what is scored.

Every set is read series by series. But for the two of TSB-AD, which scores whole series, the
training part is not scored.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl

import tsmamba_datasets as datasets
from benchmarks.anomaly.problem import Cause, Problem
from benchmarks.anomaly.published import Published, as_in_tsb_ad, read_published
from tsmamba_datasets._catalog import CATALOG
from tsmamba_datasets._fetch import FOLDER_VARIABLE, read_source
from tsmamba_datasets.errors import DatasetError

_SKAB_TRAINING = 400  # rows, all normal; the set's own protocol
_LEAST_NORMAL = 500  # rows before the fault of an oil well


@dataclass(frozen=True)
class AnomalySet:
    """One set of series.

    Parameters
    ----------
    name : str
        As it stands in the tables.
    names : callable
        Gives the names of the series.
    read : callable
        Gives the problem of a name.
    corpus : bool, default False
        Whether all series together have a score of their own, that of NAB.
    """

    name: str
    names: Callable[[], Sequence[str]]
    read: Callable[[str], Problem]
    corpus: bool = False

    def problems(self) -> Iterator[Problem]:
        """Read one series after the other."""
        return map(self.read, self.names())


def _stems(dataset: str, prefix: str, ending: str) -> list[str]:
    """Return the paths of a set's files, without a common prefix and ending."""
    paths = (file.path for file in CATALOG[dataset].files)
    chosen = (path for path in paths if path.startswith(prefix) and path.endswith(ending))
    return [path.removeprefix(prefix).removesuffix(ending) for path in chosen]


def _nab_names() -> list[str]:
    return _stems("nab", "nab/data/", ".csv.gz")


def read_nab(name: str) -> Problem:
    """Read a file of NAB in the order of its rows; `fetch_nab` joins rows of the same stamp.

    The probationary part, which the benchmark does not score, is for training.

    Parameters
    ----------
    name : str
        Folder and file, as in "realKnownCause/nyc_taxi".

    Returns
    -------
    Problem
    """
    frame = pl.read_csv(
        read_source(f"nab/data/{name}.csv.gz"), schema_overrides={"value": pl.Float64}
    )
    stamps = frame["timestamp"].str.to_datetime()
    windows = json.loads(read_source("nab/labels/combined_windows.json"))[f"{name}.csv"]
    labels = np.zeros(len(frame), bool)
    for window in windows:
        start, end = pl.Series(window).str.to_datetime()
        labels |= stamps.is_between(start, end).to_numpy()
    probation = int(0.15 * min(len(frame), 5_000))
    return Problem("NAB", name, frame.select("value").to_numpy(), labels, probation, probation)


def _ucr_names() -> list[str]:
    stems = _stems("ucr_anomaly", "ucr_anomaly/", ".parquet")
    return sorted(Path(stem).name[:3] for stem in stems)


def read_ucr(name: str) -> Problem:
    """Read a series of the UCR archive.

    Parameters
    ----------
    name : str
        Its number, three digits.

    Returns
    -------
    Problem
    """
    return _joined("UCR", name, *datasets.fetch_ucr_anomaly(int(name)), drop=("unique_id",))


def _joined(
    source: str, name: str, train: pl.DataFrame, test: pl.DataFrame, drop: Sequence[str] = ()
) -> Problem:
    """Put a training and a test part together; only the latter need have labels."""
    if "label" not in train.columns:
        train = train.with_columns(label=False)
    whole = pl.concat([train, test.select(train.columns)])
    values = whole.drop("ds", "label", *drop).cast(pl.Float64).fill_null(np.nan).to_numpy()
    labels = whole["label"].to_numpy()
    return Problem(source, name, values, labels, train.height, train.height)


def _read_asd(name: str) -> Problem:
    problem = _joined("ASD", name, *datasets.fetch_asd(name))
    return _with_causes(problem, f"asd/interpretation_label/{name}.txt", ends_included=True)


def _read_smd(name: str) -> Problem:
    problem = _joined("SMD", name, *datasets.fetch_smd(name))
    return _with_causes(problem, f"smd/interpretation_label/{name}.txt", ends_included=False)


def _with_causes(problem: Problem, path: str, *, ends_included: bool) -> Problem:
    """Add which channels were at fault: "start-end:channels", rows of the test part from 0."""
    causes = []
    for line in _from_folder(path).split():
        rows, channels = line.split(":")
        start, end = (problem.n_train + int(row) for row in rows.split("-"))
        numbers = frozenset(int(channel) - 1 for channel in channels.split(","))
        causes.append(Cause(start, end + ends_included, numbers))
    return replace(problem, causes=tuple(causes))


def _from_folder(path: str) -> str:
    """Read a file that stands in no catalog, because only the benchmark needs it."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise DatasetError(
            f"{path} comes with no download; set {FOLDER_VARIABLE} to a folder that holds it"
        )
    return (Path(folder) / path).read_text(encoding="utf-8")


def _channels() -> list[str]:
    table = pl.read_csv(read_source("smap_msl/labeled_anomalies.csv"))
    return sorted(set(table["chan_id"]))


def _read_spacecraft(source: str, columns: slice, name: str) -> Problem:
    problem = _joined(source, name, *datasets.fetch_smap_msl(name))
    return replace(problem, values=problem.values[:, columns])


def _skab_names() -> list[str]:
    return [name for name in _stems("skab", "skab/", ".csv.gz") if "anomaly-free" not in name]


def _read_skab(name: str) -> Problem:
    frame = datasets.fetch_skab(name)
    values = frame.drop("ds", "label", "changepoint").to_numpy()
    return Problem("SKAB", name, values, frame["label"].to_numpy(), _SKAB_TRAINING, _SKAB_TRAINING)


def _read_gecco(name: str) -> Problem:
    return _joined("GECCO", name, *datasets.fetch_gecco2018())


def _read_well(name: str) -> Problem:
    """Read a well from its first to its last labelled row; what is not normal is an anomaly.

    The fault lasts to the end, so half of the normal rows before it are kept to be scored.
    """
    frame = datasets.fetch_oil_3w(name)
    labelled = np.flatnonzero(frame["class"].is_not_null().to_numpy())
    frame = frame[int(labelled[0]) : int(labelled[-1]) + 1]
    # A few rows between the way into a fault and the fault have no class.
    labels = (frame["class"].fill_null(strategy="forward") != 0).to_numpy()
    values = frame.drop("ds", "class").fill_null(np.nan).to_numpy()
    half = (int(labels.argmax()) if labels.any() else len(labels)) // 2
    return Problem("oil wells", name, values, labels, half, half)


@cache
def _well_names() -> tuple[str, ...]:
    """Wells that have a fault, and enough rows before it to learn from."""
    stems = _stems("oil_3w", "oil_3w/", ".parquet")
    wells = map(_read_well, stems)
    return tuple(w.name for w in wells if w.labels.any() and w.n_train >= _LEAST_NORMAL // 2)


def _matched() -> dict[str, Published]:
    return {row.file: row for row in read_published() if row.source}


def _read_tsb_ad(own_prefix: bool, name: str) -> Problem:
    """Read a series as TSB-AD cuts and labels it; it scores the training part, too."""
    row = _matched()[name]
    source = read_nab(row.series) if row.source == "NAB" else read_ucr(row.series)
    cut = as_in_tsb_ad(source)
    n_train = cut.n_train if own_prefix else row.n_train
    title = "TSB-AD, archive's prefix" if own_prefix else "TSB-AD"
    return replace(cut, set=title, name=name, n_train=n_train)


SETS = (
    AnomalySet(
        "ASD",
        lambda: _stems("asd", "asd/", "_train.parquet"),
        _read_asd,
    ),
    AnomalySet("SKAB", _skab_names, _read_skab),
    AnomalySet("oil wells", _well_names, _read_well),
    AnomalySet(
        "SMD",
        lambda: _stems("smd", "smd/", "_train.parquet"),
        _read_smd,
    ),
    AnomalySet("NAB", _nab_names, read_nab, corpus=True),
    AnomalySet("SMAP/MSL", _channels, partial(_read_spacecraft, "SMAP/MSL", slice(0, 1))),
    AnomalySet(
        "SMAP/MSL, all columns",
        _channels,
        partial(_read_spacecraft, "SMAP/MSL, all columns", slice(None)),
    ),
    AnomalySet("GECCO", lambda: ["gecco2018"], _read_gecco),
    AnomalySet("TSB-AD", lambda: list(_matched()), partial(_read_tsb_ad, False)),
    AnomalySet("TSB-AD, archive's prefix", lambda: list(_matched()), partial(_read_tsb_ad, True)),
    AnomalySet("UCR", _ucr_names, read_ucr),
)


def find_set(name: str) -> AnomalySet:
    """Return the set of a name.

    Examples
    --------
    >>> find_set("NAB").corpus
    True
    """
    return next(s for s in SETS if s.name == name)
