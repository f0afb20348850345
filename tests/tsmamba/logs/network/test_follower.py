import json
import random

import pytest
import torch

from tsmamba.logs.network import Committee, Follower
from tsmamba.logs.network.model import NextTemplate

NUMBERS = {10: 2, 11: 3, 12: 4}
PLACE = ("app.log", "")


@pytest.fixture
def committee():
    torch.manual_seed(0)
    return Committee([NextTemplate(5), NextTemplate(5)], NUMBERS)


@pytest.fixture
def follower(committee):
    return Follower(committee)


def lines(count, seed=0):
    """Templates, and gaps of which some are not known."""
    draw = random.Random(seed)
    return [
        (draw.choice([*NUMBERS, 99]), draw.choice((-1.0, 0.0, 2.5, 3_600.0))) for _ in range(count)
    ]


def run(follower, lines, place=PLACE):
    return [follower.step(place, template, gap) for template, gap in lines]


def restored(follower):
    state = json.loads(json.dumps([follower.to_dict(), follower.committee.weights()]))
    return Follower.from_dict(*state)


def test_a_line_costs_what_it_costs_in_a_session(follower, committee):
    given = lines(400)
    whole = committee.costs(*map(list, zip(*given, strict=True)))
    told = run(follower, given)
    pairs = zip(given, told, whole, strict=False)
    for (template, _), cost, expected in list(pairs)[1:]:
        assert cost == (pytest.approx(expected, abs=1e-5) if template in NUMBERS else 0.0)


def test_the_first_line_and_unknown_templates_cost_nothing_and_are_read(follower):
    assert run(follower, [(10, -1.0), (99, 1.0)]) == [0.0, 0.0]
    assert follower.step(PLACE, 10) > 0.0
    told = []
    for template in (99, 11):
        follower.clear()
        told.append(run(follower, [(10, -1.0), (template, -1.0), (12, -1.0)])[-1])
    assert told[0] != told[1]


def test_gaps_count(follower):
    told = []
    for gap in (-1.0, 0.0, 60.0):
        follower.clear()
        told.append(run(follower, [(10, -1.0), (11, gap), (12, 0.0)])[-1])
    assert len(set(told)) == 3


def test_streams_cost_what_they_cost_alone(committee):
    together, alone = Follower(committee), Follower(committee)
    first, second = lines(50), lines(50, seed=1)
    mixed = [
        (together.step(("a", "x"), *one), together.step(("a", "y"), *other))
        for one, other in zip(first, second, strict=True)
    ]
    assert [one for one, _ in mixed] == run(alone, first)
    alone.clear()
    assert [other for _, other in mixed] == run(alone, second)


@pytest.mark.parametrize("cut", [0, 1, 60])
def test_a_saved_one_goes_on_to_the_last_digit(follower, cut):
    given = lines(120)
    run(follower, given[:cut])
    follower.rename(12, 13)
    other = restored(follower)
    assert run(other, given[cut:]) == run(follower, given[cut:])
    assert other.to_dict() == follower.to_dict()


def test_its_state_does_not_grow_with_its_stream(follower):
    sizes = []
    for _ in range(3):
        run(follower, lines(100))
        sizes.append(len(json.dumps(follower.to_dict()["streams"])))
    assert max(sizes) - min(sizes) < 8


def test_the_stream_not_seen_for_longest_gives_way_and_begins_anew(committee):
    follower, other = Follower(committee, max_streams=3), Follower(committee)
    for name in "abc":
        run(follower, lines(5), ("", name))
    run(follower, lines(5), ("", "a"))
    run(follower, lines(5), ("", "d"))
    assert [name for _, name, *_ in follower.to_dict()["streams"]] == ["c", "a", "d"]
    assert restored(follower).max_streams == 3
    assert run(follower, lines(9), ("", "b")) == run(other, lines(9))
    assert len(follower.to_dict()["streams"]) == 3


def test_cleared_it_knows_no_streams(follower):
    first = run(follower, lines(20))
    follower.clear()
    assert follower.to_dict()["streams"] == []
    assert run(follower, lines(20)) == first


def test_a_renamed_template_costs_what_it_cost_before(committee):
    follower, other = Follower(committee), restored(Follower(committee))
    given = lines(40)
    other.rename(11, 70)
    renamed = [(70 if template == 11 else template, gap) for template, gap in given]
    assert run(other, renamed) == run(follower, given)
