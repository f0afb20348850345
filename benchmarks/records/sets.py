"""Problems of the benchmark: stays to learn from, stays to judge, and their labels."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

__all__ = ["SETS", "Problem", "physionet", "problems"]

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


def _mortality24() -> Iterator[Problem]:
    """Five folds of the eICU demo of YAIB: 24 hours of each stay, death in it."""
    folder = _folder("icu_demo_yaib") / "mortality24" / "eicu_demo"
    dynamic = pl.read_parquet(folder / "dyn.parquet").rename({"stay_id": _ID})
    static = pl.read_parquet(folder / "sta.parquet").rename({"stay_id": _ID})
    static = static.with_columns(
        (pl.col("sex") == "Male").cast(pl.Float64),
        pl.lit(0).cast(dynamic.schema["time"]).alias("time"),
    )
    labels = pl.read_parquet(folder / "outc.parquet").rename({"stay_id": _ID})
    stays = Stays(pl.concat([static, dynamic], how="diagonal"), labels)
    yield from _parts(stays, StratifiedKFold(_SPLITS, shuffle=True, random_state=0))


def _parts(stays: Stays, splitter: StratifiedKFold | StratifiedShuffleSplit) -> Iterator[Problem]:
    ids, labels = stays.labels[_ID], stays.labels[_LABEL].to_numpy()
    for train, test in splitter.split(np.zeros((len(ids), 1)), labels):
        yield Problem(stays.only(ids[train]), stays.only(ids[test]))


SETS = {"P12 a to b": _a_to_b, "P12 splits": _splits, "eICU mortality24": _mortality24}


def problems(name: str) -> Iterator[Problem]:
    """Yield the splits of a set."""
    return SETS[name]()
