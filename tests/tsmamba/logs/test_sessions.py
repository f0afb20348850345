import json
import random
from statistics import pstdev

import pytest

from tsmamba.logs.sessions import SessionModel

RATE = 1e-2


def normal(count, seed=0):
    """Open, some reads and writes, close; once in five with a retry."""
    draw = random.Random(seed)
    sessions = []
    for _ in range(count):
        middle = [draw.choice((1, 2)) for _ in range(draw.randrange(2, 6))]
        sessions.append([0, *middle, *([4, 0] if draw.random() < 0.2 else []), 3])
    return sessions


def fitted(trim=0.1, count=2_000):
    return SessionModel.fitted(normal(count), RATE, trim)


def restored(model):
    networks = [] if model.network is None else model.network.weights()
    return SessionModel.from_dict(json.loads(json.dumps(model.to_dict())), networks)


@pytest.mark.parametrize("trim", [0.0, 0.1])
def test_normal_sessions_alert_at_about_the_rate(trim):
    model = fitted(trim)
    scores = [model.step(session) for session in normal(3_000, seed=1)]
    assert sum(score.is_anomaly for score in scores) < 3 * RATE * len(scores)
    assert all(score.cost == sum(score.parts.values()) for score in scores)


@pytest.mark.parametrize(
    ("session", "reason", "template"),
    [
        ([0, 1, 9, 2, 3], "unseen_template", 9),
        ([0, 1, 2, 4, 4, 4, 0, 3], "sequence", 4),
        ([0, 1, 2, 1, 3, 3], "sequence", 3),
        ([0, 1, 2], "sequence", 2),
    ],
)
def test_each_kind_of_fault_is_found(session, reason, template):
    model = fitted()
    score = model.step(session)
    assert score.is_anomaly
    assert (score.reason, score.template) == (reason, template)


def test_counts_that_no_session_had_are_found_where_the_log_is_clean():
    clean = fitted(trim=0.0)
    score = clean.step([0, *[1, 2] * 100, 3])
    assert score.is_anomaly
    assert "distance" in score.parts
    assert "distance" not in fitted().step([0, 1, 2, 3]).parts


def test_the_rarest_training_sessions_are_left_out():
    sessions = normal(1_000)
    bad = [0, 7, 7, 8, 3]
    for place in range(0, 1_000, 25):
        sessions[place] = bad
    kept = SessionModel.fitted(sessions, RATE, 0.0).step(bad)
    left_out = SessionModel.fitted(sessions, RATE, 0.1).step(bad)
    assert kept.cost < 1.1 * kept.threshold
    assert left_out.cost > 2.0 * left_out.threshold
    assert (left_out.reason, left_out.template) == ("unseen_template", 7)


def test_a_lasting_change_is_learned():
    model = fitted()
    changed = [[template + 10 for template in session] for session in normal(1_500, seed=2)]
    alerts = [model.step(session).is_anomaly for session in changed]
    assert all(alerts[:10])
    assert not any(alerts[-200:])


def test_long_sessions_are_judged_by_the_mean_of_their_steps():
    draw = random.Random(3)

    def long(jump=0.0):
        return [draw.randrange(20) if draw.random() < jump else i % 20 for i in range(150)]

    model = SessionModel.fitted([long(0.05) for _ in range(200)], RATE, 0.1)
    assert model.long
    assert sum(model.step(long(0.05)).is_anomaly for _ in range(100)) <= 5
    score = model.step(long(0.9))
    assert (score.is_anomaly, score.reason, list(score.parts)) == (True, "sequence", ["sequence"])


def test_a_session_of_templates_nobody_knows_is_scored():
    score = fitted().step([-1, -1])
    assert (score.is_anomaly, score.reason) == (True, "unseen_template")


@pytest.mark.parametrize("trim", [0.0, 0.1])
def test_a_renamed_template_costs_what_it_cost_before(trim):
    model, renamed = fitted(trim), fitted(trim)
    renamed.rename(2, 50)
    for session in normal(50, seed=4):
        other = [50 if template == 2 else template for template in session]
        assert sum(renamed.parts(other).values()) == pytest.approx(
            sum(model.parts(session).values())
        )


def test_two_templates_that_become_one_count_together():
    model = fitted(trim=0.0)
    model.rename(2, 1)
    score = model.step([0, 1, 1, 1, 3])
    assert not score.is_anomaly
    assert score.parts["distance"] == pytest.approx(0.0)


