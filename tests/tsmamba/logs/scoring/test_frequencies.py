import json
import math
import random

import pytest

from tsmamba.logs.scoring.frequencies import Frequencies


def restored(part):
    return Frequencies.from_dict(json.loads(json.dumps(part.to_dict())))


def test_a_cost_is_minus_the_logarithm_of_a_share():
    seen = Frequencies()
    for i in range(1_000):
        seen.add([0] if i % 4 else [0, 1])
    assert math.exp(-seen.cost(0)) == pytest.approx(1.0, abs=2e-3)
    assert math.exp(-seen.cost(1)) == pytest.approx(0.25, abs=2e-3)
    assert seen.cost("never") > seen.cost(1) > seen.cost(0)
    assert seen.rarest([0, 1]) == seen.cost(1)
    assert seen.rarest([0, 1, "never"]) == seen.cost("never")


def test_a_step_is_a_cost_and_an_observation():
    one, other = Frequencies(horizon=50), Frequencies(horizon=50)
    draw = random.Random(0)
    for _ in range(500):
        key = draw.choice([0, "a", (1, 2), (1, 3), draw.randrange(100)])
        cost = one.cost(key)
        one.add([key])
        assert other.step(key) == cost
    assert one.to_dict() == other.to_dict()


def test_a_renamed_key_counts_as_if_it_had_always_had_that_name():
    def name(key, new):
        return tuple(new if part == 5 else part for part in key) if type(key) is tuple else key

    renamed, from_start = Frequencies(), Frequencies()
    draw = random.Random(1)
    for _ in range(300):
        key = draw.choice([draw.randrange(8), (draw.randrange(8), draw.randrange(8))])
        renamed.add([key])
        from_start.add([2 if key == 5 else name(key, 2)])
    renamed.rename(5, 2)
    assert renamed.counts == from_start.counts
    assert renamed.total == from_start.total


def test_old_habits_fade_and_the_table_is_bounded():
    seen = Frequencies(horizon=100)
    for _ in range(50):
        seen.add(["old"])
    for i in range(10_000):
        seen.add([i, "new"])
        assert len(seen.counts) <= 200
        assert seen.total <= 100
    assert "old" not in seen.counts
    assert seen.cost("new") < 0.1


def test_a_saved_one_goes_on_as_if_nothing_had_happened():
    seen = Frequencies(horizon=64)
    draw = random.Random(2)
    for _ in range(500):
        seen.add([draw.randrange(20), "text", (draw.randrange(3), -1)])
    other = restored(seen)
    for _ in range(500):
        key = draw.choice([draw.randrange(25), "text", (draw.randrange(3), -1)])
        assert other.step(key) == seen.step(key)
    assert other.to_dict() == seen.to_dict()
