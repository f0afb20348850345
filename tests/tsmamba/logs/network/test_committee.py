import json
import random

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tsmamba.logs.network import Committee
from tsmamba.logs.network.model import NextTemplate

NUMBERS = {10: 2, 11: 3, 12: 4}


@pytest.fixture
def committee():
    torch.manual_seed(0)
    return Committee([NextTemplate(5), NextTemplate(5)], NUMBERS)


def sessions(count, seed=0):
    """Sessions and gaps, some of them not known."""
    draw = random.Random(seed)
    lengths = [draw.randrange(1, 30) for _ in range(count)]
    return [
        ([draw.choice([*NUMBERS, 99]) for _ in range(n)], [draw.choice((-1.0, 0.0, 2.5))] * n)
        for n in lengths
    ]


def restored(committee):
    state = json.loads(json.dumps([committee.to_dict(), committee.weights()]))
    return Committee.from_dict(*state)


def test_the_cost_is_the_mean_of_what_the_networks_say(committee):
    for session, gaps in sessions(5):
        numbers = torch.tensor([[0, *[NUMBERS.get(t, 1) for t in session], 0]])
        times = torch.tensor([[-1.0, *gaps]])
        expected = [
            F.cross_entropy(network(numbers[:, :-1], times)[0], numbers[0, 1:], reduction="none")
            for network in committee.networks
        ]
        found = committee.costs(session, gaps)
        np.testing.assert_allclose(found, torch.stack(expected).mean(0).detach(), atol=1e-5)


def test_a_long_session_costs_what_its_beginning_costs_and_more(committee):
    session = [10, 11, 12, 99] * 600
    whole, part = committee.costs(session), committee.costs(session[:1_500])
    assert len(whole) == len(session) + 1
    assert whole[:1_000] == pytest.approx(part[:1_000], abs=1e-5)


def test_templates_that_nobody_knows_cost_the_same(committee):
    assert committee.costs([10, 99, 11]) == committee.costs([10, -1, 11])
    assert committee.costs([99]) != committee.costs([10])
    assert len(committee.costs([])) == 1


def test_gaps_that_are_not_given_are_not_known(committee):
    assert committee.costs([10, 11]) == committee.costs([10, 11], [-1.0, -1.0])
    assert committee.costs([10, 11]) != committee.costs([10, 11], [-1.0, 60.0])


def test_what_a_session_costs_does_not_depend_on_what_came_before(committee):
    first = [committee.costs(*each) for each in sessions(20)]
    assert [committee.costs(*each) for each in reversed(sessions(20))] == first[::-1]


def test_a_renamed_template_costs_what_it_cost_before(committee):
    before = committee.costs([10, 11, 12])
    committee.rename(11, 70)
    assert committee.costs([10, 70, 12]) == before
    assert committee.costs([10, 11, 12]) == committee.costs([10, 99, 12])
    # One that is known stands for the other from now on; one that is not changes nothing.
    committee.rename(70, 12)
    committee.rename(98, 99)
    assert committee.numbers == {10: 2, 12: 4}
    assert committee.costs([10, 12, 12]) != before


def test_a_saved_committee_costs_the_same_to_the_last_digit(committee):
    committee.rename(11, 70)
    other = restored(committee)
    assert other.weights() == committee.weights()
    assert other.to_dict() == committee.to_dict()
    for session, gaps in sessions(20, seed=1):
        assert other.costs(session, gaps) == committee.costs(session, gaps)
