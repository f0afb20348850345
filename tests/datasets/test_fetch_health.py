import polars as pl
import pytest

import tsmamba_datasets as datasets
from tsmamba_datasets.errors import DatasetError


def test_unknown_names_are_refused() -> None:
    with pytest.raises(DatasetError, match="part='c' is unknown; accepted: 'a', 'b'"):
        datasets.fetch_physionet2012("c")
    with pytest.raises(DatasetError, match="task='death' is unknown; accepted: 'aki'"):
        datasets.fetch_icu_demo("death")
    with pytest.raises(DatasetError, match="cohort='mimic' is unknown"):
        datasets.fetch_icu_demo("aki", "mimic")


@pytest.mark.data
@pytest.mark.parametrize(("part", "rows", "deaths"), [("a", 1_751_757, 554), ("b", 1_756_253, 568)])
def test_physionet_counts(part: str, rows: int, deaths: int) -> None:
    events, outcomes = datasets.fetch_physionet2012(part)
    assert outcomes.height == 4_000
    assert outcomes["died"].sum() == deaths
    assert events.height == rows
    assert events["subject_id"].n_unique() == 4_000
    assert events["code"].n_unique() == 41
    assert events.equals(events.sort("subject_id", "minute", maintain_order=True))
    descriptors = {"Age", "Gender", "Height", "ICUType"}
    assert set(events.filter(pl.col("code").is_in(descriptors))["minute"]) == {0}
    # -1 means unknown; one survival time of set b is negative at the source.
    negative = outcomes.unpivot(index=["subject_id", "died"]).filter(pl.col("value") < 0)
    assert negative["value"].to_list() == ([] if part == "a" else [-23])


@pytest.mark.data
def test_physionet_equals_what_is_shipped() -> None:
    events, outcomes = datasets.fetch_physionet2012("a")
    some_events, some_outcomes = datasets.load_physionet_stays()
    ids = some_outcomes["subject_id"].to_list()
    assert some_events.equals(events.filter(pl.col("subject_id").is_in(ids)))
    assert some_outcomes.equals(outcomes.filter(pl.col("subject_id").is_in(ids)))


@pytest.mark.data
def test_shipped_icu_stays_are_whole_stays_of_set_a() -> None:
    events, outcomes = datasets.fetch_physionet2012("a")
    some_events, some_labels = datasets.load_icu_stays()
    some = pl.col("subject_id").is_in(some_labels["subject_id"].to_list())
    hours = (pl.col("minute") / 60.0).alias("time")
    assert some_events.equals(
        events.filter(some).select("subject_id", hours, "code", "numeric_value")
    )
    outcomes = outcomes.filter(some).with_columns(pl.col("died").cast(pl.Int64).alias("label"))
    assert some_labels.equals(outcomes.select("subject_id", "label", "saps_i", "sofa"))


@pytest.mark.data
@pytest.mark.parametrize(
    ("task", "cohort", "rows", "stays"),
    [
        ("aki", "eicu_demo", 78_205, 1_988),
        ("aki", "mimic_demo", 4_968, 113),
        ("kidney_function", "eicu_demo", 20_025, 801),
        ("kidney_function", "mimic_demo", 1_725, 69),
        ("los", "eicu_demo", 124_094, 2_267),
        ("los", "mimic_demo", 9_656, 132),
        ("mortality24", "eicu_demo", 34_175, 1_367),
        ("mortality24", "mimic_demo", 2_475, 99),
        ("sepsis", "eicu_demo", 42_524, 896),
        ("sepsis", "mimic_demo", 7_707, 115),
    ],
)
def test_icu_demo(task: str, cohort: str, rows: int, stays: int) -> None:
    hourly, labels, static = datasets.fetch_icu_demo(task, cohort)
    assert hourly.shape == (rows, 50)
    assert hourly["hour"].dtype == pl.Int64
    assert hourly.select("subject_id", "hour").is_unique().all()
    assert hourly["subject_id"].n_unique() == stays
    assert static["subject_id"].n_unique() == static.height == stays
    assert set(labels["subject_id"]) == set(static["subject_id"])
    assert labels.height == (rows if "hour" in labels.columns else stays)


@pytest.mark.data
def test_ecg_beats_stand_on_the_peaks() -> None:
    signal, beats = datasets.fetch_ecg()
    assert signal.columns == ["ds", "MLII", "V5"]
    assert signal.height == 650_000
    # The header states the first samples (995 and 1011) and the sums of all samples.
    units = signal.select((pl.col("MLII", "V5") * 200 + 1024).round().cast(pl.Int64))
    assert units.row(0) == (995, 1_011)
    wrapped = [(total + 2**15) % 2**16 - 2**15 for total in units.sum().row(0)]
    assert wrapped == [-22_131, 20_052]
    counts = dict(beats["symbol"].value_counts().iter_rows())
    assert counts == {"N": 2_239, "A": 33, "V": 1, "+": 1}
    normal = beats.filter(pl.col("symbol") == "N").join(signal, on="ds")
    assert normal["MLII"].median() > 0.5 > signal["MLII"].quantile(0.95)
