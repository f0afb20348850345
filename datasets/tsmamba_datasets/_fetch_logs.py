"""fetch_*: log lines and event sequences."""

import io

import polars as pl

from tsmamba_datasets._catalog import CATALOG
from tsmamba_datasets._checks import check_choice
from tsmamba_datasets._fetch import read_source

_HDFS_LISTS = {"train": ("hdfs_train", False), "test_abnormal": ("hdfs_test_abnormal", True)}
_HDFS_TABLES = {"robust_train": "robust_log_train.csv", "robust_valid": "robust_log_valid.csv"}


def fetch_loghub_2k(system: str = "HDFS") -> tuple[pl.DataFrame, pl.DataFrame]:
    """2,000 log lines of one system, raw and parsed by hand into templates.

    Use it to test log parsing; it is too short to judge anomaly detection.

    Parameters
    ----------
    system : str, default="HDFS"
        One of Android, Apache, BGL, HDFS, HPC, Hadoop, HealthApp, Linux, Mac, OpenSSH,
        OpenStack, Proxifier, Spark, Thunderbird, Windows, Zookeeper.

    Returns
    -------
    lines : polars.DataFrame
        ``line_id`` (Int64 from 1), ``line`` (String), 2,000 rows.
    structured : polars.DataFrame
        The published columns, all String but ``LineId`` (Int64); ``EventId`` and
        ``EventTemplate`` are the parse.

    Raises
    ------
    DatasetError
        If the system is unknown or a source file cannot be had.

    Examples
    --------
    >>> lines, structured = fetch_loghub_2k("HDFS")
    """
    systems = sorted({file.path.split("/")[1] for file in CATALOG["loghub_2k"].files})
    check_choice("system", system, systems)
    base = f"loghub_2k/{system}/{system}_2k.log"
    # Only line feeds end a line: str.splitlines would also split at odd separators.
    text = read_source(f"{base}.gz").decode().removesuffix("\n").split("\n")
    lines = pl.DataFrame({"line": [line.removesuffix("\r") for line in text]})
    table = pl.read_csv(read_source(f"{base}_structured.csv.gz"), infer_schema=False)
    line_id = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("line_id")
    return lines.select(line_id, "line"), table.with_columns(pl.col("LineId").cast(pl.Int64))


def fetch_hdfs_sessions(part: str = "train") -> pl.DataFrame:
    """Block traces of the HDFS log as sequences of event numbers, with labels.

    Use it for anomaly detection in event sequences; counts alone already do well on it.

    Parameters
    ----------
    part : {"train", "test_abnormal", "robust_train", "robust_valid"}, default="train"
        ``train`` has 4,855 normal sessions and ``test_abnormal`` 16,838 abnormal ones;
        ``robust_train`` (12,000) and ``robust_valid`` (2,000) hold as many of each kind.

    Returns
    -------
    polars.DataFrame
        ``session`` (Int64 row of the file), ``events`` (List of Int64, 1 to 28), ``label``
        (Boolean, true for abnormal).

    Raises
    ------
    DatasetError
        If the part is unknown or the source file cannot be had.

    Examples
    --------
    >>> fetch_hdfs_sessions("train").height
    4855
    """
    check_choice("part", part, [*_HDFS_LISTS, *_HDFS_TABLES])
    if part in _HDFS_LISTS:
        name, abnormal = _HDFS_LISTS[part]
        text = read_source(f"hdfs_sessions/logdeep/{name}.gz").decode().splitlines()
        frame = pl.DataFrame({"Sequence": text}).with_columns(label=pl.lit(abnormal))
    else:
        content = read_source(f"hdfs_sessions/logdeep/{_HDFS_TABLES[part]}.gz")
        frame = pl.read_csv(io.BytesIO(content), infer_schema=False)
        frame = frame.with_columns(pl.col("label") == "1")
    events = pl.col("Sequence").str.strip_chars().str.split(" ").cast(pl.List(pl.Int64))
    session = pl.int_range(pl.len(), dtype=pl.Int64).alias("session")
    return frame.select(session, events.alias("events"), "label")
