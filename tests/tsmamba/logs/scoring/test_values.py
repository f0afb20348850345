import json
import math
import random

import pytest

from tsmamba.logs.scoring.values import ValueTails

USUAL = 8.0  # nats, the cost of a value that one in some thousand has


def normal(count, seed=0):
    draw = random.Random(seed)
    return [draw.lognormvariate(3.0, 0.3) for _ in range(count)]


@pytest.fixture
def values():
    values = ValueTails()
    for number in normal(2_000):
        values.score(0, (number, 5.0))
    return values


def restored(values):
    return ValueTails.from_dict(json.loads(json.dumps(values.to_dict())))


def test_usual_values_cost_little(values):
    tails, levels = zip(*(values.score(0, (n, 5.0)) for n in normal(2_000, seed=1)), strict=True)
    assert sum(tail > USUAL for tail in tails) < 4
    assert max(levels) < USUAL + 4.0


@pytest.mark.parametrize("factor", [10.0, 0.1, -1.0, 1e300])
def test_a_value_far_out_is_found(values, factor):
    tail, level = values.score(0, (20.0 * factor, 5.0))
    assert tail > USUAL
    assert level < USUAL


def test_a_value_where_all_were_the_same_is_found(values):
    assert values.score(0, (20.0, 50.0))[0] > USUAL


def test_a_level_that_moves_is_found_where_no_value_is_far_out(values):
    found = [values.score(0, (number * 1.8, 5.0)) for number in normal(200, seed=2)]
    assert max(level for _, level in found) > 2 * USUAL
    assert sum(tail > USUAL for tail, _ in found) < 10


def test_a_new_slot_is_silent():
    values = ValueTails()
    for number in (1.0, 1e9, -5.0, 0.0, 7.0) * 4:
        assert values.score(0, (number,)) == (0.0, 0.0)
    assert values.score(0, (1e6,))[0] > 0.0


def test_places_without_a_number_are_left_out(values):
    before = values.to_dict()
    assert values.score(0, (math.nan, math.inf, -math.inf)) == (0.0, 0.0)
    assert values.to_dict() == before
    assert values.score(0, (math.nan, 50.0))[0] > USUAL
    assert values.score(0, ()) == (0.0, 0.0)


def test_a_value_far_out_is_found_after_many_lines():
    values = ValueTails()
    draw = random.Random(0)
    for _ in range(200_000):
        values.score(0, (draw.lognormvariate(3.0, 1.0),))
    for number in (1e9, -10.0):
        other = restored(values)
        assert other.score(0, (number,))[0] > math.log(1_000) + 2.0
    assert values.score(0, (1e9,))[0] > 50.0


def test_a_renamed_template_begins_anew_and_others_stay(values):
    values.score(1, (5.0,))
    values.rename(0, 1)
    assert values.score(0, (1e6, 50.0)) == (0.0, 0.0)
    assert [slot[:2] for slot in values.to_dict()["slots"]] == [[1, 0], [0, 0], [0, 1]]


def test_the_slots_are_bounded():
    values = ValueTails(max_slots=10)
    for i in range(1_000):
        values.score(0, (20.0,))
        values.score(i, (1.0, 2.0))
    assert len(values.to_dict()["slots"]) == 10
    assert values.score(0, (1e6,))[0] > USUAL


def test_a_saved_one_goes_on_as_if_nothing_had_happened(values):
    values.score(1, (5.0, math.nan, 1.0))
    other = restored(values)
    for number in normal(3_000, seed=4):
        numbers = (number, 5.0)
        assert other.score(0, numbers) == values.score(0, numbers)
    assert other.to_dict() == values.to_dict()


def test_what_was_saved_is_a_copy(values):
    state = values.to_dict()
    before = json.dumps(state)
    other = ValueTails.from_dict(state)
    for part in (values, other):
        part.score(0, (1e6, 0.0))
    assert json.dumps(state) == before
