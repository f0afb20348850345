import numpy as np
import pytest

from benchmarks.anomaly.sets import SETS, find_set

# Series, rows in all, labelled rows and events, as the publishers' pages have them where they tell.
PUBLISHED = {
    "ASD": (8, 8 * (8_640 + 4_320), 1_619, 47),
    "SKAB": (34, 46_806 - 9_405, 13_067, 34),
    "oil wells": (6, 95_390, 75_776, 6),
    "SMD": (5, 236_949, 10_526, 87),
    "NAB": (58, 365_558, 33_495, 116),
    "SMAP/MSL": (81, 138_004 + 435_826 + 58_317 + 73_729, 63_738, 104),
    "SMAP/MSL, all columns": (81, 138_004 + 435_826 + 58_317 + 73_729, 63_738, 104),
    "GECCO": (1, 279_132, 4_055, 97),
    "TSB-AD": (50, 2_197_044, 13_183, 61),
    "TSB-AD, archive's prefix": (50, 2_197_044, 13_183, 61),
    "UCR": (125, 10_246_754, 24_744, 125),
}
# Labelled rows that lie in training parts.
LABELLED_IN_TRAINING = {"SKAB": 296, "GECCO": 1_726, "TSB-AD": 62}


def test_names_are_unique():
    assert len({source.name for source in SETS}) == len(SETS) == len(PUBLISHED)


@pytest.mark.data
@pytest.mark.parametrize("source", SETS, ids=lambda source: source.name)
def test_every_set_has_the_size_and_the_labels_of_its_publisher(source):
    problems = list(source.problems())
    rows = sum(len(p.values) for p in problems)
    labelled = sum(int(p.labels.sum()) for p in problems)
    events = sum(len(p.events) for p in problems)
    assert (len(problems), rows, labelled, events) == PUBLISHED[source.name]
    known = sum(int(p.labels[: p.n_train].sum()) for p in problems)
    assert known == LABELLED_IN_TRAINING.get(source.name, 0)
    for problem in problems:
        assert (problem.set, problem.name) == (source.name, source.read(problem.name).name)
        assert problem.values.ndim == 2
        assert problem.values.dtype == float
        assert problem.labels.dtype == bool
        assert len(problem.labels) == len(problem.values)
        assert 100 < problem.n_train < len(problem.values)
        assert problem.scored_from == (0 if source.name.startswith("TSB-AD") else problem.n_train)


@pytest.mark.data
@pytest.mark.parametrize("name", ["ASD", "SMD"])
def test_channels_at_fault_are_named_for_every_event(name):
    for problem in find_set(name).problems():
        covered = np.zeros(len(problem.labels), bool)
        for cause in problem.causes:
            covered[cause.start : cause.stop] = True
            assert cause.channels <= set(range(problem.values.shape[1]))
        assert (covered == problem.labels).all()


@pytest.mark.data
def test_nab_is_read_in_the_order_of_its_rows_and_scored_after_the_probation():
    taxi = find_set("NAB").read("realKnownCause/nyc_taxi")
    assert taxi.values[:2, 0].tolist() == [10_844, 8_127]
    assert taxi.n_train == 750
    short = find_set("NAB").read("realAdExchange/exchange-2_cpc_results")
    assert short.n_train == int(0.15 * len(short.values))


@pytest.mark.data
def test_gaps_of_gecco_are_kept():
    problem = find_set("GECCO").read("gecco2018")
    assert np.isnan(problem.values).all(axis=1).sum() == 25_524
