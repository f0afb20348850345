import json
import math
import random

import pytest

from tsmamba.logs.scoring.ngram import START, STOP, NGram

ORDER = 4


def events(count, seed, templates=6):
    """Return contexts and what follows: a cycle that is left now and then."""
    draw = random.Random(seed)
    before, found = (START,), []
    for i in range(count):
        template = i % templates if draw.random() < 0.8 else draw.randrange(templates + 2)
        found.append((before, template))
        before = (*before, template)[1 - ORDER :]
    return found


@pytest.fixture
def model():
    model = NGram(ORDER)
    for before, template in events(2_000, seed=0):
        model.step(before, template)
    return model


def table_of(model):
    """Counts after each context."""
    return {tuple(before): dict(counts) for before, counts in model.to_dict()["table"]}


def restored(model):
    return NGram.from_dict(json.loads(json.dumps(model.to_dict())))


@pytest.mark.parametrize("max_contexts", [40, 200_000])
def test_a_step_costs_what_was_asked_before(max_contexts):
    model = NGram(ORDER, max_contexts)
    for before, template in events(3_000, seed=1):
        cost = model.cost(before, template)
        assert model.step(before, template) == cost


def test_probabilities_of_all_templates_and_of_an_unseen_one_add_up_to_one(model):
    known = list(table_of(model)[()])
    contexts = [*table_of(model), (START, 0, 1), (9, 9, 9), (0, 9), (3,)]
    for context in contexts:
        if len(context) < ORDER:
            total = sum(math.exp(-model.cost(context, template)) for template in [*known, 999])
            assert total == pytest.approx(1.0)


def test_what_follows_often_costs_less_than_what_never_did(model):
    assert model.cost((0, 1, 2), 3) < 0.5
    assert model.cost((0, 1, 2), 5) > 2.0
    assert model.cost((0, 1, 2), 999) > model.cost((0, 1, 2), 5)


def test_nothing_is_known_at_first():
    assert NGram().cost((START,), 1) == 0.0
    assert NGram().step((START,), 1) == 0.0
    assert NGram().costs([1, 2]) == [0.0, 0.0, 0.0]


def test_a_session_is_its_steps_from_the_start_to_the_end():
    model = NGram(order=3)
    for _ in range(20):
        model.add([1, 2, 3])
    costs = model.costs([1, 2, 3])
    assert costs == [
        model.cost((START,), 1),
        model.cost((START, 1), 2),
        model.cost((1, 2), 3),
        model.cost((2, 3), STOP),
    ]
    assert max(costs) < 0.2
    assert model.costs([1, 2])[-1] > 2.0


def test_a_renamed_template_counts_as_if_it_had_always_had_that_name():
    renamed, from_start = NGram(ORDER), NGram(ORDER)
    for before, template in events(1_000, seed=2):
        renamed.step(before, template)
        other = tuple(1 if t == 4 else t for t in before)
        from_start.step(other, 1 if template == 4 else template)
    renamed.rename(4, 1)
    assert table_of(renamed) == table_of(from_start)
    assert renamed.n_contexts == from_start.n_contexts
    assert not renamed.knows(4)
    before = renamed.to_dict()
    renamed.rename(77, 1)
    assert renamed.to_dict() == before


def test_the_table_is_bounded():
    model = NGram(ORDER, max_contexts=500)
    draw = random.Random(3)
    before = (START,)
    for i in range(20_000):
        template = draw.randrange(1_000) if i < 15_000 else i % 3
        model.step(before, template)
        before = (*before, template)[1 - ORDER :]
        assert model.n_contexts <= 500 + ORDER
    assert model.cost(before, (before[-1] + 1) % 3) < 1.0


def test_a_bounded_table_still_adds_up_to_one():
    model = NGram(ORDER, max_contexts=60)
    for before, template in events(5_000, seed=4, templates=20):
        model.step(before, template)
    table = table_of(model)
    for context in table:
        if len(context) < ORDER and table[()]:
            known = [*table[()], 999]
            total = sum(math.exp(-model.cost(context, template)) for template in known)
            assert total == pytest.approx(1.0)


@pytest.mark.parametrize("max_contexts", [60, 200_000])
def test_a_saved_one_goes_on_as_if_nothing_had_happened(max_contexts):
    model = NGram(ORDER, max_contexts)
    every = events(4_000, seed=5)
    for before, template in every[:2_000]:
        model.step(before, template)
    other = restored(model)
    for before, template in every[2_000:]:
        assert other.step(before, template) == model.step(before, template)
    assert other.to_dict() == model.to_dict()
