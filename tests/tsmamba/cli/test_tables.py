import datetime as dt
import gzip
from pathlib import Path

import polars as pl
import pytest

from tsmamba.cli.tables import check_writable, read_table
from tsmamba.errors import FrameError, ParameterError

DAYS = [dt.date(2024, 1, day) for day in (1, 2, 3)]
FRAME = pl.DataFrame({"ds": DAYS, "y": [1.5, 2.5, 3.5]})


@pytest.fixture
def written(tmp_path: Path):
    """Write the same three rows under a name, in the format that the name says."""

    def write(name: str) -> Path:
        path = tmp_path / name
        separator = "\t" if ".tsv" in name else ","
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(FRAME.write_csv(separator=separator).encode()))
        elif ".csv" in name.lower() or ".tsv" in name:
            FRAME.write_csv(path, separator=separator)
        elif name.endswith((".parquet", ".pq")):
            FRAME.write_parquet(path)
        elif name.endswith(("jsonl", "ndjson")):
            FRAME.write_ndjson(path)
        else:
            FRAME.write_ipc(path)
        return path

    return write


@pytest.mark.parametrize(
    "name",
    [
        *("a.csv", "A.CSV", "a.csv.gz", "a.tsv", "a.tsv.gz", "a.v2.parquet", "a.pq"),
        *("a.arrow", "a.ipc", "a.feather", "a.jsonl", "a.ndjson"),
    ],
)
def test_every_kind_of_file_reads_the_same(written, name: str) -> None:
    assert read_table(written(name)).equals(FRAME)


def test_marks_of_missing_values_do_not_make_a_column_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ds,y\n2024-01-01, NA\n2024-01-02,5\n2024-01-03,\n")
    assert read_table(path)["y"].to_list() == [None, 5.0, None]


def test_numbers_may_turn_to_fractions_late_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("y\n" + "1\n" * 2000 + "0.5\n")
    assert read_table(path)["y"][-1] == 0.5


def test_the_csv_of_spreadsheets_with_a_decimal_comma(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ds;y\n31.01.2024;1,5\n01.02.2024;2,5\n")
    frame = read_table(path)
    assert frame["y"].to_list() == [1.5, 2.5]
    assert frame["ds"].to_list() == [dt.date(2024, 1, 31), dt.date(2024, 2, 1)]


def test_ids_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"site": ["007", "008"], "y": ["1", "2"]}).write_parquet(path)
    frame = read_table(path, keep_text="site")
    assert frame.dtypes == [pl.String, pl.Float64]


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz", "a.parquet.gz"])
def test_an_unknown_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParameterError, match=r"cannot tell what .* holds; files may end with"):
        read_table(tmp_path / name)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.jsonl", "a.csv"])
def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"a\n1,2,3\n" if name == "a.csv" else b"\x00\x01 no table at all")
    with pytest.raises(FrameError, match="cannot be read as its name says"):
        read_table(path)


def test_only_what_can_be_written_passes(tmp_path: Path) -> None:
    check_writable(Path("-"))
    check_writable(tmp_path / "a.parquet")
    with pytest.raises(ParameterError, match="must end with one of"):
        check_writable(tmp_path / "a.csv.gz")
