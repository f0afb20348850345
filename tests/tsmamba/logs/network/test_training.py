import random
from statistics import fmean

import pytest
import torch

from tsmamba.logs.network import fitted_committee, training
from tsmamba.logs.scoring.ngram import NGram


def tasks(count, seed=0):
    """Ends with what it began with; what lies between says nothing about it."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        kind = draw.randrange(2)
        middle = [draw.choice((4, 5)) for _ in range(draw.randrange(3, 7))]
        found.append([kind, *middle, 2 + kind])
    return found


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(training, "_STEPS", 5)


def of_use(committee):
    return True


def test_it_sees_what_an_ngram_cannot(monkeypatch):
    monkeypatch.setattr(training, "_STEPS", 200)
    learned = tasks(300)
    committee = fitted_committee(learned, None, 0, of_use).committee
    ngram = NGram(3)
    for session in learned:
        ngram.add(session)
    usual = [0, 4, 5, 4, 4, 2]
    wrong = [0, 4, 5, 4, 4, 3]
    assert max(ngram.costs(wrong)) - max(ngram.costs(usual)) < 0.5
    assert max(committee.costs(wrong)) - max(committee.costs(usual)) > 2.0


def test_it_learns_gaps(monkeypatch):
    """After a long wait comes another template than after a short one."""
    monkeypatch.setattr(training, "_STEPS", 150)
    draw = random.Random(0)
    gaps = [[-1.0, draw.choice((1.0, 3_000.0)), 0.0] for _ in range(200)]
    sessions = [[0, 1, 2 + (wait[1] > 2.0)] for wait in gaps]
    committee = fitted_committee(sessions, gaps, 0, of_use).committee
    usual = committee.costs([0, 1, 2], [-1.0, 1.0, 0.0])[2]
    wrong = committee.costs([0, 1, 2], [-1.0, 3_000.0, 0.0])[2]
    assert wrong - usual > 2.0


def test_the_same_seed_gives_the_same_networks(short):
    first, second, other = (
        fitted_committee(tasks(50), None, seed, of_use).committee.weights() for seed in (3, 3, 4)
    )
    assert first == second
    assert len(first) == len(set(first) | set(other)) - 2 == 2


def test_the_draws_of_others_are_left_alone(short):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    fitted_committee(tasks(30), None, 0, of_use)
    assert torch.equal(torch.rand(3), expected)


def test_a_network_of_no_use_is_replaced(short):
    judged = []

    def is_of_use(committee):
        judged.append(committee.weights()[0])
        return len(judged) != 1

    found = fitted_committee(tasks(50), None, 0, is_of_use)
    assert (len(found.kept), len(found.rejected)) == (2, 1)
    assert found.committee.weights() == judged[1:]


def test_if_none_is_of_use_there_is_no_committee(short):
    found = fitted_committee(tasks(50), None, 0, lambda committee: False)
    assert found.committee is None
    assert (found.kept, len(found.rejected)) == ([], 4)


def test_rare_templates_share_a_number_and_long_sessions_are_cut(short):
    long = [0, 1] * 1_000
    committee = fitted_committee([long, [7, *long], long[:1]], None, 0, of_use).committee
    assert committee.numbers == {0: 2, 1: 3}
    windows = training._windows([2, 3] * 300, [-1.0] * 600)
    assert [len(before) for before, _, _ in windows] == [256, 256, 89]
    assert [t for _, after, _ in windows for t in after] == [*[2, 3] * 300, 0]
    assert windows[0][0][:3] == [0, 2, 3]


def test_training_makes_sessions_likelier(monkeypatch):
    told = []
    for steps in (0, 60):
        monkeypatch.setattr(training, "_STEPS", steps)
        committee = fitted_committee(tasks(100), None, 0, of_use).committee
        told.append(fmean(fmean(committee.costs(session)) for session in tasks(20, seed=1)))
    assert told[1] < 0.7 * told[0]
