"""Build the shipped ``data/*.parquet`` from a folder of source files.

Run ``python datasets/bundle.py FOLDER``; FOLDER holds the files listed in
``tsmamba_datasets/data/files.csv``. Each file's sha256 is checked before it is read.
Besides the package this needs pyarrow, whose delta encoding halves the size.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from tsmamba_datasets import fetch_nab, fetch_physionet2012, fetch_pjm_load
from tsmamba_datasets._bundled import NAB_NAMES
from tsmamba_datasets._catalog import package_file
from tsmamba_datasets._fetch import FOLDER_VARIABLE

_STAYS_EACH = 20
_SHARE = 0.1
_SEED = 2012


def pjm() -> pl.DataFrame:
    """Region PJME; Float32 holds each of its values exactly."""
    frame = fetch_pjm_load("PJME").select("ds", pl.col("y").cast(pl.Float32))
    if not frame["y"].cast(pl.Float64).equals(fetch_pjm_load("PJME")["y"]):
        raise ValueError("PJME: Float32 changes values; keep Float64 in bundle.py.")
    return frame


def nab() -> pl.DataFrame:
    """Four series with labels."""
    return fetch_nab().filter(pl.col("unique_id").is_in(NAB_NAMES))


def physionet() -> tuple[pl.DataFrame, pl.DataFrame]:
    """As many stays with as without death, drawn among those that have measurements."""
    events, outcomes = fetch_physionet2012("a")
    measured = outcomes.join(events.filter(pl.col("minute") > 0), on="subject_id", how="semi")
    drawn = _drawn(measured, {False: _STAYS_EACH, True: _STAYS_EACH})
    return events.filter(drawn), outcomes.filter(drawn).sort("subject_id")


def icu() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Draw a tenth of all stays that ended in death, and a tenth of the others, empty ones too."""
    events, outcomes = fetch_physionet2012("a")
    counts = outcomes.group_by("died").len().rows()
    drawn = _drawn(outcomes, {died: round(_SHARE * count) for died, count in counts})
    labels = outcomes.select("subject_id", "died", "saps_i", "sofa")
    return events.filter(drawn), labels.filter(drawn).sort("subject_id")


def _drawn(outcomes: pl.DataFrame, sizes: dict[bool, int]) -> pl.Expr:
    """Draw so many stays of each outcome, those without death first; the seed is fixed."""
    rng = np.random.default_rng(_SEED)
    ids: list[int] = []
    for died in (False, True):
        pool = outcomes.filter(pl.col("died") == died)["subject_id"].sort().to_numpy()
        ids += rng.choice(pool, size=sizes[died], replace=False).tolist()
    return pl.col("subject_id").is_in(ids)


def write(frame: pl.DataFrame, name: str, folder: Path) -> None:
    """Write one file: stamps and counters as deltas, the rest as a dictionary."""
    deltas = [column for column in ("ds", "minute", "subject_id") if column in frame.columns]
    pq.write_table(
        frame.to_arrow(),
        folder / f"{name}.parquet",
        compression="zstd",
        compression_level=19,
        use_dictionary=[column for column in frame.columns if column not in deltas],
        column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
    )


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the source files")
    parser.add_argument(
        "--out", type=Path, default=package_file("data"), help="where to write the parquet files"
    )
    arguments = parser.parse_args()
    os.environ[FOLDER_VARIABLE] = str(arguments.folder)
    arguments.out.mkdir(parents=True, exist_ok=True)
    events, outcomes = physionet()
    icu_events, icu_labels = icu()
    write(pjm(), "pjm_pjme", arguments.out)
    write(nab(), "nab", arguments.out)
    write(events, "physionet_events", arguments.out)
    write(outcomes, "physionet_outcomes", arguments.out)
    write(icu_events, "icu_events", arguments.out)
    write(icu_labels, "icu_labels", arguments.out)


if __name__ == "__main__":
    main()
