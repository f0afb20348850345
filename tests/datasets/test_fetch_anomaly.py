from datetime import timedelta

import polars as pl
import pytest

import tsmamba_datasets as datasets
from tsmamba_datasets._catalog import CATALOG
from tsmamba_datasets.errors import DatasetError


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.fetch_smd("1-1"), "machine='1-1' is unknown; accepted: 'machine-1-6'"),
        (lambda: datasets.fetch_asd("omi-3"), "server='omi-3' is unknown"),
        (lambda: datasets.fetch_ucr_anomaly(2), "number=2 is unknown"),
        (lambda: datasets.fetch_skab("valve3/0"), "experiment='valve3/0' is unknown"),
        (lambda: datasets.fetch_oil_3w("WELL-1"), "instance='WELL-1' is unknown"),
    ],
)
def test_unknown_names_are_refused(call, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        call()


@pytest.mark.data
def test_nab_has_all_series_and_the_published_number_of_labels() -> None:
    frame = datasets.fetch_nab()
    assert frame["unique_id"].n_unique() == 58
    # 365,558 rows at the source, 49 of them second or third rows of one stamp.
    assert frame.height == 365_509
    assert frame["label"].sum() == 33_495
    assert frame.select("unique_id", "ds").is_unique().all()
    assert frame.equals(frame.sort("unique_id", "ds"))
    starts = pl.col("label") & ~pl.col("label").shift(1, fill_value=False).over("unique_id")
    assert frame.select(starts.sum()).item() == 116


@pytest.mark.data
@pytest.mark.parametrize("name", ["nyc_taxi", "machine_temperature_system_failure"])
def test_nab_equals_what_is_shipped(name: str) -> None:
    fetched = datasets.fetch_nab().filter(pl.col("unique_id") == name)
    assert fetched.equals(datasets.load_nab(name))


@pytest.mark.data
@pytest.mark.parametrize(
    ("machine", "labelled"),
    [
        ("machine-1-6", 3_708),
        ("machine-1-7", 2_398),
        ("machine-2-1", 1_170),
        ("machine-2-2", 2_833),
        ("machine-2-7", 417),
    ],
)
def test_smd(machine: str, labelled: int) -> None:
    train, test = datasets.fetch_smd(machine)
    assert train.width == 39
    assert test.columns == [*train.columns, "label"]
    assert 23_687 <= train.height <= 23_703
    assert test["label"].sum() == labelled
    assert train["ds"].to_list() == list(range(train.height))
    assert train["f00"].is_between(0, 1).all()


@pytest.mark.data
def test_asd() -> None:
    servers = [f"omi-{number}" for number in (1, 2, 4, 5, 7, 8, 10, 11)]
    for server in servers:
        train, test = datasets.fetch_asd(server)
        assert train.shape == (8_640, 20)
        assert test.shape == (4_320, 21)
        assert 55 <= test["label"].sum() <= 441


@pytest.mark.data
@pytest.mark.parametrize("number", [1, 85, 137, 249])
def test_ucr_has_one_anomaly_where_its_name_says(number: int) -> None:
    train, test = datasets.fetch_ucr_anomaly(number)
    path = next(f.path for f in CATALOG["ucr_anomaly"].files if f"/{number:03d}_UCR" in f.path)
    train_end, start, end = map(int, path.removesuffix(".parquet").split("_")[-3:])
    assert train.height == train_end
    assert not train["label"].any()
    assert test["ds"][0] == train_end
    labelled = test.filter("label")["ds"]
    assert (labelled[0], labelled[-1], labelled.len()) == (start - 1, end - 1, end - start + 1)


@pytest.mark.data
@pytest.mark.parametrize(
    ("channel", "train_shape", "test_shape", "labelled"),
    [
        ("P-1", (2_872, 26), (8_505, 27), 751),
        ("P-2", (2_821, 26), (8_209, 27), 1_276),
        ("M-1", (2_209, 56), (2_277, 57), 1_141),
    ],
)
def test_smap_msl(channel: str, train_shape, test_shape, labelled: int) -> None:
    train, test = datasets.fetch_smap_msl(channel)
    assert train.shape == train_shape
    assert test.shape == test_shape
    assert test["label"].sum() == labelled
    assert test.select(pl.col("^c\\d+$").is_in([0.0, 1.0]).all()).row(0) == (True,) * (
        train.width - 2
    )
    with pytest.raises(DatasetError, match="channel='T-10' is unknown"):
        datasets.fetch_smap_msl("T-10")


@pytest.mark.data
def test_skab_experiments_have_unique_stamps_and_labels() -> None:
    names = [f.path.removeprefix("skab/").removesuffix(".csv.gz") for f in CATALOG["skab"].files]
    frames = {name: datasets.fetch_skab(name) for name in names}
    assert len(frames) == 35
    for frame in frames.values():
        assert frame.width == 11
        assert frame["ds"].diff().min() >= timedelta(seconds=1)
    normal = frames.pop("anomaly-free/anomaly-free")
    assert normal.height == 9_405
    assert not normal["label"].any()
    whole = pl.concat(frames.values())
    assert whole.height == 37_401
    assert 0.3 < whole["label"].mean() < 0.4


@pytest.mark.data
def test_gecco_halves() -> None:
    train, test = datasets.fetch_gecco2018()
    assert train.shape == test.shape == (139_566, 11)
    assert (train["label"].sum(), test["label"].sum()) == (1_726, 2_329)
    assert not pl.concat([train, test]).select(pl.col(pl.Float64).is_nan().any()).row(0).count(True)
    assert train["tp"].null_count() > 0


@pytest.mark.data
def test_oil_classes_match_the_instance() -> None:
    for file in CATALOG["oil_3w"].files:
        name = file.path.removeprefix("oil_3w/").removesuffix(".parquet")
        frame = datasets.fetch_oil_3w(name)
        fault = int(name[5])
        assert set(frame["class"].drop_nulls()) <= {0, fault, 100 + fault}
        assert frame["ds"].diff().drop_nulls().unique().to_list() == [timedelta(seconds=1)]
        assert frame["T-JUS-CKGL"].null_count() == frame.height
