"""fetch_*: forecasting sets, as wide frames (``ds`` and columns) or long ones."""

from collections.abc import Sequence

import polars as pl

from tsmamba_datasets._checks import check_at_least, check_choice
from tsmamba_datasets._fetch import read_source

PJM_REGIONS = (
    "AEP",
    "COMED",
    "DAYTON",
    "DEOK",
    "DOM",
    "DUQ",
    "EKPC",
    "FE",
    "NI",
    "PJME",
    "PJMW",
    "PJM_Load",
)
_ETT = ("ETTh1", "ETTh2", "ETTm1")
_EXCHANGE = {
    "0": "australia",
    "1": "britain",
    "2": "canada",
    "3": "switzerland",
    "4": "china",
    "5": "japan",
    # The file swaps the last two columns of the older text form of this set.
    "6": "singapore",
    "OT": "new_zealand",
}
_ILLNESS = {
    "% WEIGHTED ILI": "weighted_ili",
    "%UNWEIGHTED ILI": "unweighted_ili",
    "AGE 0-4": "age_0_4",
    "AGE 5-24": "age_5_24",
    "ILITOTAL": "ili_total",
    "NUM. OF PROVIDERS": "num_providers",
}
_TRAIL = {
    "BGT North of NE 70th Total": "total",
    "Ped South": "ped_south",
    "Ped North": "ped_north",
    "Bike North": "bike_north",
    "Bike South": "bike_south",
}


def _read_wide(path: str, stamp: str, stamp_format: str) -> pl.DataFrame:
    """Read a CSV and turn its stamp column into a naive microsecond ``ds``."""
    frame = pl.read_csv(read_source(path), infer_schema_length=None, null_values=["NA", "NaN"])
    ds = pl.col(stamp).str.to_datetime(stamp_format, time_unit="us").alias("ds")
    return frame.select(ds, pl.exclude(stamp))


def fetch_pjm_load(regions: str | Sequence[str] | None = None) -> pl.DataFrame:
    """Hourly electric load of up to 12 regions of the PJM interconnection, 1998 to 2018.

    Use it for long inputs with real gaps: 32,896 to 145,362 hours a region.

    Parameters
    ----------
    regions : str or sequence of str, optional
        Name or names of the regions to keep; all 12 by default.

    Returns
    -------
    polars.DataFrame
        Long frame ``unique_id`` (String), ``ds`` (Datetime us), ``y`` (Float64, megawatt),
        sorted, without hours that have no record. The hour that the autumn clock change
        repeats holds the mean of both values; the hour skipped in spring is missing.

    Raises
    ------
    DatasetError
        If a region is unknown or the source file cannot be had.

    Examples
    --------
    >>> fetch_pjm_load(["AEP"]).columns
    ['unique_id', 'ds', 'y']
    """
    if regions is None:
        regions = PJM_REGIONS
    chosen = (regions,) if isinstance(regions, str) else tuple(regions)
    check_at_least("len(regions)", len(chosen), 1)
    for region in chosen:
        check_choice("regions", region, PJM_REGIONS)
    frame = _read_wide("pjm_hourly/est_hourly.csv.gz", "Datetime", "%Y-%m-%d %H:%M:%S")
    long = frame.unpivot(chosen, index="ds", variable_name="unique_id", value_name="y")
    return (
        long.drop_nulls("y")
        .group_by("unique_id", "ds")
        .agg(pl.col("y").cast(pl.Float64).mean())
        .sort("unique_id", "ds")
    )


def fetch_ett(name: str = "ETTh1") -> pl.DataFrame:
    """Six loads and the oil temperature of an electricity transformer, 2016 to 2018.

    The usual benchmark of long-horizon forecasting; ``OT`` is the univariate target.

    Parameters
    ----------
    name : {"ETTh1", "ETTh2", "ETTm1"}, default="ETTh1"
        Transformer 1 or 2, hourly (``h``) or every 15 minutes (``m``).

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds`` and seven Float64 columns; 17,420 or 69,680 rows, no gaps.

    Raises
    ------
    DatasetError
        If the name is unknown or the source file cannot be had.

    Examples
    --------
    >>> fetch_ett("ETTh1").height
    17420
    """
    check_choice("name", name, _ETT)
    return _read_wide(f"ett/{name}.csv.gz", "date", "%Y-%m-%d %H:%M:%S")


def fetch_m4_hourly() -> tuple[pl.DataFrame, pl.DataFrame]:
    """All 414 hourly series of the M4 competition, with their 48 test steps.

    Use it to compare with the published scores of the competition (seasonality 24).

    Returns
    -------
    train, test : polars.DataFrame
        Long frames ``unique_id``, ``ds`` (Int64 step from 0, there are no stamps), ``y``;
        the steps of ``test`` go on where those of ``train`` end.

    Raises
    ------
    DatasetError
        If a source file cannot be had.

    Examples
    --------
    >>> train, test = fetch_m4_hourly()
    """
    train = _read_m4("m4_hourly/Hourly-train.csv.gz")
    test = _read_m4("m4_hourly/Hourly-test.csv.gz")
    lengths = train.group_by("unique_id").agg(pl.len().cast(pl.Int64).alias("offset"))
    test = test.join(lengths, on="unique_id").select(
        "unique_id", pl.col("ds") + pl.col("offset"), "y"
    )
    # Ids end in a number: sorting on it keeps the order of the files.
    number = pl.col("unique_id").str.slice(1).cast(pl.Int64)
    return train.sort(number, "ds"), test.sort(number, "ds")


