import polars as pl
import pytest

import tsmamba_datasets as datasets
from tsmamba_datasets.errors import DatasetError


def test_unknown_names_are_refused() -> None:
    with pytest.raises(DatasetError, match="system='hdfs' is unknown; accepted: 'Android'"):
        datasets.fetch_loghub_2k("hdfs")
    with pytest.raises(DatasetError, match="part='test_normal' is unknown; accepted: 'train'"):
        datasets.fetch_hdfs_sessions("test_normal")


@pytest.mark.data
def test_loghub_has_2000_lines_and_rows_everywhere() -> None:
    systems = "Android Apache BGL HDFS HPC Hadoop HealthApp Linux Mac OpenSSH OpenStack Proxifier"
    for system in [*systems.split(), "Spark", "Thunderbird", "Windows", "Zookeeper"]:
        lines, structured = datasets.fetch_loghub_2k(system)
        assert lines["line_id"].to_list() == list(range(1, 2_001)), system
        assert structured["LineId"].to_list() == list(range(1, 2_001)), system
        assert structured["EventTemplate"].null_count() == 0


@pytest.mark.data
def test_loghub_lines_hold_their_parsed_content() -> None:
    lines, structured = datasets.fetch_loghub_2k("HDFS")
    both = pl.concat([lines, structured.select("Content")], how="horizontal")
    assert both.select(pl.col("line").str.ends_with(pl.col("Content")).all()).item()
    _, bgl = datasets.fetch_loghub_2k("BGL")
    assert (bgl["Label"] != "-").sum() == 143


@pytest.mark.data
@pytest.mark.parametrize(
    ("part", "sessions", "abnormal", "count", "least", "most"),
    [
        ("train", 4_855, 0, 95_125, 2, 26),
        ("test_abnormal", 16_838, 16_838, 284_818, 1, 28),
        ("robust_train", 12_000, 6_000, 218_889, 1, 28),
        ("robust_valid", 2_000, 1_000, 36_595, 2, 28),
    ],
)
def test_hdfs_sessions(
    part: str, sessions: int, abnormal: int, count: int, least: int, most: int
) -> None:
    frame = datasets.fetch_hdfs_sessions(part)
    assert dict(frame.schema) == {
        "session": pl.Int64,
        "events": pl.List(pl.Int64),
        "label": pl.Boolean,
    }
    assert frame.height == sessions
    assert frame["label"].sum() == abnormal
    events = frame["events"].explode()
    assert events.null_count() == 0
    assert (events.len(), events.min(), events.max()) == (count, least, most)


@pytest.mark.data
def test_hdfs_first_session_is_read_in_order() -> None:
    first = datasets.fetch_hdfs_sessions("test_abnormal")["events"][1].to_list()
    assert first == [5, 22, 5]
