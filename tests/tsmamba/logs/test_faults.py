"""The five faults of a made service log: all are found, and hardly anything else is told."""

import datetime as dt

import polars as pl
import pytest

from tsmamba import LogDetector
from tsmamba_datasets import make_service_logs

DAY = dt.datetime(2026, 3, 5, tzinfo=dt.UTC)
# Service, and hours of the day at which an alert is about the fault.
FAULTS = {
    "new_error": ("api", 3.0, 3.01),
    "silence": ("worker", 7.0, 7.26),
    "burst": ("db", 11.0, 11.02),
    "drift": ("api", 14.0, 16.2),
    "order": ("api", 20.0, 20.2),
}
REASONS = {
    "new_error": "unseen_template",
    "silence": "silence",
    "burst": "rate",
    "drift": "level",
    "order": "sequence",
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_five_faults_of_five_are_found_for_their_reason(seed):
    made = make_service_logs(days=4, faults=True, seed=seed)
    last = pl.col("line").str.starts_with("ts=2026-03-05")
    detector = LogDetector(stream_by=("service",)).fit(made.filter(~last)["line"].to_list())
    alerts = detector.score(made.filter(last)["line"].to_list()).filter("is_anomaly")
    episodes = alerts.unique("episode_id", keep="first", maintain_order=True)
    found: dict[str, list[str]] = {}
    other = []
    for row in episodes.iter_rows(named=True):
        hour = (row["time"] - DAY).total_seconds() / 3_600
        names = [
            name
            for name, (service, start, end) in FAULTS.items()
            if service == row["stream"] and start <= hour <= end
        ]
        if names:
            found.setdefault(names[0], []).append(row["reason"])
        else:
            other.append((row["time"], row["stream"], row["reason"], row["message"]))
    assert set(found) == set(FAULTS)
    for name, reasons in found.items():
        assert REASONS[name] in reasons, (name, reasons)
    assert len(other) <= 1, other
