import json
import math
import random

import pytest

from tsmamba.logs.scoring.threshold import GuardedThresholds


def costs(count, seed=0, scale=1.0, offset=5.0):
    """Return costs of normal lines: an exponential tail, as costs in nats have."""
    draw = random.Random(seed)
    return [offset + draw.expovariate(1.0 / scale) for _ in range(count)]


def singly(costs):
    return [(cost,) for cost in costs]


def seeded(rate, count=4_000):
    threshold = GuardedThresholds(rate)
    threshold.seed(singly(costs(count, seed=1)))
    return threshold


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("rate", [1e-2, 1e-3])
def test_a_normal_stream_alerts_at_the_rate_for_good(rate, scale):
    threshold = GuardedThresholds(rate)
    threshold.seed(singly(costs(4_000, seed=1, scale=scale)))
    alerts = [threshold.step((cost,)) for cost in costs(80_000, scale=scale)]
    for half in (alerts[:40_000], alerts[40_000:]):
        assert rate / 2 < sum(half) / len(half) < rate * 2


def test_a_rate_below_one_in_a_window_is_met():
    rate = 1e-4
    threshold = GuardedThresholds(rate)
    assert threshold.block == 10
    threshold.seed(singly(costs(40_000, seed=1)))
    alerts = [threshold.step((cost,)) for cost in costs(200_000)]
    assert rate / 2 < sum(alerts) / len(alerts) < rate * 2


@pytest.mark.parametrize("rate", [1e-2, 1e-3])
def test_alerts_do_not_enter(rate):
    threshold, normal = seeded(rate), seeded(rate)
    draw = random.Random(2)
    found = 0
    for cost in costs(20_000):
        normal.step((cost,))
        threshold.step((cost,))
        if draw.random() < 0.01:
            found += threshold.step((draw.uniform(30.0, 50.0),))
    assert found > 150
    # They raise it by no more than their number gives reason for.
    assert threshold.values[0] < normal.values[0] + 3.0


def test_a_lasting_change_enters():
    threshold = seeded(1e-2)
    alerts = [threshold.step((cost,)) for cost in costs(3_000, offset=60.0)]
    assert all(alerts[:20])
    assert sum(alerts) < 200
    assert threshold.values[0] > 60.0
    assert sum(alerts[-1_000:]) < 50


def test_one_alert_after_another_is_no_change_while_it_is_short():
    threshold = seeded(1e-2)
    for cost in costs(1_000):
        threshold.step((cost,))
    assert all(threshold.step((90.0,)) for _ in range(15))
    assert threshold.values[0] < 20.0


def test_a_short_calibration_lies_above_all_that_was_seen():
    for rate in (1e-3, 1e-5):
        seen = costs(50, seed=3)
        threshold = GuardedThresholds(rate)
        threshold.seed(singly(seen))
        assert threshold.values[0] > max(seen)
    long = GuardedThresholds(1e-3)
    long.seed(singly(costs(20_000, seed=3)))
    assert long.values[0] < threshold.values[0]


def test_the_threshold_is_never_below_what_the_rate_costs():
    threshold = GuardedThresholds(1e-3)
    threshold.seed(singly([0.0] * 4_000))
    assert threshold.values[0] == pytest.approx(-math.log(1e-3))
    assert not threshold.step((5.0,))


def test_there_is_no_alert_before_there_is_a_threshold():
    threshold = GuardedThresholds(1e-2)
    assert threshold.values[0] == math.inf
    assert not threshold.step((1e9,))
    assert threshold.values[0] < math.inf


@pytest.mark.parametrize("rate", [0.3, 1e-2, 1e-4])
def test_a_saved_one_goes_on_as_if_nothing_had_happened(rate):
    draw = random.Random(4)
    threshold = seeded(rate, 3_003)
    for turn in range(20):
        other = GuardedThresholds.from_dict(json.loads(json.dumps(threshold.to_dict())))
        # A change in the middle, so that the guard opens too.
        for cost in costs(211, seed=turn, offset=40.0 if 5 < turn < 9 else 5.0):
            score = cost + 50.0 if draw.random() < 0.02 else cost
            assert other.step((score,)) == threshold.step((score,))
            assert other.values[0] == threshold.values[0]
        assert other.to_dict() == threshold.to_dict()


def test_kinds_know_nothing_of_each_other():
    both = GuardedThresholds(1e-2, kinds=2)
    low, high = GuardedThresholds(1e-2), GuardedThresholds(1e-2)
    pairs = list(zip(costs(9_000, seed=5), costs(9_000, seed=6, offset=20.0), strict=True))
    both.seed(pairs[:3_000])
    low.seed(singly([pair[0] for pair in pairs[:3_000]]))
    high.seed(singly([pair[1] for pair in pairs[:3_000]]))
    for pair in pairs[3_000:]:
        apart = low.step(pair[:1]), high.step(pair[1:])
        assert both.step(pair) == any(apart)
        assert both.values == (*low.values, *high.values)


def test_another_floor_may_be_asked_for():
    threshold = GuardedThresholds(1e-3, least=0.0)
    threshold.seed(singly([0.5] * 4_000))
    assert threshold.values[0] == 0.5
    assert GuardedThresholds.from_dict(threshold.to_dict()).values == threshold.values


def test_each_kind_has_a_least_threshold_of_its_own():
    thresholds = GuardedThresholds(0.01, 3, least=(7.0, 0.5, 2.0))
    thresholds.seed([(0.1, 0.1, 3.0)] * 2_000)
    assert thresholds.values == (7.0, 0.5, 3.0)
    other = GuardedThresholds.from_dict(json.loads(json.dumps(thresholds.to_dict())))
    assert other.values == thresholds.values
    assert other.to_dict() == thresholds.to_dict()
