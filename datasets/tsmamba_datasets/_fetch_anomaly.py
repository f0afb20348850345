"""fetch_*: anomaly detection sets; wherever there are labels, ``label`` is Boolean."""

import io
import json
from pathlib import PurePosixPath

import numpy as np
import polars as pl

from tsmamba_datasets._catalog import CATALOG
from tsmamba_datasets._checks import check_choice
from tsmamba_datasets._fetch import read_source


def _stems(dataset: str, ending: str) -> dict[str, str]:
    """Map the file names of a set, without their ending, to their paths."""
    paths = [file.path for file in CATALOG[dataset].files if file.path.endswith(ending)]
    return {PurePosixPath(path).name.removesuffix(ending): path for path in paths}


def _with_steps(frame: pl.DataFrame) -> pl.DataFrame:
    """Put an integer ``ds`` from 0 before a frame that has no stamps."""
    return frame.select(pl.int_range(pl.len(), dtype=pl.Int64).alias("ds"), pl.all())


def fetch_nab() -> pl.DataFrame:
    """All 58 series of the Numenta Anomaly Benchmark with their anomaly windows.

    Use it for streaming detection, with a published scoreboard.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id`` (file name without ending), ``ds`` (Datetime us), ``y``
        (Float64), ``label`` (Boolean, true inside a window, both ends included), sorted.
        Rows of one series with the same stamp are joined: mean of ``y``.

    Raises
    ------
    DatasetError
        If a source file cannot be had.

    Examples
    --------
    >>> fetch_nab()["unique_id"].n_unique()
    58
    """
    windows = json.loads(read_source("nab/labels/combined_windows.json"))
    paths = _stems("nab", ".csv.gz")
    return pl.concat([_read_nab(name, paths[name], windows) for name in sorted(paths)])


def _read_nab(name: str, path: str, windows: dict[str, list[list[str]]]) -> pl.DataFrame:
    """Read one series and mark the rows inside its windows."""
    frame = pl.read_csv(read_source(path), schema_overrides={"value": pl.Float64})
    ds = pl.col("timestamp").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us")
    key = path.removeprefix("nab/data/").removesuffix(".gz")
    label = pl.lit(False)
    for start, end in windows[key]:
        bounds = pl.Series([start, end]).str.to_datetime("%Y-%m-%d %H:%M:%S%.6f")
        label = label | pl.col("ds").is_between(bounds[0], bounds[1])
    return (
        frame.group_by(ds.alias("ds"))
        .agg(pl.col("value").mean().alias("y"))
        .sort("ds")
        .select(pl.lit(name).alias("unique_id"), "ds", "y", label.alias("label"))
    )


def fetch_smd(machine: str = "machine-1-6") -> tuple[pl.DataFrame, pl.DataFrame]:
    """One machine of the Server Machine Dataset: 38 metrics a minute, train and test.

    Use it for anomaly detection in many columns; fit one model a machine.

    Parameters
    ----------
    machine : str, default="machine-1-6"
        One of machine-1-6, 1-7, 2-1, 2-2, 2-7.

    Returns
    -------
    train, test : polars.DataFrame
        Wide frames ``ds`` (Int64 step), ``f00`` to ``f37`` (Float32, scaled to 0-1 by the
        publisher); ``test`` has ``label`` (Boolean).

    Raises
    ------
    DatasetError
        If the machine is unknown or a source file cannot be had.

    Examples
    --------
    >>> train, test = fetch_smd("machine-1-6")
    """
    return _read_train_test("smd", "machine", machine)


def fetch_asd(server: str = "omi-1") -> tuple[pl.DataFrame, pl.DataFrame]:
    """One server of the Application Server Dataset: 19 metrics every 5 minutes.

    Smaller than :func:`fetch_smd` with the same shape: 30 days to fit, 15 to test.

    Parameters
    ----------
    server : str, default="omi-1"
        One of omi-1, 2, 4, 5, 7, 8, 10, 11.

    Returns
    -------
    train, test : polars.DataFrame
        Wide frames ``ds`` (Int64 step), ``f00`` to ``f18`` (Float32, 0-1); ``test`` has
        ``label`` (Boolean).

    Raises
    ------
    DatasetError
        If the server is unknown or a source file cannot be had.

    Examples
    --------
    >>> train, test = fetch_asd("omi-1")
    """
    return _read_train_test("asd", "server", server)


