"""What holds of a miner for any stream of messages."""

import json
import random
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsmamba.logs.templates import TemplateMiner
from tsmamba.logs.templates.masks import mask_word

# Few templates, so that some fall out, and many, so that none does.
SIZES = pytest.mark.parametrize("max_templates", [16, 4_096])


def answers(miner, lines):
    return [(miner.add(line), miner.drain_events()) for line in lines]


def reload(miner):
    return TemplateMiner.from_dict(json.loads(json.dumps(miner.to_dict())))


@SIZES
@pytest.mark.parametrize("seed", range(3))
def test_a_restored_miner_continues_as_the_one_that_ran_on(make_stream, max_templates, seed):
    lines = make_stream(600, seed)
    whole = TemplateMiner(max_templates=max_templates)
    expected = answers(whole, lines)
    split = TemplateMiner(max_templates=max_templates)
    found = []
    for start in range(0, 600, 50):
        found += answers(split, lines[start : start + 50])
        split = reload(split)
    assert found == expected
    assert split.to_dict() == whole.to_dict()


def test_events_that_nobody_has_drained_are_saved(make_stream):
    miner = TemplateMiner()
    for line in make_stream(50):
        miner.add(line)
    assert reload(miner).drain_events() == miner.drain_events() != []


@SIZES
@pytest.mark.parametrize("cache_size", [0, 1, 7])
def test_caches_change_no_answer(make_stream, max_templates, cache_size):
    lines = make_stream(600)
    slow = TemplateMiner(max_templates=max_templates, cache_size=cache_size)
    assert answers(slow, lines) == answers(TemplateMiner(max_templates=max_templates), lines)


@SIZES
def test_whoever_follows_the_events_knows_the_templates(make_stream, max_templates):
    miner = TemplateMiner(max_templates=max_templates)
    known = {}
    for line in make_stream(2_000):
        miner.add(line)
        for kind, id, root, template in miner.drain_events():
            if kind in ("new", "changed"):
                assert (id in known) == (kind == "changed")
                known[id] = template
            else:
                del known[id]
                assert kind == "evicted" or known[root] == template
        assert miner.root(miner.add(line)) in known
    assert known == {id: miner.template(id) for id in miner.ids()}


@SIZES
def test_the_same_messages_give_the_same_state_in_every_process(run_python, max_templates):
    code = (
        "import json, random; from tsmamba.logs.templates import TemplateMiner; "
        f"rng = random.Random(0); miner = TemplateMiner(max_templates={max_templates}); "
        "[miner.add(' '.join(rng.choices('abcdefgh', k=4))) for _ in range(500)]; "
        "print(json.dumps(miner.to_dict()))"
    )
    states = [run_python("-c", code, PYTHONHASHSEED=seed) for seed in "123"]
    assert states[0].returncode == 0, states[0].stderr
    assert len({state.stdout for state in states}) == 1


def test_nothing_heavy_is_imported(run_python):
    code = (
        "import sys, tsmamba.logs.templates; print({'torch', 'polars', 'numpy'} & set(sys.modules))"
    )
    assert run_python("-c", code).stdout == "set()\n"


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_unrelated_messages_does_not_matter(make_stream, seed):
    """Groups by number of words never meet, so their messages can be mixed in any way."""
    rng = random.Random(seed)
    streams = {}
    for line in make_stream(800):
        streams.setdefault(len(line.split()), []).append(line)
    expected = {key: groups(TemplateMiner(), stream) for key, stream in streams.items()}
    order = [key for key, stream in streams.items() for _ in stream]
    rng.shuffle(order)
    turns = {key: iter(stream) for key, stream in streams.items()}
    mixed = [next(turns[key]) for key in order]
    miner = TemplateMiner()
    ids = [miner.add(line) for line in mixed]
    for key, partition in expected.items():
        roots = [miner.root(id) for id, of in zip(ids, order, strict=True) if of == key]
        assert as_groups(roots) == partition


def groups(miner, lines):
    ids = [miner.add(line) for line in lines]
    return as_groups([miner.root(id) for id in ids])


def as_groups(labels):
    return {frozenset(i for i, x in enumerate(labels) if x == label) for label in set(labels)}


def test_match_learns_nothing_and_knows_what_was_learned(make_stream):
    miner = TemplateMiner()
    for line in make_stream(300):
        miner.add(line)
    before = miner.to_dict()
    known = [miner.match(line) for line in make_stream(300)]
    assert None not in known
    assert None in [miner.match(f"{line} and on") for line in make_stream(300)]
    assert miner.to_dict() == before
    assert known == [miner.add(line) for line in make_stream(300)]


words = st.text(st.sampled_from("ab0123456789xf.-_=:/<> \t"), max_size=40)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, max_size=12), st.integers(0, 2**32))
def test_digits_never_change_an_id(lines, seed):
    rng = random.Random(seed)
    ours, theirs = TemplateMiner(), TemplateMiner()
    for line in lines:
        other = "".join(rng.choice("0123456789") if c.isdigit() else c for c in line)
        assert ours.add(line) == theirs.add(other) == ours.match(other)
    assert ours.to_dict() == theirs.to_dict()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=30), max_size=8))
def test_any_text_is_taken(lines):
    miner = TemplateMiner()
    for line in lines:
        id = miner.add(line)
        assert miner.match(line) == id == miner.root(id)
        assert len(miner.values(line, id)) <= 4
    assert reload(miner).to_dict() == miner.to_dict()


@pytest.mark.parametrize(
    "piece", ["7", "af0", "=", "a=1 ", " ", "\n", "é", "word ", "0.", "\ud800"]
)
def test_a_message_of_megabytes_costs_what_its_beginning_costs(piece):
    body = piece * (5_000_000 // len(piece))
    miner = TemplateMiner()
    start = time.process_time()
    id = miner.add(body)
    assert miner.match(body) == id
    assert len(miner.values(body, id)) <= 4
    assert time.process_time() - start < 0.5
    assert len(miner.template(id)) < 2_000


def test_memory_and_time_are_bounded_under_random_messages():
    rng = random.Random(0)
    miner = TemplateMiner(max_templates=128, cache_size=128)

    def feed(count):
        start = time.process_time()
        for _ in range(count):
            miner.add(" ".join(f"{rng.getrandbits(40):x}g" for _ in range(rng.randrange(1, 9))))
        return time.process_time() - start

    def held():
        mask_word.cache_clear()  # all miners share it; its size is fixed
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = feed(1_000)
        before = held()
        second = feed(2_000)
        assert held() < 1.3 * before
    finally:
        tracemalloc.stop()
    assert second < 6 * first
    assert len(miner) <= 128
    assert len(miner.to_dict()["aliases"]) <= 4 * 128
    assert len(miner.drain_events()) <= 4 * 128


def test_messages_that_share_their_ends_do_not_pile_up():
    rng = random.Random(0)
    miner = TemplateMiner()
    for _ in range(600):
        middle = " ".join("".join(rng.choices("abcdefgh", k=6)) for _ in range(4))
        miner.add(f"1 {middle} 2")
    assert len(miner) == 256
