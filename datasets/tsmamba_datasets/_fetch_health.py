"""fetch_*: intensive care and heart signals."""

import io
import re

import numpy as np
import polars as pl

from tsmamba_datasets._catalog import CATALOG
from tsmamba_datasets._checks import check_choice
from tsmamba_datasets._fetch import read_source

_OUTCOMES = {
    "RecordID": "subject_id",
    "SAPS-I": "saps_i",
    "SOFA": "sofa",
    "Length_of_stay": "length_of_stay",
    "Survival": "survival",
    "In-hospital_death": "died",
}
# Codes of the WFDB annotation format: the beats of record 100, and fields without a beat.
_BEATS = {1: "N", 5: "V", 8: "A", 28: "+"}
_SKIP, _AUX = 59, 63
_FIRST_FIELD = 59
_GAIN, _BASELINE = 200.0, 1024


def fetch_physionet2012(part: str = "a") -> tuple[pl.DataFrame, pl.DataFrame]:
    """4,000 ICU stays, 48 hours of irregular vital signs and laboratory values each.

    Use it for irregular sampling: mortality, filling in, forecasting of single values.

    Parameters
    ----------
    part : {"a", "b"}, default="a"
        Set of the PhysioNet/CinC Challenge 2012.

    Returns
    -------
    events : polars.DataFrame
        ``subject_id`` (Int64), ``minute`` (Int64 since admission, 0 to 2880), ``code``
        (String), ``numeric_value`` (Float64), sorted by stay and minute. Age, Gender,
        Height, ICUType and Weight stand at minute 0; unknown ones are left out.
    outcomes : polars.DataFrame
        One row a stay: ``subject_id``, ``saps_i``, ``sofa``, ``length_of_stay``,
        ``survival`` (days; Int64, null for -1), ``died`` (Boolean, in hospital).

    Raises
    ------
    DatasetError
        If the part is unknown or a source file cannot be had.

    Examples
    --------
    >>> events, outcomes = fetch_physionet2012("a")
    """
    check_choice("part", part, ["a", "b"])
    raw = pl.read_parquet(io.BytesIO(read_source(f"physionet2012/set-{part}.parquet")))
    events = raw.select(
        pl.col("RecordID").cast(pl.Int64).alias("subject_id"),
        pl.col("minute").cast(pl.Int64),
        pl.col("parameter").cast(pl.String).alias("code"),
        pl.col("value").alias("numeric_value"),
    )
    # -1 stands for unknown, and only among the descriptors.
    known = (pl.col("code") != "RecordID") & (pl.col("numeric_value") != -1)
    table = pl.read_csv(read_source(f"physionet2012/Outcomes-{part}.txt")).rename(_OUTCOMES)
    outcomes = table.with_columns(
        pl.exclude("subject_id", "died").replace(-1, None), pl.col("died") == 1
    )
    return events.filter(known).sort("subject_id", "minute", maintain_order=True), outcomes


def fetch_icu_demo(
    task: str = "mortality24", cohort: str = "mimic_demo"
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Hourly ICU series of an open demo cohort with the labels of one task (YAIB).

    Use it for early warning on a regular grid with many missing cells; it is small.

    Parameters
    ----------
    task : {"aki", "kidney_function", "los", "mortality24", "sepsis"}, default="mortality24"
        What the labels say: acute kidney injury, creatinine, hours left, death, sepsis.
    cohort : {"eicu_demo", "mimic_demo"}, default="mimic_demo"
        Open demo of eICU-CRD or of MIMIC-III.

    Returns
    -------
    hourly : polars.DataFrame
        ``subject_id`` (Int64), ``hour`` (Int64 since admission), 48 Float64 signals.
    labels : polars.DataFrame
        ``subject_id``, ``hour`` (only where the task has a label each hour), ``label``.
    static : polars.DataFrame
        ``subject_id``, ``age``, ``sex``, ``height``, ``weight``.

    Raises
    ------
    DatasetError
        If task or cohort is unknown or a source file cannot be had.

    Examples
    --------
    >>> hourly, labels, static = fetch_icu_demo("sepsis")
    """
    pairs = [file.path.split("/")[1:3] for file in CATALOG["icu_demo_yaib"].files]
    check_choice("task", task, sorted({pair[0] for pair in pairs}))
    check_choice("cohort", cohort, sorted({pair[1] for pair in pairs}))
    base = f"icu_demo_yaib/{task}/{cohort}"
    hourly, labels, static = (_read_icu(f"{base}/{n}.parquet") for n in ("dyn", "outc", "sta"))
    return hourly, labels, static


def _read_icu(path: str) -> pl.DataFrame:
    """Read one table, with the time since admission as whole hours."""
    frame = pl.read_parquet(io.BytesIO(read_source(path)))
    frame = frame.rename({"stay_id": "subject_id"}).with_columns(
        pl.col("subject_id").cast(pl.Int64)
    )
    if "time" not in frame.columns:
        return frame
    return frame.with_columns(pl.col("time").dt.total_hours()).rename({"time": "hour"})


def fetch_ecg() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Half an hour of a two-lead electrocardiogram with its beats (MIT-BIH record 100).

    Use it for one very long sequence: 650,000 samples at 360 Hz.

    Returns
    -------
    signal : polars.DataFrame
        Wide frame ``ds`` (Int64 sample), ``MLII``, ``V5`` (Float64, millivolt).
    beats : polars.DataFrame
        ``ds`` (Int64 sample), ``symbol`` (``N`` normal, ``A`` atrial premature, ``V``
        ventricular premature, ``+`` rhythm mark), 2,274 rows.

    Raises
    ------
    DatasetError
        If a source file cannot be had.

    Examples
    --------
    >>> signal, beats = fetch_ecg()
    """
    header = read_source("ecg/mitdb_100/100.hea").decode()
    leads = re.findall(r"^100\.dat 212 .* (\w+)\r?$", header, flags=re.MULTILINE)
    packed = np.frombuffer(read_source("ecg/mitdb_100/100.dat"), dtype=np.uint8)
    samples = _unpack_212(packed).reshape(-1, len(leads))
    signal = pl.DataFrame((samples - _BASELINE) / _GAIN, schema=leads)
    beats = _read_annotations(read_source("ecg/mitdb_100/100.atr"))
    return signal.select(pl.int_range(pl.len(), dtype=pl.Int64).alias("ds"), pl.all()), beats


def _unpack_212(packed: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> np.ndarray:
    """Split each 3 bytes into two signed 12-bit samples."""
    low, middle, high = packed.reshape(-1, 3).astype(np.int16).T
    pairs = np.stack([low | (middle & 0x0F) << 8, high | (middle & 0xF0) << 4], axis=1)
    # Moving the sign bit to the top and back extends it.
    return ((pairs << 4) >> 4).ravel()


def _read_annotations(content: bytes) -> pl.DataFrame:
    """Walk the 16-bit words of an annotation file: 6 bits of code, 10 of time."""
    words = np.frombuffer(content, dtype="<u2")
    sample, position = 0, 0
    rows: list[tuple[int, str]] = []
    while words[position] != 0:
        code, interval = divmod(int(words[position]), 1024)
        position += 1
        if code == _SKIP:
            # A long interval: two words, the high one first.
            sample += (int(words[position]) << 16) + int(words[position + 1])
            position += 2
        elif code == _AUX:
            position += (interval + 1) // 2
        elif code < _FIRST_FIELD:
            sample += interval
            rows.append((sample, _BEATS[code]))
    return pl.DataFrame(rows, schema={"ds": pl.Int64, "symbol": pl.String}, orient="row")
