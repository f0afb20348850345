import json
import random
from itertools import pairwise

import pytest
import torch

from tsmamba.logs.lines import KINDS, KINDS_WITH_NETWORK, Event, LineModel
from tsmamba.logs.network import Committee
from tsmamba.logs.network.model import NextTemplate

SECOND = 10**9
DAY = 86_400 * SECOND
RATE = 1e-4


def normal(count, start=0, seed=0):
    """Requests that are answered: three lines each, a heartbeat, a number."""
    draw, now = random.Random(seed), start
    for i in range(count // 4):
        now = start + i * 10 * SECOND
        took = draw.lognormvariate(3.0, 0.2)
        yield Event(0, "web", "app.log", now, "INFO", ())
        yield Event(1, "web", "app.log", now + int(0.01 * SECOND), "INFO", (took,))
        late = int(draw.uniform(0.02, 0.03) * SECOND)
        yield Event(2, "web", "app.log", now + late, "INFO", ())
        yield Event(3, "worker", "app.log", now + SECOND, "DEBUG", ())


@pytest.fixture
def model():
    model = LineModel(RATE)
    model.fit(list(normal(8_000)))
    return model


def restored(model):
    return LineModel.from_dict(json.loads(json.dumps(model.to_dict())))


def run(model, events):
    """Score events as a stream does; return lines and lines overdue."""
    scores, late = [], []
    for event in events:
        if event.time is not None:
            late += [score for _, score in model.overdue(event.time)]
        scores.append(model.step(event))
    return scores, late


def after(model, events):
    """Score some normal lines, then others; return the alerts among the others."""
    start = 10 * DAY
    usual, late = run(model, normal(2_000, start, seed=1))
    assert not any(score.is_anomaly for score in usual)
    assert late == []
    last = start + 500 * 10 * SECOND
    scores, late = run(model, events(last))
    return [score for score in [*late, *scores] if score.is_anomaly]


def test_normal_lines_do_not_alert_and_a_later_log_begins_anew(model):
    assert after(model, lambda start: normal(4_000, start, seed=2)) == []


@pytest.mark.parametrize(
    ("reason", "events"),
    [
        ("unseen_template", lambda at: [Event(9, "web", "app.log", at, "INFO")]),
        ("rare_template", lambda at: [Event(0, "web", "app.log", at, "FATAL")]),
        (
            "sequence",
            lambda at: [
                Event(t, "web", "app.log", at + i * 10**7, "INFO")
                for i, t in enumerate((0, 2, 1, 1, 0))
            ],
        ),
        (
            "value",
            lambda at: [
                Event(0, "web", "app.log", at, "INFO"),
                Event(1, "web", "app.log", at + 10**7, "INFO", (90_000.0,)),
            ],
        ),
        (
            "level",
            lambda at: [
                event._replace(numbers=tuple(2.0 * number for number in event.numbers))
                for event in normal(2_000, at, seed=3)
            ],
        ),
        (
            "gap",
            lambda at: [
                Event(0, "web", "app.log", at, "INFO"),
                Event(1, "web", "app.log", at + 9 * SECOND, "INFO", (20.0,)),
            ],
        ),
        (
            "rate",
            lambda at: [event for _ in range(40) for event in list(normal(4, at, seed=4))[:3]],
        ),
        (
            "silence",
            lambda at: [e for e in normal(400, at, seed=5) if e.template != 3],
        ),
    ],
)
def test_each_kind_of_fault_is_found(model, reason, events):
    assert reason in {score.reason for score in after(model, events)}


def test_the_score_is_the_dearest_cost_in_units_of_its_threshold(model):
    scores, _ = run(model, normal(400, 10 * DAY, seed=6))
    for score in scores:
        shares = [cost / limit for cost, limit in zip(score.costs, score.thresholds, strict=True)]
        assert score.score == max(shares)
        assert score.is_anomaly == (max(shares) > 1.0)
        assert set(score.parts) <= set(KINDS)
        if score.parts:
            assert max(score.parts.values()) == score.score


def test_a_model_that_learned_nothing_is_silent():
    scores, late = run(LineModel(RATE), [Event(i, numbers=(1.0,)) for i in range(10)])
    assert late == []
    assert scores[0].score == 0.0
    assert not scores[0].is_anomaly


def test_lines_without_times_and_with_strange_numbers_are_scored(model):
    events = [e._replace(time=None, numbers=(float("nan"),) * 4) for e in normal(400, seed=7)]
    scores, late = run(model, events)
    assert late == []
    assert not any(score.is_anomaly for score in scores)


@pytest.mark.parametrize("days", [-3, 3, 4_000])
def test_a_clock_that_is_set_anew_is_told_at_most_once_for_each_line(model, days):
    """Then all is as usual, and what does not come is found as before."""

    def events(start):
        return [*normal(4_000, start + days * DAY, seed=8)]

    alerts = after(model, events)
    assert len(alerts) <= 8
    assert {score.reason for score in alerts} <= {"gap", "silence"}
    last = 10 * DAY + (500 + 1_000) * 10 * SECOND + days * DAY
    _, late = run(model, [e for e in normal(400, last, seed=9) if e.template != 3])
    assert [score.reason for score in late] == ["silence"]


def test_one_wrong_stamp_does_not_make_it_deaf(model):
    def events(start):
        events = [*normal(400, start, seed=8)]
        events[42] = events[42]._replace(time=start + 30_000 * DAY)
        return events

    assert {score.reason for score in after(model, events)} <= {"gap", "silence"}
    last = 10 * DAY + 600 * 10 * SECOND
    _, late = run(model, [e for e in normal(400, last, seed=9) if e.template != 3])
    assert [score.reason for score in late] == ["silence"]


def test_streams_have_an_order_of_their_own():
    """Two streams that are shuffled into each other give the costs that they have alone."""
    model = LineModel(RATE)
    mixed = []
    for i in range(3_000):
        mixed.append(Event(i % 3, "a"))
        if random.Random(i).random() < 0.5:
            mixed.append(Event(5, "b"))
    model.fit(mixed)
    scores, _ = run(model, mixed)
    assert not any(score.is_anomaly for score in scores)
    orders = [
        score.costs[0] - model.templates.cost(event.template)
        for score, event in zip(scores, mixed, strict=True)
    ]
    assert max(orders[10:]) < 1.0


def test_the_streams_are_bounded():
    model = LineModel(RATE, max_streams=10)
    for i in range(200):
        model.step(Event(0, f"stream {i}"))
    assert len(model.to_dict()["streams"]) == 10


def test_a_renamed_template_is_known_under_its_new_name(model):
    run(model, normal(10, 10 * DAY))
    model.rename(2, 7)
    score = model.step(Event(7, "web", "app.log", 10 * DAY + 30 * SECOND, "INFO"))
    assert score.reason != "unseen_template"
    assert model.step(Event(2, "web", "app.log", 10 * DAY + 31 * SECOND, "INFO")).is_anomaly


@pytest.mark.parametrize("cut", [0, 1, 777])
def test_a_saved_model_goes_on_as_if_nothing_had_happened(model, cut):
    events = [*normal(1_200, 10 * DAY, seed=10)]
    events[300] = events[300]._replace(template=12)
    events[700] = events[700]._replace(numbers=(1e9,))
    events[900:1_000] = [e for e in events[900:1_000] if e.template != 3]
    run(model, events[:cut])
    other = restored(model)
    assert run(other, events[cut:]) == run(model, events[cut:])
    assert other.to_dict() == model.to_dict()


def test_another_order_alerts_while_it_lasts_and_not_when_two_meet_once():
    """Steps in another order cost little each if they were seen, and much if they go on."""
    model = LineModel(RATE)
    usual = list(normal(8_000))
    model.fit(usual)
    cycle = [event for event in normal(400, 10 * DAY, seed=1) if event.template < 3]
    swapped = []
    for i in range(0, len(cycle) - 2, 3):
        first, second, third = cycle[i : i + 3]
        swapped += [first, third._replace(time=second.time), second._replace(time=third.time)]
    scores, _ = run(model, cycle[:60] + swapped[60:90])
    assert not any(score.is_anomaly and score.reason == "sequence" for score in scores[:60])
    assert any(score.is_anomaly and score.reason == "sequence" for score in scores[60:])


def test_an_order_is_usual_when_it_lasted():
    model = LineModel(RATE)
    model.fit(list(normal(8_000)))
    other = [Event(2 - i % 3, "web") for i in range(12_000)]
    scores, _ = run(model, other)
    assert any(score.is_anomaly for score in scores[:300])
    assert not any(score.is_anomaly for score in scores[-3_000:])


def test_steps_that_wait_to_be_learned_are_renamed_and_saved():
    model = LineModel(RATE)
    model.fit([Event(i % 4) for i in range(2_000)])
    for i in range(100):
        model.step(Event(i % 5))
    model.rename(4, 3)
    again = LineModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert again.to_dict() == model.to_dict()
    assert all(4 not in (*before, template) for before, template in model.to_dict()["steps"])
    for i in range(600):
        assert again.step(Event(i % 4)) == model.step(Event(i % 4))


def by_chance(count, start=0):
    draw = random.Random(0)
    return [
        event._replace(template=draw.randrange(3)) if event.stream == "web" else event
        for event in normal(count, start)
    ]


def with_network(spoil=0.0):
    """Fit with a network that was not trained; return what was asked of it as well."""
    asked = []
    torch.manual_seed(0)
    network = NextTemplate(6)
    network.head.weight.data *= 0.1
    network.head.bias.data[0] += spoil

    def train(learned, waits, is_of_use):
        committee = Committee([network], {template: template + 2 for template in range(4)})
        asked.append((learned, waits, is_of_use(committee)))
        return committee if asked[0][-1] else None

    model = LineModel(RATE)
    # One that knows nothing is hardly worse than an n-gram where all comes by chance.
    events = by_chance(4_000)
    model.fit(events, train)
    return model, events, asked[0]


def test_networks_learn_each_stream_of_what_does_not_set_the_threshold():
    _, events, (learned, waits, of_use) = with_network()
    assert of_use
    for name, templates, gaps in zip(("web", "worker"), learned, waits, strict=True):
        stream = [event for event in events[:3_000] if event.stream == name]
        assert templates == [event.template for event in stream]
        times = [event.time for event in stream]
        spans = [(later - time) / SECOND for time, later in pairwise(times)]
        assert gaps == pytest.approx([-1.0, *spans])


def test_networks_are_a_kind_more_and_each_has_a_smaller_share_of_the_rate():
    model, _, _ = with_network()
    scores, late = run(model, by_chance(400, DAY))
    assert late == []
    assert {len(score.costs) for score in scores} == {len(KINDS_WITH_NETWORK)}
    assert model.thresholds.rate == pytest.approx(RATE / 7)
    assert {name for score in scores for name in score.parts} >= {"sequence", "network"}
    assert restored_with(model).to_dict() == model.to_dict()
    _, late = run(model, [e for e in by_chance(400, DAY + 1_000 * SECOND) if e.template != 3])
    assert [(score.reason, score.parts.keys()) for score in late] == [("silence", {"silence"})]


def restored_with(model):
    return LineModel.from_dict(
        json.loads(json.dumps(model.to_dict())), model.network.committee.weights()
    )


def test_a_network_of_no_use_leaves_nothing_behind():
    spoiled, events, (_, _, of_use) = with_network(spoil=30.0)
    plain = LineModel(RATE)
    plain.fit(events)
    assert not of_use
    assert spoiled.to_dict() == plain.to_dict()
    assert "network" not in plain.to_dict()
