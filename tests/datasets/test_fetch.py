import gzip
import hashlib
import sys
from pathlib import Path

import pytest

from tsmamba_datasets import _fetch, fetch_gecco2018, fetch_national_illness
from tsmamba_datasets._catalog import DataFile
from tsmamba_datasets._fetch import read_source
from tsmamba_datasets.errors import ChecksumError, DatasetError, DownloadError

CONTENT = b"date,OT\n2020-01-01,1\n"
URL = "https://example.org/0123/toy.csv"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def toy_file(stored: bytes, url: str = URL) -> DataFile:
    return DataFile("toy", "toy/toy.csv.gz", sha256(stored), sha256(CONTENT), url)


@pytest.fixture
def packed() -> bytes:
    return gzip.compress(CONTENT, mtime=0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toy").mkdir()
    monkeypatch.setenv("TSMAMBA_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TSMAMBA_DATA", raising=False)


def set_file(monkeypatch: pytest.MonkeyPatch, file: DataFile) -> None:
    monkeypatch.setattr(_fetch, "find_file", lambda path: file)


def set_download(monkeypatch: pytest.MonkeyPatch, outcome: Path | Exception) -> list[dict]:
    """Put a stand-in for pooch.retrieve in place and return the list of its calls."""
    pooch = pytest.importorskip("pooch")
    calls: list[dict] = []

    def retrieve(url: str, **options: object) -> str:
        calls.append({"url": url, **options})
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return calls


def test_folder_file_is_read_and_decompressed(folder, packed, monkeypatch) -> None:
    set_file(monkeypatch, toy_file(packed))
    (folder / "toy/toy.csv.gz").write_bytes(packed)
    assert read_source("toy/toy.csv.gz") == CONTENT


def test_changed_folder_file_is_refused(folder, packed, monkeypatch) -> None:
    set_file(monkeypatch, toy_file(packed))
    (folder / "toy/toy.csv.gz").write_bytes(packed + b"x")
    with pytest.raises(ChecksumError, match=f"expected {sha256(packed)}.*delete it"):
        read_source("toy/toy.csv.gz")


def test_missing_folder_file_names_folder_file_and_repair(folder) -> None:
    with pytest.raises(DatasetError) as caught:
        fetch_national_illness()
    message = str(caught.value)
    assert f"TSMAMBA_DATA={str(folder)!r}" in message
    assert "'national_illness/national_illness.csv'" in message
    assert "8594cecb98c6f2f9dc014eca11c4d5d1e38ad5ce6ed0592d4abe65b146fce395" in message
    assert "unset TSMAMBA_DATA" in message


def test_missing_folder_file_without_address_offers_no_download(folder) -> None:
    with pytest.raises(DatasetError, match="use another data set"):
        fetch_gecco2018()


@pytest.mark.usefixtures("no_folder")
def test_set_without_address_says_how_to_set_the_folder() -> None:
    with pytest.raises(DatasetError) as caught:
        fetch_gecco2018()
    message = str(caught.value)
    assert "'gecco2018/gecco2018.parquet' has no download" in message
    assert "TSMAMBA_DATA" in message
    assert "descr/gecco2018.md" in message


@pytest.mark.usefixtures("no_folder")
def test_download_asks_for_the_recorded_sum(tmp_path, packed, monkeypatch) -> None:
    place = tmp_path / "got.csv"
    place.write_bytes(CONTENT)
    set_file(monkeypatch, toy_file(packed))
    calls = set_download(monkeypatch, place)
    assert read_source("toy/toy.csv.gz") == CONTENT
    assert calls[0]["url"] == URL
    assert calls[0]["known_hash"] == sha256(CONTENT)
    assert calls[0]["fname"].endswith("-toy.csv.gz")


@pytest.mark.usefixtures("no_folder")
def test_download_compressed_another_way_is_checked_by_content(
    tmp_path, packed, monkeypatch
) -> None:
    place = tmp_path / "got.csv.gz"
    other = gzip.compress(CONTENT, compresslevel=1, mtime=7)
    assert other != packed
    place.write_bytes(other)
    set_file(monkeypatch, toy_file(packed, URL + ".gz"))
    calls = set_download(monkeypatch, place)
    assert read_source("toy/toy.csv.gz") == CONTENT
    assert calls[0]["known_hash"] is None

    place.write_bytes(gzip.compress(CONTENT + b"x"))
    with pytest.raises(ChecksumError, match="delete it and get it again"):
        read_source("toy/toy.csv.gz")
    place.write_bytes(other[:-9])
    with pytest.raises(ChecksumError, match="cut short"):
        read_source("toy/toy.csv.gz")


@pytest.mark.usefixtures("no_folder")
def test_no_network_names_address_reason_and_repair(monkeypatch) -> None:
    set_download(monkeypatch, ConnectionError("Name or service not known"))
    with pytest.raises(DownloadError) as caught:
        fetch_national_illness()
    message = str(caught.value)
    assert "/f394705adbf5/dataset/illness/national_illness.csv" in message
    assert "ConnectionError: Name or service not known" in message
    assert "set TSMAMBA_DATA to a folder" in message


@pytest.mark.usefixtures("no_folder")
def test_other_bytes_at_the_address_are_refused(monkeypatch) -> None:
    set_download(monkeypatch, ValueError("SHA256 hash does not match"))
    with pytest.raises(ChecksumError, match="did not send the recorded bytes"):
        fetch_national_illness()


@pytest.mark.usefixtures("no_folder")
def test_missing_pooch_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DownloadError, match=r"pip install 'tsmamba\[datasets\]'"):
        fetch_national_illness()


@pytest.mark.usefixtures("no_folder")
@pytest.mark.network
def test_real_download() -> None:
    assert fetch_national_illness().height == 966
