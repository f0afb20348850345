import copy
import json
import math

import pytest

from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.logs.templates import UNKNOWN, TemplateEvent, TemplateMiner


def mined(*lines, **options):
    miner = TemplateMiner(**options)
    return miner, [miner.add(line) for line in lines]


def test_values_of_one_place_become_wild_at_the_fourth():
    names = ("ann", "bob", "cleo", "dan", "eve")
    miner, ids = mined(*(f"user {name} has left" for name in names))
    assert ids == [0, 1, 2, 0, 0]
    assert miner.template(2) == "user <*> has left"
    assert [miner.root(id) for id in range(5)] == [0, 0, 0, 0, None]
    assert miner.drain_events() == [
        TemplateEvent("new", 0, 0, "user ann has left"),
        TemplateEvent("new", 1, 1, "user bob has left"),
        TemplateEvent("new", 2, 2, "user cleo has left"),
        TemplateEvent("new", 3, 3, "user dan has left"),
        TemplateEvent("changed", 0, 0, "user <*> has left"),
        TemplateEvent("alias", 1, 0, "user <*> has left"),
        TemplateEvent("alias", 2, 0, "user <*> has left"),
        TemplateEvent("alias", 3, 0, "user <*> has left"),
    ]
    assert miner.drain_events() == []


@pytest.mark.parametrize("line", ["{} has left early", "today has left {}", "today {} left early"])
def test_the_place_of_the_values_does_not_matter(line):
    miner, ids = mined(*(line.format(name) for name in ("ann", "bob", "cleo", "dan", "eve")))
    assert ids[3:] == [0, 0]
    assert len(miner) == 1


def test_statuses_stay_apart():
    statuses = ("Started", "stopped.", "FAILED", "paused", "up", "down")
    _, ids = mined(*(f"service cron has {status}" for status in statuses))
    assert ids == list(range(6))


def test_the_name_of_a_key_stays():
    miner, _ = mined(*(f"login by user={name} at noon" for name in ("ann", "bob", "cleo", "dan")))
    assert miner.template(0) == "login by user=<*> at noon"


def test_long_messages_join_when_one_name_differs():
    line = "the scheduler moved queue {} to another worker because the owner did not answer"
    miner, ids = mined(line.format("q-a"), line.format("q-b"))
    assert ids == [0, 0]
    assert miner.template(0) == line.format("<*>")


def test_a_template_takes_in_those_that_it_covers():
    line = "the scheduler moved queue {} to worker {} because the owner did not answer in time"
    names = [("q-a", "w-a"), ("q-b", "w-b"), ("q-a", "w-b"), ("q-c", "w-a")]
    miner, ids = mined(*(line.format(*pair) for pair in names))
    assert ids == [0, 1, 0, 0]
    assert miner.template(1) == miner.template(0) == line.format("<*>", "<*>")
    assert miner.root(1) == 0


def test_of_templates_that_fit_the_oldest_is_the_answer():
    miner = TemplateMiner()
    miner.seed(["moved <*> to rome", "moved ann to <*>"])
    assert miner.add("moved ann to rome") == 0


def test_empty_messages_and_messages_of_digits_have_templates():
    miner, ids = mined("", "12", "   ", "7", "\n", "1 2")
    assert ids == [0, 1, 0, 1, 0, 2]
    assert [miner.template(id) for id in miner.ids()] == ["", "<*>", "<*> <*>"]


def test_of_a_stack_trace_the_first_line_counts():
    _, ids = mined("disk 3 failed\n  at Disk.java:17\n  at Main.java:3", "disk 4 failed\r\n  at X")
    assert ids == [0, 0]


def test_a_frozen_miner_learns_nothing():
    miner, _ = mined("took 12 ms", frozen=False)
    miner.frozen = True
    assert miner.add("took 7 ms") == 0
    assert miner.add("disk failed") == UNKNOWN
    assert miner.match("disk failed") is None
    miner.frozen = False
    assert miner.add("disk failed") == 1


