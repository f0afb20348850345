import hashlib
from datetime import datetime, timedelta

import polars as pl
import pytest

from tsmamba_datasets import load_icu_stays, load_nab, load_physionet_stays, load_pjm_load
from tsmamba_datasets._catalog import CATALOG, package_file
from tsmamba_datasets.errors import DatasetError

LONG = {"unique_id": pl.String, "ds": pl.Datetime("us"), "y": pl.Float64}
PARQUETS = {
    "icu_events.parquet": "physionet2012",
    "icu_labels.parquet": "physionet2012",
    "nab.parquet": "nab",
    "physionet_events.parquet": "physionet2012",
    "physionet_outcomes.parquet": "physionet2012",
    "pjm_pjme.parquet": "pjm_hourly",
}


def test_only_the_listed_files_are_shipped_and_they_are_small() -> None:
    shipped = [file for file in package_file("data").iterdir() if file.is_file()]
    assert {file.name for file in shipped} == {"files.csv", *PARQUETS}
    assert sum(file.stat().st_size for file in shipped) < 1_500_000


@pytest.mark.parametrize(("name", "dataset"), PARQUETS.items())
def test_shipped_bytes_are_those_of_the_page(name: str, dataset: str) -> None:
    found = hashlib.sha256(package_file(f"data/{name}").read_bytes()).hexdigest()
    assert f"| `{name}` | `{found}` |" in CATALOG[dataset].page


def test_pjm_is_complete_sorted_and_unique() -> None:
    frame = load_pjm_load()
    assert dict(frame.schema) == LONG
    assert frame.height == 145_362
    assert frame["unique_id"].unique().to_list() == ["PJME"]
    assert frame["ds"][0] == datetime(2002, 1, 1, 1)
    assert frame["ds"][-1] == datetime(2018, 8, 3)
    assert frame["y"].min() == 14_544.0
    assert frame["y"].max() == 62_009.0
    gaps = frame["ds"].diff().drop_nulls()
    assert gaps.min() == timedelta(hours=1)
    assert (gaps == timedelta(hours=2)).sum() == 30
    assert (gaps > timedelta(hours=2)).sum() == 0


def test_pjm_has_its_daily_season() -> None:
    by_hour = load_pjm_load().group_by(pl.col("ds").dt.hour().alias("hour")).agg(pl.mean("y"))
    by_hour = by_hour.sort("hour")["y"]
    assert by_hour.arg_min() in (3, 4, 5)
    assert by_hour.arg_max() in (17, 18, 19)


def test_pjm_of_another_region_is_refused() -> None:
    with pytest.raises(DatasetError, match="region='AEP' is unknown; accepted: 'PJME'"):
        load_pjm_load("AEP")


@pytest.mark.parametrize(
    ("name", "rows", "labelled", "windows"),
    [
        ("ambient_temperature_system_failure", 7_267, 726, 2),
        ("cpu_utilization_asg_misconfiguration", 18_050, 1_499, 1),
        ("machine_temperature_system_failure", 22_683, 2_268, 4),
        ("nyc_taxi", 10_320, 1_035, 5),
    ],
)
def test_nab_counts(name: str, rows: int, labelled: int, windows: int) -> None:
    frame = load_nab(name)
    assert dict(frame.schema) == {**LONG, "label": pl.Boolean}
    assert frame.height == rows
    assert frame["unique_id"].unique().to_list() == [name]
    assert frame["ds"].is_sorted()
    assert frame["ds"].n_unique() == rows
    assert frame["label"].sum() == labelled
    starts = frame["label"] & ~frame["label"].shift(1, fill_value=False)
    assert starts.sum() == windows
    assert frame.null_count().sum_horizontal().item() == 0


def test_nab_window_ends_are_included() -> None:
    labelled = load_nab("nyc_taxi").filter("label")["ds"]
    assert labelled[0] == datetime(2014, 10, 30, 15, 30)
    assert labelled[-1] == datetime(2015, 1, 29, 3, 30)


def test_nab_repeated_stamps_hold_the_mean() -> None:
    frame = load_nab("machine_temperature_system_failure")
    repeated = frame.filter(
        pl.col("ds").is_between(datetime(2014, 1, 7, 2), datetime(2014, 1, 7, 3))
    )
    assert repeated.height == 13


def test_nab_error_lists_the_names() -> None:
    with pytest.raises(DatasetError) as caught:
        load_nab("taxi")
    for name in ("name='taxi'", "ambient_temp", "cpu_util", "machine_temp", "nyc_taxi"):
        assert name in str(caught.value)


def test_physionet_stays_are_balanced_and_events_sorted() -> None:
    events, labels = load_physionet_stays()
    assert dict(events.schema) == {
        "subject_id": pl.Int64,
        "minute": pl.Int64,
        "code": pl.String,
        "numeric_value": pl.Float64,
    }
    assert labels.height == labels["subject_id"].n_unique() == 40
    assert labels["died"].dtype == pl.Boolean
    assert labels["died"].sum() == 20
    assert set(events["subject_id"]) == set(labels["subject_id"])
    assert events.height == 17_597
    assert events.equals(events.sort("subject_id", "minute", maintain_order=True))
    assert events["minute"].min() == 0
    assert events["minute"].max() <= 48 * 60
    assert events.null_count().sum_horizontal().item() == 0
    assert "RecordID" not in events["code"]
    assert (events["numeric_value"] == -1).sum() == 0
    measured = events.filter(pl.col("minute") > 0)["subject_id"].n_unique()
    assert measured == 40


def test_icu_stays_keep_the_share_of_deaths_and_events_are_sorted() -> None:
    events, labels = load_icu_stays()
    assert dict(events.schema) == {
        "subject_id": pl.Int64,
        "time": pl.Float64,
        "code": pl.String,
        "numeric_value": pl.Float64,
    }
    assert labels.columns == ["subject_id", "label", "saps_i", "sofa"]
    assert labels.height == labels["subject_id"].n_unique() == 400
    assert labels["label"].value_counts().sort("label").rows() == [(0, 345), (1, 55)]
    assert set(events["subject_id"]) == set(labels["subject_id"])
    assert events.height == 179_133
    assert events.equals(events.sort("subject_id", "time", maintain_order=True))
    assert events["time"].min() == 0.0
    assert events["time"].max() == 48.0
    assert events.null_count().sum_horizontal().item() == 0
    assert events["code"].n_unique() == 41
