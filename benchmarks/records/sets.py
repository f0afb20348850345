"""Problems of the benchmark: stays to learn from, stays to judge, and their labels."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

__all__ = ["NUMBERS", "SETS", "Problem", "physionet", "problems"]

_ID, _LABEL = "subject_id", "label"
_SPLITS = 5


class Stays(NamedTuple):
    """Events and labels of some stays."""

    events: pl.DataFrame
    labels: pl.DataFrame

    def only(self, ids: pl.Series) -> "Stays":
        """Return those of these ids."""
        return Stays(*(frame.filter(pl.col(_ID).is_in(ids.implode())) for frame in self))


class Problem(NamedTuple):
    """Stays to learn from and stays to judge."""

    train: Stays
    test: Stays


def _folder(name: str) -> Path:
    place = os.environ.get("TSMAMBA_DATA")
    if place is None:
        raise SystemExit("set TSMAMBA_DATA to the folder of the data sets")
    return Path(place) / name


def physionet(part: str) -> Stays:
    """Read a set of PhysioNet 2012: 48 hours of each stay, and whether the patient died in it."""
    folder = _folder("physionet2012")
    names = {"RecordID": _ID, "minute": "time", "parameter": "code", "value": "numeric_value"}
    events = pl.read_parquet(folder / f"set-{part}.parquet").rename(names)
    outcomes = pl.read_csv(folder / f"Outcomes-{part}.txt")
    labels = outcomes.select(
        pl.col("RecordID").cast(events.schema[_ID]).alias(_ID),
        pl.col("In-hospital_death").alias(_LABEL),
    )
    return Stays(events.with_columns(pl.col("code").cast(pl.String)), labels)


def _a_to_b() -> Iterator[Problem]:
    yield Problem(physionet("a"), physionet("b"))


def _splits() -> Iterator[Problem]:
    """Five seeded splits of sets a and b, a fifth of the stays to judge."""
    parts = [physionet(part) for part in "ab"]
    both = Stays(*(pl.concat(frames) for frames in zip(*parts, strict=True)))
    yield from _parts(both, StratifiedShuffleSplit(_SPLITS, test_size=0.2, random_state=0))


def _eicu(task: str) -> Iterator[Problem]:
    """Five folds of the eICU demo of YAIB, by stay: a label for each stay or for each hour.

    Labels are whole numbers where they are classes.
    """
    folder = _folder("icu_demo_yaib") / task / "eicu_demo"
    dynamic, static, labels = (
        pl.read_parquet(folder / f"{part}.parquet").rename({"stay_id": _ID})
        for part in ("dyn", "sta", "outc")
    )
    static = static.with_columns(
        (pl.col("sex") == "Male").cast(pl.Float64),
        pl.lit(0).cast(dynamic.schema["time"]).alias("time"),
    )
    if f"eICU {task}" not in NUMBERS:
        labels = labels.with_columns(pl.col(_LABEL).cast(pl.Int64))
    stays = Stays(pl.concat([static, dynamic], how="diagonal"), labels)
    yield from _parts(stays, StratifiedKFold(_SPLITS, shuffle=True, random_state=0))


def _parts(stays: Stays, splitter: StratifiedKFold | StratifiedShuffleSplit) -> Iterator[Problem]:
    # A stay with labels of hours counts as one of the class that any of them has.
    whole = stays.labels.group_by(_ID, maintain_order=True).agg(pl.col(_LABEL).max())
    ids, labels = whole[_ID], whole[_LABEL]
    strata = np.zeros(len(ids)) if labels.dtype.is_float() else labels.to_numpy()
    for train, test in splitter.split(np.zeros((len(ids), 1)), strata):
        yield Problem(stays.only(ids[train]), stays.only(ids[test]))


# Those whose labels are numbers.
NUMBERS = ("eICU kidney_function", "eICU los")
_TASKS = ("mortality24", "aki", "sepsis", "kidney_function", "los")
SETS: dict[str, Callable[[], Iterator[Problem]]] = {
    "P12 a to b": _a_to_b,
    "P12 splits": _splits,
    **{f"eICU {task}": partial(_eicu, task) for task in _TASKS},
}


def problems(name: str) -> Iterator[Problem]:
    """Yield the splits of a set."""
    return SETS[name]()