def test_seeds_stay_as_they_were_given():
    seeds = [
        "unit 7 is in <*> now",
        *(f"the colour is {c}" for c in ("red", "green", "blue", "grey")),
    ]
    miner = TemplateMiner(max_templates=16)
    assert miner.seed(seeds) == [0, 1, 2, 3, 4]
    assert miner.seed(seeds[:2]) == [0, 1]
    assert miner.add("unit 3 is in Rome now") == 0
    assert miner.add("the colour is blue") == 3
    for number in range(200):
        miner.add("x" * number + " happened here")
    assert [miner.template(id) for id in range(5)] == ["unit <*> is in <*> now", *seeds[1:]]
    with pytest.raises(ParameterError, match=r"seed takes 8 templates.*raise max_templates"):
        miner.seed(f"{'y' * number} is" for number in range(1, 5))
    assert miner.match("yy is") is None


def test_a_template_that_was_learned_can_be_seeded():
    miner, _ = mined("the colour is red")
    assert miner.seed(["the colour is red"]) == [0]
    assert [miner.add(f"the colour is {c}") for c in ("green", "blue", "grey")] == [1, 2, 3]


def test_the_templates_not_seen_for_longest_are_evicted():
    kept = "this one comes again"
    miner = TemplateMiner(max_templates=16)
    events = []
    for number in range(1, 100):
        miner.add(kept)
        miner.add("y" * number)
        events += miner.drain_events()
    gone = [event.id for event in events if event.kind == "evicted"]
    assert miner.add(kept) == 0
    assert gone == list(range(1, len(gone) + 1))
    assert len(miner) == 16 == len(miner.ids())
    assert miner.root(1) is None
    with pytest.raises(ParameterError, match=r"id=1: .*evicted; ids\(\) lists all 16"):
        miner.template(1)
    assert miner.add("y") == 100  # ids are not used again


@pytest.mark.parametrize(
    ("lines", "body", "expected"),
    [
        (["size 12 KB"], "size 512 KB", (512.0,)),
        (["took 3.5ms, x=-4; (7)"], "took 0.25ms, x=-1; (9)", (0.25, -1.0, 9.0)),
        (["blk_12 from 10.0.0.1:80 port 7"], "blk_3 from 10.0.0.2:80 port 8", (math.nan, 8.0)),
        (["a 1 b 2 c 3 d 4 e 5"], "a 6 b 7 c 8 d 9 e 10", (6.0, 7.0, 8.0, 9.0)),
        (["ask blk_1 blk_2 blk_3 in 4 s"], "ask blk_1 blk_2 blk_3 blk_4 in 5 s", (math.nan, 5.0)),
        (["took 1 s"], "something else", (math.nan,)),
        (["took 1 s"], "took " + "9" * 900 + " s", (math.nan,)),
        (["nothing varies"], "nothing varies", ()),
        (
            ["at Sat Jun 11 03:28:22 2005 took 1 s"],
            "at Sat Jun 12 03:28:22 2005 took 2 s",
            (math.nan, 2.0),
        ),
    ],
)
def test_values(lines, body, expected):
    miner, ids = mined(*lines)
    assert miner.values(body, ids[0]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"similarity": 0}, r"similarity=0: give a number over 0"),
        ({"similarity": 1.1}, r"similarity=1.1: .* 1 at most"),
        ({"max_templates": 15}, r"max_templates=15: give 16 or more"),
        ({"cache_size": -1}, r"cache_size=-1: give 0 or more"),
    ],
)
def test_arguments_out_of_range_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        TemplateMiner(**options)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.pop("templates"),
        lambda state: state.update(templates=[[0, None, False, 1]]),
        lambda state: state.update(templates=[[0, "x"]]),
        lambda state: state.update(clock="noon"),
        lambda state: state.update(events=[["new"]]),
    ],
)
def test_a_damaged_state_is_refused(damage):
    state = mined("took 12 ms")[0].to_dict()
    damage(state)
    with pytest.raises(ModelFileError, match="state of a template miner is damaged"):
        TemplateMiner.from_dict(state)


def test_a_state_of_another_version_is_refused():
    with pytest.raises(ModelFileError, match="version 7; this tsmamba reads 1"):
        TemplateMiner.from_dict({**TemplateMiner().to_dict(), "version": 7})


def test_a_copy_is_independent(make_stream):
    miner, _ = mined(*make_stream(100))
    before = json.dumps(miner.to_dict())
    twin = copy.deepcopy(miner)
    for line in make_stream(300, seed=1):
        twin.add(line)
    assert json.dumps(miner.to_dict()) == before
    assert json.dumps(twin.to_dict()) != before