@pytest.mark.parametrize("trim", [0.0, 0.1])
@pytest.mark.parametrize("length", [1, 25])
def test_a_saved_model_goes_on_as_if_nothing_had_happened(trim, length):
    sessions = [session * length for session in normal(150)]
    model = SessionModel.fitted(sessions, RATE, trim)
    draw = random.Random(5)
    for turn in range(4):
        other = restored(model)
        for session in normal(60, seed=turn):
            odd = [*session * length, *([draw.randrange(9)] if draw.random() < 0.1 else [])]
            assert other.step(odd) == model.step(odd)
        other.rename(1, 30 + turn)
        model.rename(1, 30 + turn)
        assert other.to_dict() == model.to_dict()


def test_the_distance_of_counts_is_measured_in_the_spread_of_usual_sessions():
    few, many = fitted(trim=0.0, count=40), fitted(trim=0.0, count=3_000)
    far = [0, 1, 2, 1, 2, 1, 2, 1, 2, 3, 3]
    unit = many.parts(far)["distance"] / many.nearest.distance(far)
    assert few.weights["distance"] < 20.0 < unit == many.weights["distance"]


class Reader:
    """Stands for networks: a step costs what it is told to, and more after each gap."""

    def __init__(self, cost):
        self.cost = cost

    def costs(self, session, gaps=None):
        waits = [-1.0] * len(session) if gaps is None else gaps
        pairs = zip(session, waits, strict=True)
        return [self.cost(t) + max(wait, 0.0) for t, wait in pairs] + [0.1]


def with_reader(cost, trim=0.1, sessions=None, gaps=None):
    """Fit with a reader in the place of trained networks; return what was asked of it as well."""
    asked = []

    def train(learned, waits, is_of_use):
        asked.append((learned, waits, is_of_use(Reader(cost))))
        return Reader(cost) if asked[0][-1] else None

    sessions = normal(2_000) if sessions is None else sessions
    return SessionModel.fitted(sessions, RATE, trim, gaps=gaps, train=train), asked


def test_networks_learn_from_what_is_left_and_not_from_what_sets_the_threshold():
    sessions = normal(1_000)
    sessions[3] = [0, 7, 7, 8, 3]
    gaps = [[i * 1e-6] * len(session) for i, session in enumerate(sessions)]
    _, ((learned, waits, _),) = with_reader(lambda template: 0.2, 0.1, sessions, gaps)
    assert len(learned) == len(waits) == 675
    assert sessions[3] not in learned
    assert learned == [sessions[round(wait[0] * 1e6)] for wait in waits]


@pytest.mark.parametrize("trim", [0.0, 0.1])
def test_what_networks_say_weighs_as_much_as_the_rest(trim):
    draw = random.Random(1)
    model, _ = with_reader(lambda template: draw.random(), trim)
    parts = [model.parts(session) for session in normal(500, seed=2)]
    own = [part.pop("network") for part in parts]
    rest = [sum(part.values()) for part in parts]
    assert 0.5 < pstdev(own) / pstdev(rest) < 2.0
    score = model.step([0, 1, 2, 1, 3])
    assert score.cost == sum(score.parts.values())
    assert score.parts["network"] > 0.0


def test_what_networks_find_strange_is_told():
    model, _ = with_reader(lambda template: 0.2 + 0.1 * template)
    usual = model.step([0, 1, 2, 1, 3])
    waited = model.step([0, 1, 2, 1, 3], [0.0, 0.0, 8.0, 0.0, 0.0])
    assert not usual.is_anomaly
    assert (waited.is_anomaly, waited.reason) == (True, "network")
    assert waited.parts["network"] > 10 * usual.parts["network"]


@pytest.mark.parametrize(
    ("cost", "of_use"),
    [
        (lambda template: 0.3, True),
        (lambda template: 9.0, False),
        (lambda template: 12.0 if template == 3 else 0.3, False),
        (lambda template: float("nan"), False),
    ],
)
def test_networks_that_find_usual_sessions_strange_are_of_no_use(cost, of_use):
    _, ((_, _, judged),) = with_reader(cost)
    assert judged is of_use


def test_without_networks_nothing_of_them_is_left():
    model = SessionModel.fitted(normal(200), RATE, 0.1, train=lambda *given: None)
    other = SessionModel.fitted(normal(200), RATE, 0.1)
    assert model.to_dict() == other.to_dict()
    assert "network" not in model.parts([0, 1, 3])