def _read_train_test(dataset: str, parameter: str, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read the two parquet files of one machine."""
    paths = _stems(dataset, "_train.parquet")
    check_choice(parameter, name, list(paths))
    train = pl.read_parquet(io.BytesIO(read_source(paths[name])))
    test = pl.read_parquet(io.BytesIO(read_source(f"{dataset}/{name}_test.parquet")))
    return _with_steps(train), _with_steps(test).with_columns(pl.col("label") == 1)


def fetch_ucr_anomaly(number: int = 1) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One series of the UCR Anomaly Archive, with exactly one anomaly in its test part.

    Use it to judge where a detector puts its highest score.

    Parameters
    ----------
    number : int, default=1
        Number of the series in the archive; odd numbers from 1 to 249.

    Returns
    -------
    train, test : polars.DataFrame
        Long frames ``unique_id``, ``ds`` (Int64 step, going on from train to test), ``y``
        (Float64), ``label`` (Boolean, false all over ``train``).

    Raises
    ------
    DatasetError
        If the number is unknown or the source file cannot be had.

    Examples
    --------
    >>> train, test = fetch_ucr_anomaly(1)
    """
    stems = _stems("ucr_anomaly", ".parquet")
    numbers = {int(stem[:3]): stem for stem in stems}
    check_choice("number", number, list(numbers))
    stem = numbers[number]
    # The file name carries the labels: <number>_UCR_Anomaly_<name>_<train end>_<start>_<end>.
    title, *numerals = stem.rsplit("_", maxsplit=3)
    train_end, start, end = map(int, numerals)
    frame = _with_steps(pl.read_parquet(io.BytesIO(read_source(stems[stem]))))
    # The archive counts from 1 and includes both ends.
    label = pl.col("ds").is_between(start - 1, end - 1)
    unique_id = pl.lit(title.replace("_UCR_Anomaly_", "_")).alias("unique_id")
    frame = frame.select(unique_id, "ds", pl.col("value").alias("y"), label.alias("label"))
    return frame.head(train_end), frame.slice(train_end)


def fetch_smap_msl(channel: str = "P-1") -> tuple[pl.DataFrame, pl.DataFrame]:
    """One telemetry channel of the SMAP satellite or the Curiosity rover (MSL).

    Use it with care: many of its anomalies are easy and some labels are doubtful.

    Parameters
    ----------
    channel : str, default="P-1"
        One of the 81 channels, such as "P-1" (SMAP) or "M-1" (MSL).

    Returns
    -------
    train, test : polars.DataFrame
        Wide frames ``ds`` (Int64 step), ``value`` (telemetry), ``c01`` and on (commands, 0
        or 1), all Float64; ``test`` has ``label`` (Boolean).

    Raises
    ------
    DatasetError
        If the channel is unknown or a source file cannot be had.

    Examples
    --------
    >>> train, test = fetch_smap_msl("P-1")
    """
    table = pl.read_csv(read_source("smap_msl/labeled_anomalies.csv"))
    check_choice("channel", channel, table["chan_id"].unique(maintain_order=True).to_list())
    rows = table.filter(pl.col("chan_id") == channel)
    craft = str(rows["spacecraft"][0]).lower()
    label = pl.lit(False)
    # P-2 stands twice in the table with slightly different ranges: both are used.
    for ranges in rows["anomaly_sequences"]:
        for start, end in json.loads(ranges):
            label = label | pl.col("ds").is_between(start, end)
    train = _read_channel(f"smap_msl/{craft}_train.npz", channel)
    test = _read_channel(f"smap_msl/{craft}_test.npz", channel)
    return train, test.with_columns(label.alias("label"))


def _read_channel(path: str, channel: str) -> pl.DataFrame:
    """Read one array of an npz; column 0 is the telemetry, the others are commands."""
    with np.load(io.BytesIO(read_source(path))) as arrays:
        values = arrays[channel]
    names = ["value", *(f"c{column:02d}" for column in range(1, values.shape[1]))]
    return _with_steps(pl.DataFrame(values, schema=names))


def fetch_skab(experiment: str = "valve1/0") -> pl.DataFrame:
    """One experiment of the Skoltech Anomaly Benchmark: a water circuit, 8 sensors at 1 Hz.

    Use it for collective anomalies and change points; the usual fit is on the first 400 rows.

    Parameters
    ----------
    experiment : str, default="valve1/0"
        "valve1/0" to "valve1/15", "valve2/0" to "valve2/3", "other/1" to "other/14" or
        "anomaly-free/anomaly-free".

    Returns
    -------
    polars.DataFrame
        Wide frame ``ds`` (Datetime us, a few breaks), 8 Float64 sensors, ``label`` and
        ``changepoint`` (Boolean, false all over the anomaly-free record).

    Raises
    ------
    DatasetError
        If the experiment is unknown or the source file cannot be had.

    Examples
    --------
    >>> fetch_skab("valve1/0")["label"].sum()
    401
    """
    paths = {
        file.path.removeprefix("skab/").removesuffix(".csv.gz"): file.path
        for file in CATALOG["skab"].files
    }
    check_choice("experiment", experiment, list(paths))
    frame = pl.read_csv(read_source(paths[experiment]), separator=";", infer_schema_length=None)
    if "anomaly" not in frame.columns:
        frame = frame.with_columns(anomaly=pl.lit(0.0), changepoint=pl.lit(0.0))
    ds = pl.col("datetime").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us")
    return frame.select(
        ds.alias("ds"),
        pl.exclude("datetime", "anomaly", "changepoint").cast(pl.Float64),
        (pl.col("anomaly") == 1).alias("label"),
        pl.col("changepoint") == 1,
    )


def fetch_gecco2018() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Drinking-water quality every minute with rare events (GECCO 2018 challenge).

    Use it for long multivariate series with missing values and 1.5 % event rows.

    Returns
    -------
    train, test : polars.DataFrame
        Wide frames of 139,566 rows: ``ds`` (Int64 step from 0 in each part), 9 Float64
        columns with nulls, ``label`` (Boolean).

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> train, test = fetch_gecco2018()
    """
    frame = pl.read_parquet(io.BytesIO(read_source("gecco2018/gecco2018.parquet")))
    frame = frame.select(
        pl.exclude("idx", "event").fill_nan(None), (pl.col("event") == 1).alias("label")
    )
    half = frame.height // 2
    return _with_steps(frame.head(half)), _with_steps(frame.slice(half))


def fetch_oil_3w(instance: str = "class1_WELL-00001_20140124213136") -> pl.DataFrame:
    """One real recording of an offshore oil well, 8 sensors at 1 Hz, with fault classes.

    Use it for early fault detection; classes above 100 mark the way into a fault.

    Parameters
    ----------
    instance : str, default="class1_WELL-00001_20140124213136"
        One of 13 recordings, named ``class<c>_WELL-<w>_<start>``; class 0 is normal.

    Returns
    -------
    polars.DataFrame
        Wide frame ``ds`` (Datetime us), 8 Float64 sensors (some all null), ``class``
        (Int16: 0 normal, 1-8 steady fault, 101-108 transient, null unlabelled).

    Raises
    ------
    DatasetError
        If the instance is unknown or the source file cannot be had.

    Examples
    --------
    >>> fetch_oil_3w()["class"].null_count()
    65
    """
    paths = _stems("oil_3w", ".parquet")
    check_choice("instance", instance, list(paths))
    frame = pl.read_parquet(io.BytesIO(read_source(paths[instance])))
    return frame.select(
        pl.col("timestamp").cast(pl.Datetime("us")).alias("ds"),
        pl.exclude("timestamp", "class").fill_nan(None),
        pl.col("class").fill_nan(None).cast(pl.Int16),
    )
