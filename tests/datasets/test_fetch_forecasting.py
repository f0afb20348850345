from collections.abc import Callable
from datetime import datetime, timedelta

import polars as pl
import pytest

import tsmamba_datasets as datasets
from tsmamba_datasets._catalog import CATALOG
from tsmamba_datasets._fetch_forecasting import PJM_REGIONS
from tsmamba_datasets.errors import DatasetError

HOUR = timedelta(hours=1)


def test_unknown_names_are_refused_before_any_file_is_read(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TSMAMBA_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match="name='ETTm2' is unknown; accepted: 'ETTh1'"):
        datasets.fetch_ett("ETTm2")
    with pytest.raises(DatasetError, match="regions='pjme' is unknown"):
        datasets.fetch_pjm_load(["AEP", "pjme"])
    with pytest.raises(DatasetError, match=r"len\(regions\)=0 is out of range"):
        datasets.fetch_pjm_load([])


@pytest.mark.data
@pytest.mark.parametrize(
    ("fetch", "name", "rows", "step", "nulls"),
    [
        (lambda: datasets.fetch_ett("ETTh1"), "ett", 17_420, HOUR, 0),
        (lambda: datasets.fetch_ett("ETTh2"), "ett", 17_420, HOUR, 0),
        (lambda: datasets.fetch_ett("ETTm1"), "ett", 69_680, HOUR / 4, 0),
        (datasets.fetch_exchange_rate, "exchange_rate", 7_588, 24 * HOUR, 0),
        (datasets.fetch_national_illness, "national_illness", 966, 168 * HOUR, 0),
        (datasets.fetch_beijing_pm25, "beijing_pm25", 43_824, HOUR, 2_067),
        (datasets.fetch_vic_electricity, "vic_electricity", 52_608, HOUR / 2, 0),
        (datasets.fetch_air_quality_valencia, "air_quality_valencia", 43_824, HOUR, 13_262),
        (datasets.fetch_bike_sharing, "bike_sharing", 17_544, HOUR, 0),
        (datasets.fetch_trail_counter, "trail_counter", 52_584, HOUR, 5 * 2_335),
    ],
)
def test_wide_frames(
    fetch: Callable[[], pl.DataFrame], name: str, rows: int, step: timedelta, nulls: int
) -> None:
    frame = fetch()
    assert ", ".join(frame.columns) == CATALOG[name].columns
    assert frame.height == rows
    assert frame["ds"].dtype == pl.Datetime("us")
    assert frame["ds"].diff().drop_nulls().unique().to_list() == [step]
    assert frame.null_count().sum_horizontal().item() == nulls


@pytest.mark.data
def test_pjm_regions_are_sorted_unique_and_equal_to_the_shipped_one() -> None:
    frame = datasets.fetch_pjm_load()
    assert dict(frame.schema) == {"unique_id": pl.String, "ds": pl.Datetime("us"), "y": pl.Float64}
    assert set(frame["unique_id"]) == set(PJM_REGIONS)
    assert frame.height == 1_090_127
    assert frame.select("unique_id", "ds").is_unique().all()
    assert frame.equals(frame.sort("unique_id", "ds"))
    one = datasets.fetch_pjm_load("PJME")
    assert one.equals(frame.filter(pl.col("unique_id") == "PJME"))
    assert one.equals(datasets.load_pjm_load())


@pytest.mark.data
def test_pjm_repeated_hour_holds_the_mean(data_dir) -> None:
    raw = pl.read_csv(
        data_dir / "pjm_hourly/est_hourly.csv.gz",
        columns=["Datetime", "PJME"],
        schema_overrides={"PJME": pl.Float64},
    ).drop_nulls()
    twice = raw.filter(pl.col("Datetime").is_duplicated()).sort("Datetime")
    assert twice.height == 8
    first = twice.head(2)
    when = datetime.fromisoformat(first["Datetime"][0])
    got = datasets.load_pjm_load().filter(pl.col("ds") == when)["y"].item()
    assert got == first["PJME"].mean()


@pytest.mark.data
def test_exchange_columns_are_named_by_country() -> None:
    first = datasets.fetch_exchange_rate().row(0, named=True)
    assert first["britain"] == 1.611
    assert first["singapore"] == 0.525486
    assert first["new_zealand"] == 0.593


@pytest.mark.data
def test_vic_holidays_and_local_dates() -> None:
    frame = datasets.fetch_vic_electricity()
    assert frame["Holiday"].sum() == 1_488
    assert frame["Date"].n_unique() == 1_096


@pytest.mark.data
def test_m4_train_and_test_join_up() -> None:
    train, test = datasets.fetch_m4_hourly()
    assert train.height == 169 * 700 + 245 * 960
    assert test.height == 414 * 48
    assert train["unique_id"].unique(maintain_order=True).to_list() == [
        f"H{number}" for number in range(1, 415)
    ]
    whole = pl.concat([train, test]).sort("unique_id", "ds")
    assert (
        whole.select(pl.col("ds").diff().over("unique_id")).drop_nulls()["ds"].unique().item() == 1
    )
    assert train.row(0) == ("H1", 0, 605.0)
    assert test.filter(pl.col("unique_id") == "H1")["ds"].min() == 700


@pytest.mark.data
def test_m4_seasonal_naive_reaches_the_published_score() -> None:
    train, test = datasets.fetch_m4_hourly()
    last_day = train.group_by("unique_id", maintain_order=True).tail(24)
    day = last_day.with_columns(hour=pl.int_range(24).over("unique_id")).rename({"y": "naive"})
    # The test part starts at the hour that follows the training part.
    pairs = test.with_columns(hour=pl.int_range(48).over("unique_id") % 24).join(
        day.select("unique_id", "hour", "naive"), on=["unique_id", "hour"]
    )
    error = (
        200 * (pl.col("y") - pl.col("naive")).abs() / (pl.col("y").abs() + pl.col("naive").abs())
    )
    assert pairs.height == test.height
    assert pairs.select(error.mean()).item() == pytest.approx(13.912, abs=5e-4)
