import json
import random

import pytest

from tsmamba.logs.scoring.rates import Rates

MINUTE = 60 * 10**9
DAY = 1_440 * MINUTE
LIMIT = 14.0


def run(rates, minutes, per_minute=3, start=0, template=5):
    """Score some lines each minute; return the highest cost."""
    highest = 0.0
    for minute in range(minutes):
        for i in range(per_minute):
            highest = max(highest, rates.score(template, start + minute * MINUTE + i))
    return highest


@pytest.fixture
def rates():
    rates = Rates()
    run(rates, 500)
    return rates


def test_a_burst_is_found_and_usual_minutes_are_not(rates):
    draw = random.Random(0)
    for minute in range(500, 1_000):
        for i in range(draw.randrange(1, 5)):
            assert rates.score(5, minute * MINUTE + i) < LIMIT
    burst = [rates.score(5, 1_000 * MINUTE + i) for i in range(200)]
    assert burst[4] < LIMIT < burst[-1]
    assert rates.score(5, 1_001 * MINUTE) < 1.0


def test_a_burst_of_a_rare_line_is_found(rates):
    for day in range(1, 4):
        assert rates.score(9, day * DAY) < LIMIT
    assert max(rates.score(9, 4 * DAY + i) for i in range(50)) > LIMIT


def test_there_is_no_burst_in_the_first_half_hour():
    rates = Rates()
    run(rates, 20)
    assert run(rates, 1, per_minute=1_000, start=20 * MINUTE) == 0.0


def test_what_is_new_in_a_log_that_was_seen_for_long_can_burst(rates):
    assert max(rates.score(8, 501 * MINUTE + i) for i in range(100)) > LIMIT


def test_a_steady_line_costs_nothing_for_months():
    rates = Rates()
    run(rates, 2_000, per_minute=1)
    early = rates.score(5, 2_000 * MINUTE)
    assert run(rates, 100_000, per_minute=1, start=2_001 * MINUTE) < early + 0.1


def test_old_rates_fade():
    rates = Rates()
    run(rates, 2_000, per_minute=100)
    run(rates, 120_000, per_minute=1, start=2_000 * MINUTE)
    assert max(rates.score(5, 130_000 * MINUTE + i) for i in range(100)) > 5.0


@pytest.mark.parametrize("days", [1, 400])
def test_a_clock_that_is_set_back_is_no_burst(rates, days):
    run(rates, 500, start=days * DAY)
    assert run(rates, 500) < LIMIT
    assert run(rates, 500, start=days * DAY) < LIMIT


def test_a_clock_that_leaps_by_days_is_no_burst(rates):
    for leap in (3 * DAY, 900 * DAY):
        assert run(rates, 100, start=leap) < LIMIT


def test_lines_a_little_out_of_order_are_no_burst(rates):
    draw = random.Random(1)
    for minute in range(500, 1_000):
        for i in range(3):
            late = draw.randrange(3)
            assert rates.score(5, (minute - late) * MINUTE + i) < LIMIT


def test_times_can_be_moved(rates):
    rates.shift(30 * DAY)
    assert run(rates, 100, start=30 * DAY + 500 * MINUTE) < LIMIT
    assert run(rates, 1, per_minute=200, start=30 * DAY + 601 * MINUTE) > LIMIT


def test_a_renamed_template_begins_anew(rates):
    rates.rename(5, 5)
    assert rates.to_dict()["rates"]
    rates.rename(5, 6)
    assert rates.to_dict()["rates"] == []


def test_the_templates_are_bounded():
    rates = Rates(max_templates=10)
    for minute in range(500):
        rates.score(5, minute * MINUTE)
        rates.score(1_000 + minute, minute * MINUTE)
    assert len(rates.to_dict()["rates"]) == 10
    assert run(rates, 1, per_minute=100, start=500 * MINUTE) > LIMIT


def test_saved_rates_go_on_as_if_nothing_had_happened():
    rates, draw, now = Rates(max_templates=4), random.Random(2), 0
    for turn in range(8_000):
        if turn % 1_000 == 0:
            other = Rates.from_dict(json.loads(json.dumps(rates.to_dict())))
        now += draw.choice((0, 1, 1, 30, 60, 400, -90)) * 10**9
        now += (draw.random() < 0.001) * draw.choice((-2, 3)) * DAY
        template = draw.randrange(6)
        assert other.score(template, now) == rates.score(template, now)
    assert other.to_dict() == rates.to_dict()
