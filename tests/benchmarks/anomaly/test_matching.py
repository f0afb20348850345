from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.anomaly import matching
from benchmarks.anomaly.matching import forest_score, matched, signature
from benchmarks.anomaly.published import (
    Published,
    as_in_tsb_ad,
    read_published,
    read_scoreboard,
)
from benchmarks.anomaly.sets import AnomalySet, find_set


@pytest.fixture
def copies(make_problem):
    """Return a series and a copy with noise, of the same length and labels."""
    series = make_problem("109", source="UCR")
    noise = 0.2 * np.random.default_rng(1).normal(size=series.values.shape)
    return series, replace(series, name="001", values=series.values + noise)


def test_labels_lose_the_first_row_of_each_event_and_nab_its_first_row(make_problem):
    ucr, nab = make_problem(source="UCR"), make_problem(source="NAB")
    (event,) = ucr.events
    cut = as_in_tsb_ad(ucr)
    assert cut.events == [(event[0] + 1, event[1])]
    assert (cut.values == ucr.values).all()
    assert cut.scored_from == 0
    cut = as_in_tsb_ad(nab)
    assert cut.events == [(event[0], event[1] - 1)]
    assert (cut.values == nab.values[1:]).all()
    assert cut.n_train == nab.n_train - 1


def test_a_file_is_matched_by_its_published_score_and_never_by_its_length_alone(
    copies, monkeypatch
):
    series, copy = copies
    problems = {problem.name: problem for problem in copies}
    ucr = AnomalySet("UCR", lambda: list(problems), problems.__getitem__)
    nothing = AnomalySet("NAB", list, problems.__getitem__)
    monkeypatch.setattr(matching, "find_set", {"UCR": ucr, "NAB": nothing}.__getitem__)
    monkeypatch.setattr(matching, "forest_score", lambda problem: float(problem.values.std()))
    length, first, count = signature(as_in_tsb_ad(series))
    assert signature(as_in_tsb_ad(copy)) == (length, first, count)

    def row(score, length=length, first=first, count=count):
        file = f"304_UCR_id_2_Medical_tr_300_1st_{first}.csv"
        facts = dict.fromkeys(("num", "mean", "ratio", "point", "seq"), 0)
        return {"file": file, "IForest": score, "ts_len": length, "anomaly_len": count} | facts

    table = pl.DataFrame(
        [
            row(series.values.std()),
            row(copy.values.std()),
            row(0.5),
            row(0.5, count=count + 5),
            row(0.5, length=length + 1),
            {**row(0.5), "file": "140_MSL_id_1_Sensor_tr_530_1st_630.csv"},
        ]
    )
    found = matched(table)
    assert [match.series for match in found] == ["109", "001", "", "", ""]
    assert [match.reason for match in found] == [
        "",
        "",
        "of which only a copy is here",
        "with other labels here",
        "without a series of that length and first label here",
    ]
    assert found[0].vus_pr == {"IForest": table["IForest"][0]}
    assert (found[0].n_train, found[0].first) == (300, first)


def test_a_name_that_is_not_of_tsb_ad_is_refused():
    with pytest.raises(ValueError, match=r"must end in _tr_N_1st_N\.csv"):
        _ = Published("nyc_taxi.csv", "", "", "", {}).n_train


def test_what_did_not_match_has_a_reason_and_no_results():
    rows = read_published()
    assert len(rows) == len({row.file for row in rows}) == 93
    matches = [row for row in rows if row.source]
    assert len(matches) == len({(row.source, row.series) for row in matches}) == 50
    assert all(bool(row.source) == bool(row.vus_pr) == (not row.reason) for row in rows)
    assert len({frozenset(row.vus_pr) for row in matches}) == 1


@pytest.mark.data
def test_the_one_file_that_is_published_has_the_values_and_labels_of_our_cut(data_dir):
    (path,) = (data_dir / "tsb_ad").glob("001_NAB*.csv")
    theirs = pl.read_csv(path)
    row = read_published()[0]
    ours = as_in_tsb_ad(find_set(row.source).read(row.series))
    assert row.file == path.name
    # The publisher's text has 15 digits.
    assert ours.values[:, 0] == pytest.approx(theirs["Data"].to_numpy(), rel=1e-14, abs=0)
    assert (ours.labels == (theirs["Label"].to_numpy() == 1)).all()


@pytest.mark.data
def test_the_tables_hold_what_was_published(data_dir):
    table = pl.read_csv(data_dir / "tsb_ad" / "uni_mergedTable_VUS-PR.csv")
    by_file = {row["file"]: row for row in table.iter_rows(named=True)}
    for row in read_published():
        if row.source:
            problem = as_in_tsb_ad(find_set(row.source).read(row.series))
            theirs = by_file[row.file]
            expected = (theirs["ts_len"], row.first, theirs["anomaly_len"])
            assert signature(problem) == expected, row.file
            assert row.vus_pr == {m: pytest.approx(theirs[m], abs=1e-5) for m in row.vus_pr}
            assert len(row.vus_pr) == 32
    scores = pl.read_json(Path(data_dir) / "nab" / "results" / "final_results.json").to_dicts()[0]
    assert read_scoreboard() == {
        name: pytest.approx(profiles, abs=0.01) for name, profiles in scores.items()
    }


@pytest.mark.data
@pytest.mark.parametrize(("series", "other"), [("135", "027"), ("005", "113")])
def test_a_published_score_tells_copies_of_a_series_apart(series, other):
    row = next(row for row in read_published() if (row.source, row.series) == ("UCR", series))
    known, copy = (as_in_tsb_ad(find_set("UCR").read(name)) for name in (series, other))
    assert signature(known) == signature(copy)
    assert forest_score(known) == pytest.approx(row.vus_pr["IForest"], abs=1e-5)
    assert forest_score(copy) != pytest.approx(row.vus_pr["IForest"], abs=1e-5)
