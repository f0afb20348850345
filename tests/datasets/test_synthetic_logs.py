import re
from collections import Counter
from datetime import datetime, timedelta

import polars as pl
import pytest

from tsmamba_datasets import make_service_logs
from tsmamba_datasets._synthetic_logs import LOG_FAULTS
from tsmamba_datasets.errors import DatasetError

LINE = re.compile(r'ts=(\S+)Z level=(info|debug|warn|error) service=(\w+) msg="([^"]+)"')
DAY = datetime(2026, 3, 3)
# What a fault's lines look like, and between which times of the last day they lie.
FAULTS = {
    "new_error": ("03:00:00", "03:00:20", "error api payment"),
    "silence": ("07:15:00", "07:15:01", "info worker heartbeat"),
    "burst": ("11:00:00", "11:00:40", "warn db connection"),
    "drift": ("14:00:00", "16:00:00", r"info api (query|response)"),
    "order": ("20:00:00", "20:10:00", r"(info|debug) api "),
}


def read(log: pl.DataFrame) -> pl.DataFrame:
    """Cut the lines into columns."""
    cut = [LINE.fullmatch(line).groups() for line in log["line"]]
    rows = pl.DataFrame(cut, schema=["time", "level", "service", "message"], orient="row")
    return rows.with_columns(pl.col("time").str.to_datetime(time_unit="ms"), fault=log["fault"])


def at(clock: str) -> datetime:
    return datetime.combine(DAY, datetime.strptime(clock, "%H:%M:%S").time())


def between(rows: pl.DataFrame, start: str, end: str) -> pl.DataFrame:
    return rows.filter(pl.col("time").is_between(at(start), at(end), closed="left"))


@pytest.fixture(scope="module")
def faulty() -> pl.DataFrame:
    return read(make_service_logs(days=2, faults=True))


@pytest.fixture(scope="module")
def clean() -> pl.DataFrame:
    return read(make_service_logs(days=2))


@pytest.mark.parametrize("faults", [False, True])
def test_same_seed_same_log(faults: bool) -> None:
    one, two = (make_service_logs(seed=5, faults=faults) for _ in range(2))
    assert one.equals(two)
    assert not one.equals(make_service_logs(seed=6, faults=faults))


def test_lines_are_in_order_and_fill_the_days(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    for rows in (clean, faulty):
        assert rows["time"].is_sorted()
        counts = rows.filter(pl.col("time") < DAY + timedelta(days=1)).group_by(
            pl.col("time").dt.date(), maintain_order=True
        )
        assert all(20_000 < len(day) < 25_000 for _, day in counts)


def test_a_clean_log_has_no_fault(clean: pl.DataFrame) -> None:
    assert clean["fault"].null_count() == clean.height
    assert "error" not in clean["level"]


def test_faults_are_told_by_name(faulty: pl.DataFrame) -> None:
    assert tuple(faulty["fault"].drop_nulls().unique(maintain_order=True)) == LOG_FAULTS
    assert tuple(FAULTS) == LOG_FAULTS


@pytest.mark.parametrize("kind", FAULTS)
def test_lines_of_a_fault_are_marked_and_no_others(faulty: pl.DataFrame, kind: str) -> None:
    start, end, looks = FAULTS[kind]
    text = pl.concat_str("level", "service", "message", separator=" ")
    expected = between(faulty, start, end).filter(text.str.contains(f"^{looks}"))
    assert faulty.filter(pl.col("fault") == kind).equals(expected)
    assert not expected.is_empty()


def test_all_but_the_faults_is_as_without_them(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    def lines(rows: pl.DataFrame) -> Counter:
        # A slow query is late: what is marked tells less than the stretch of time.
        for name in ("drift", "order"):
            start, end, _ = FAULTS[name]
            rows = rows.filter(
                ~pl.col("time").is_between(at(start), at(end) + timedelta(seconds=1))
                | (pl.col("service") != "api")
            )
        return Counter(rows.drop("fault").rows())

    added = lines(faulty) - lines(clean)
    missing = lines(clean) - lines(faulty)
    assert {message.split()[0] for *_, message in added} == {"payment", "connection"}
    assert added.total() == 5 + 200
    assert {message.split()[0] for *_, message in missing} == {"heartbeat"}
    assert missing.total() == 30


def test_the_heart_stops_for_a_quarter_of_an_hour(faulty: pl.DataFrame) -> None:
    beats = faulty.filter(pl.col("message").str.starts_with("heartbeat"))
    pauses = beats.with_columns(pause=pl.col("time").diff()).filter(
        pl.col("pause") != timedelta(seconds=30)
    )
    assert pauses.select("time", "pause", "fault").rows() == [
        (at("07:15:00"), timedelta(minutes=15, seconds=30), "silence")
    ]


def test_queries_become_four_times_as_slow(clean: pl.DataFrame, faulty: pl.DataFrame) -> None:
    def slowness(start: str, end: str) -> float:
        def mean(rows: pl.DataFrame) -> float:
            query = pl.col("message").str.extract(r"query (\d+) ms").cast(pl.Float64)
            return between(rows, start, end).select(query.mean()).item()

        return mean(faulty) / mean(clean)

    assert slowness("13:00:00", "14:00:00") == pytest.approx(1.0)
    assert slowness("14:00:00", "14:10:00") == pytest.approx(1.125, rel=0.05)
    assert slowness("15:50:00", "16:00:00") == pytest.approx(3.875, rel=0.05)
    assert slowness("16:00:01", "17:00:00") == pytest.approx(1.0)


def test_answers_come_before_the_session_is_found(faulty: pl.DataFrame) -> None:
    start, end, _ = FAULTS["order"]
    for rows, second in (
        (between(faulty, start, end), "response"),
        (between(faulty, "19:00:00", start), "session"),
    ):
        api = rows.filter(pl.col("service") == "api")["message"].str.split(" ").list.first()
        after = api.filter((api == "request").shift(1, fill_value=False))
        # Few requests come between two lines of another.
        assert (after == second).mean() > 0.95


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"days": 0}, "days=0 is out of range; accepted: finite numbers from 1 up"),
        ({"seed": -1}, "seed=-1 is out of range; accepted: finite numbers from 0 up"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        make_service_logs(**arguments)
