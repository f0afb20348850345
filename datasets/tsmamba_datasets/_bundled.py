"""load_*: the data sets that are shipped with the package; no network, no setting."""

import io

import polars as pl

from tsmamba_datasets._catalog import package_file
from tsmamba_datasets._checks import check_choice

NAB_NAMES = (
    "ambient_temperature_system_failure",
    "cpu_utilization_asg_misconfiguration",
    "machine_temperature_system_failure",
    "nyc_taxi",
)


def _read(name: str) -> pl.DataFrame:
    """Read one shipped parquet file."""
    return pl.read_parquet(io.BytesIO(package_file(f"data/{name}.parquet").read_bytes()))


def load_pjm_load(region: str = "PJME") -> pl.DataFrame:
    """Hourly electric load of one PJM region, 2002 to 2018.

    Use it for long inputs on real data: a daily, a weekly and a yearly season, 30
    hours missing. For the other 11 regions see :func:`fetch_pjm_load`.

    Parameters
    ----------
    region : {"PJME"}, default="PJME"
        The one region that is shipped.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id`` (String), ``ds`` (Datetime us), ``y`` (Float64, megawatt);
        145,362 rows, sorted, stamps unique.

    Raises
    ------
    DatasetError
        If the region is not shipped.

    Examples
    --------
    >>> load_pjm_load().height
    145362
    """
    check_choice("region", region, ["PJME"])
    return _read("pjm_pjme").select(
        pl.lit(region).alias("unique_id"), pl.col("ds"), pl.col("y").cast(pl.Float64)
    )


def load_nab(name: str = "nyc_taxi") -> pl.DataFrame:
    """One labelled series of the Numenta Anomaly Benchmark.

    Use it for a first anomaly detection on real data; for all 58 see :func:`fetch_nab`.

    Parameters
    ----------
    name : str, default="nyc_taxi"
        ``ambient_temperature_system_failure``, ``cpu_utilization_asg_misconfiguration``,
        ``machine_temperature_system_failure`` or ``nyc_taxi``.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id``, ``ds`` (Datetime us), ``y`` (Float64), ``label`` (Boolean,
        true inside an anomaly window), sorted, stamps unique.

    Raises
    ------
    DatasetError
        If the series is not shipped.

    Examples
    --------
    >>> load_nab("nyc_taxi")["label"].sum()
    1035
    """
    check_choice("name", name, NAB_NAMES)
    return _read("nab").filter(pl.col("unique_id") == name)


def load_physionet_stays() -> tuple[pl.DataFrame, pl.DataFrame]:
    """40 ICU stays of the PhysioNet 2012 challenge: 20 ended in death, 20 did not.

    Use it to try models on irregular events; it is far too small for a score. For all
    stays see :func:`fetch_physionet2012`.

    Returns
    -------
    events : polars.DataFrame
        ``subject_id`` (Int64), ``minute`` (Int64 since admission), ``code`` (String),
        ``numeric_value`` (Float64), sorted by stay and minute.
    labels : polars.DataFrame
        One row a stay: ``subject_id``, ``saps_i``, ``sofa``, ``length_of_stay``,
        ``survival`` (days; Int64, null for unknown), ``died`` (Boolean, in hospital).

    Examples
    --------
    >>> events, labels = load_physionet_stays()
    >>> labels["died"].sum()
    20
    """
    return _read("physionet_events"), _read("physionet_outcomes")


def load_icu_stays() -> tuple[pl.DataFrame, pl.DataFrame]:
    """400 ICU stays of the PhysioNet 2012 challenge, of which 55 ended in death.

    Use it to fit and judge a classifier of irregular events; a score on a part of it is
    uncertain by several hundredths. It is a tenth of set a with its share of deaths, drawn by a
    seeded rule that leaves nothing out, not even stays without measurements. For all stays see
    :func:`fetch_physionet2012`.

    Returns
    -------
    events : polars.DataFrame
        ``subject_id`` (Int64), ``time`` (Float64, hours since admission, 0 to 48), ``code``
        (String), ``numeric_value`` (Float64), sorted by stay and time. Age, Gender, Height,
        ICUType and Weight stand at time 0; unknown ones are left out.
    labels : polars.DataFrame
        One row a stay: ``subject_id``, ``label`` (Int64, 1 if the patient died in hospital),
        ``saps_i`` and ``sofa`` (Int64, scores of severity; null for unknown).

    Examples
    --------
    >>> events, labels = load_icu_stays()
    >>> labels["label"].sum(), labels.height
    (55, 400)
    """
    events = _read("icu_events").select(
        "subject_id", (pl.col("minute") / 60.0).alias("time"), "code", "numeric_value"
    )
    labels = _read("icu_labels").select(
        "subject_id", pl.col("died").cast(pl.Int64).alias("label"), "saps_i", "sofa"
    )
    return events, labels