def _read_m4(path: str) -> pl.DataFrame:
    """Turn one row a series, padded at the right, into a long frame."""
    wide = pl.read_csv(read_source(path), infer_schema_length=None)
    long = wide.rename({"V1": "unique_id"}).unpivot(
        index="unique_id", variable_name="column", value_name="y"
    )
    step = pl.col("column").str.slice(1).cast(pl.Int64) - 2
    return long.drop_nulls("y").select("unique_id", step.alias("ds"), pl.col("y").cast(pl.Float64))


def fetch_exchange_rate() -> pl.DataFrame:
    """Daily exchange rates of 8 currencies against the US dollar, from 1990.

    A hard set: the last value is a strong baseline.

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds`` and eight Float64 columns; 7,588 rows. The source numbers the
        business days with an unbroken daily index, so the dates are not calendar dates.

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> fetch_exchange_rate().columns[0]
    'ds'
    """
    frame = _read_wide("exchange_rate/exchange_rate.csv.gz", "date", "%Y/%m/%d %H:%M")
    return frame.rename(_EXCHANGE)


def fetch_national_illness() -> pl.DataFrame:
    """Weekly counts of influenza-like illness in the USA, 2002 to 2020.

    A short set with a yearly season; ``OT`` is the number of patients.

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds`` and seven Float64 columns; 966 rows, every 7 days.

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> fetch_national_illness().columns[0]
    'ds'
    """
    frame = _read_wide("national_illness/national_illness.csv", "date", "%Y-%m-%d %H:%M:%S")
    return frame.rename(_ILLNESS).with_columns(pl.exclude("ds").cast(pl.Float64))


def fetch_beijing_pm25() -> pl.DataFrame:
    """Hourly fine dust (PM2.5) and weather in Beijing, 2010 to 2014.

    Use it for forecasting or filling in: 2,067 hours of ``pm2.5`` are null.

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds``, ``pm2.5``, six numeric columns and ``cbwd`` (text); 43,824 rows.

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> fetch_beijing_pm25().columns[0]
    'ds'
    """
    content = read_source("beijing_pm25/pollution.csv.gz")
    frame = pl.read_csv(content, infer_schema_length=None, null_values="NA")
    ds = pl.datetime("year", "month", "day", "hour", time_unit="us").alias("ds")
    return frame.select(ds, pl.exclude("No", "year", "month", "day", "hour")).with_columns(
        pl.exclude("ds", "cbwd").cast(pl.Float64)
    )


def fetch_vic_electricity() -> pl.DataFrame:
    """Half-hourly electricity demand and temperature in Victoria, 2012 to 2014.

    Use it for a double season with a calendar and a weather covariate.

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds`` (UTC, naive), ``Demand``, ``Temperature`` (Float64), ``Date``
        (local date), ``Holiday`` (Boolean); 52,608 rows, no gaps.

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> fetch_vic_electricity().columns[0]
    'ds'
    """
    frame = _read_wide("sensors_hourly/vic_electricity.csv.gz", "Time", "%Y-%m-%dT%H:%M:%SZ")
    return frame.with_columns(
        pl.col("Date").str.to_date("%Y-%m-%d"),
        pl.col("Holiday").cast(pl.String).str.to_lowercase() == "true",
    )


def fetch_air_quality_valencia() -> pl.DataFrame:
    """Hourly air quality and wind in Valencia, 2019 to 2023.

    Use it for many correlated columns with missing values.

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds`` and ten Float64 columns; 43,824 rows, nulls in each column.

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> fetch_air_quality_valencia().columns[0]
    'ds'
    """
    frame = _read_wide(
        "sensors_hourly/air_quality_valencia.csv.gz", "datetime", "%Y-%m-%d %H:%M:%S"
    )
    return frame.with_columns(pl.exclude("ds").cast(pl.Float64))


def fetch_bike_sharing() -> pl.DataFrame:
    """Hourly bike hires in Washington with weather and calendar, 2011 and 2012.

    Use it for a count series with covariates; ``users`` is the target.

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds``, ten numeric columns and ``weather`` (text); 17,544 rows, no gaps.

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> fetch_bike_sharing().columns[0]
    'ds'
    """
    return _read_wide(
        "sensors_hourly/bike_sharing_dataset_clean.csv.gz", "date_time", "%Y-%m-%d %H:%M:%S"
    )


def fetch_trail_counter() -> pl.DataFrame:
    """Hourly foot and cycle traffic on a trail in Seattle, 2014 to 2019.

    Use it for sensor faults: counter overflows (4095, 8191) stand in it without labels.

    Returns
    -------
    polars.DataFrame
        Wide frame: ``ds`` and five Float64 columns; 52,584 rows, 2,335 nulls a column.

    Raises
    ------
    DatasetError
        If the source file cannot be had.

    Examples
    --------
    >>> fetch_trail_counter().columns[0]
    'ds'
    """
    path = "sensors_hourly/burke_gilman_trail.csv.gz"
    frame = _read_wide(path, "Date", "%Y-%m-%dT%H:%M:%S%.3f")
    return frame.rename(_TRAIL).with_columns(pl.exclude("ds").cast(pl.Float64))
