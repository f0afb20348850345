import numpy as np
import pytest

import tsmamba
from benchmarks.anomaly.methods import CONTROL, METHODS, OURS, matrix_profile
from benchmarks.anomaly.methods.method import NotApplicableError
from benchmarks.anomaly.methods.windows import judged, window_length
from benchmarks.anomaly.problem import filled

BASELINES = [name for name in METHODS if name != CONTROL and not name.startswith(OURS)]


def naive_profile(values, length):
    """Do what stumpy does, which takes a minute to compile."""
    found = np.lib.stride_tricks.sliding_window_view(values, length)
    spread = found.std(axis=1, keepdims=True)
    scaled = (found - found.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    steps = np.arange(len(found))
    apart = np.abs(steps[:, None] - steps) > np.ceil(length / 4)
    flat = spread[:, 0] == 0
    squared = 2 * length - 2 * scaled @ scaled.T
    squared[flat] = squared[:, flat] = length
    squared[np.ix_(flat, flat)] = 0.0
    distances = np.sqrt(np.where(apart, np.maximum(squared, 0), np.inf).min(axis=1))
    return distances[:, None].astype(object)


@pytest.fixture(autouse=True)
def _no_compilation(request, monkeypatch):
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr(matrix_profile, "_compiled", lambda: naive_profile)


def made(name, seed=0):
    return METHODS[name].make(seed)


def scores_of(name, values, n_train, seed=0):
    method = made(name, seed)
    method.fit(values[:n_train])
    return method.score(values)


@pytest.fixture(
    params=[
        pytest.param((name, channels), id=f"{name}, {channels}")
        for name in BASELINES
        for channels in (1, 4)
        if (name, channels) != ("matrix profile", 4)
    ]
)
def case(request, make_problem):
    name, channels = request.param
    return name, make_problem(channels=channels)


def test_a_plain_anomaly_gets_the_highest_score(case):
    name, problem = case
    scores = scores_of(name, problem.values, problem.n_train)
    assert scores.shape == problem.labels.shape
    assert np.isfinite(scores).all()
    (start, stop) = problem.events[0]
    assert start - 15 <= scores.argmax() < stop + 15


def test_units_do_not_matter(case):
    name, problem = case
    scores = scores_of(name, problem.values, problem.n_train)
    moved = scores_of(name, 1024 * problem.values + 512, problem.n_train)
    assert moved == pytest.approx(scores, rel=1e-3, abs=1e-3 * scores.std())


def test_a_gap_scores_as_the_last_value_repeated(case):
    name, problem = case
    values = problem.values.copy()
    values[500:520] = np.nan
    expected = scores_of(name, filled(values), problem.n_train)
    assert scores_of(name, values, problem.n_train) == pytest.approx(expected)


def test_training_parts_that_never_move_are_scored(case):
    name, problem = case
    values = problem.values.copy()
    values[: problem.n_train] = 1.0
    assert np.isfinite(scores_of(name, values, problem.n_train)).all()


@pytest.mark.parametrize("name", [n for n in (CONTROL, *BASELINES) if METHODS[n].random])
def test_seeds_matter_where_they_are_said_to_and_repeat(name, make_problem):
    problem = make_problem()
    first, again, other = (
        scores_of(name, problem.values, problem.n_train, seed) for seed in (0, 0, 1)
    )
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("name", [n for n in BASELINES if not METHODS[n].random])
def test_seeds_change_nothing_elsewhere(name, make_problem):
    problem = make_problem()
    first, other = (scores_of(name, problem.values, problem.n_train, seed) for seed in (0, 1))
    assert (first == other).all()


@pytest.mark.parametrize("name", [n for n in BASELINES if METHODS[n].ahead == "nothing"])
def test_what_looks_at_nothing_ahead_does_not_see_it(name, make_problem):
    problem = make_problem(channels=3)
    changed = problem.values.copy()
    changed[800:] += 5.0
    before, after = (
        scores_of(name, values, problem.n_train) for values in (problem.values, changed)
    )
    assert (before[:800] == after[:800]).all()


@pytest.mark.parametrize("name", ["robust z", "PCA"])
def test_the_channel_at_fault_contributes_most(name, make_problem):
    problem = make_problem(channels=4)
    method = made(name)
    method.fit(problem.train)
    (start, stop) = problem.events[0]
    contributions = method.explain(problem.values)
    assert contributions.shape == problem.values.shape
    assert contributions[start:stop].sum(0).argmax() == 3


@pytest.mark.slow
def test_the_matrix_profile_is_that_of_stumpy(make_problem):
    pytest.importorskip("stumpy")
    values = make_problem().values[:, 0]
    distances = matrix_profile._compiled()(values, 25)[:, 0].astype(float)
    assert distances == pytest.approx(naive_profile(values, 25)[:, 0].astype(float), abs=1e-5)


def test_the_matrix_profile_refuses_what_it_is_not_made_for(make_problem, monkeypatch):
    problem = make_problem(channels=2)
    with pytest.raises(NotApplicableError, match="one channel only"):
        made("matrix profile").fit(problem.train)
    monkeypatch.setattr(matrix_profile, "LONGEST", 999)
    with pytest.raises(NotApplicableError, match="more than 999 steps"):
        scores_of("matrix profile", make_problem().values, 400)


@pytest.mark.parametrize(("rows", "length"), [(60, 20), (1_000, 25), (9, 8)])
def test_windows_have_a_period_but_at_most_a_third_of_the_training_part(rows, length):
    wave = np.sin(2 * np.pi * np.arange(rows) / 25)[:, None]
    assert window_length(wave) == length


def test_a_score_stands_in_the_middle_of_its_window():
    values = np.zeros((1_000, 1))
    values[600] = 1.0
    scores = judged(values, 41, lambda found: found[:, 20])
    assert scores[600] == scores.max() == 1.0
    assert (scores[:590] == 0).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tsmamba (offline)", {"mode": "offline"}),
        ("tsmamba (delay 0)", {"mode": "streaming", "delay": 0}),
        ("tsmamba (delay p/2)", {"mode": "streaming", "delay": "p/2"}),
        ("tsmamba (offline, corrector)", {"mode": "offline", "corrector": "mamba"}),
    ],
)
def test_ours_gets_its_mode_and_the_values_as_they_are(name, expected, make_problem, monkeypatch):
    class Detector:
        def __init__(self, **settings):
            self.settings = settings

        def fit(self, train):
            self.train = train

        def anomaly_score(self, values):
            return values.sum(axis=1)

        def explain(self, values):
            return values

    monkeypatch.setattr(tsmamba, "MambaDetector", Detector, raising=False)
    problem = make_problem(channels=2)
    method = METHODS[name].make(5)
    method.fit(problem.train)
    assert method._detector.settings == {**expected, "random_state": 5}
    assert (method._detector.train == problem.train).all()
    assert (method.score(problem.values) == problem.values.sum(axis=1)).all()
    assert (method.explain(problem.values) == problem.values).all()
