import numpy as np
import pytest

from tsmamba.anomaly.plan import DELAYS, Plan, plan_for


@pytest.mark.parametrize("n", [16, 50, 200, 3_000])
@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize("period", [None, 1, 30, 5_000])
def test_no_patch_is_wider_than_a_third_of_the_rows(make_waves, n, channels, period):
    plan = plan_for(make_waves(n, channels), period=period)
    assert 4 <= plan.patch <= n // 3
    assert 1 <= plan.order <= n // 4
    assert all(block.width <= plan.patch for block in (*plan.offline, *plan.streaming))
    assert len(set(plan.offline)) == len(plan.offline)
    assert len(set(plan.streaming)) == len(plan.streaming)


def test_a_known_period_is_taken_and_an_unknown_one_found(make_waves):
    assert plan_for(make_waves(2_000, 3), period=77).period == 77
    assert plan_for(make_waves(2_000, 3)).period % 16 == 0


def test_gaps_are_filled_from_a_period_before_where_a_series_repeats_itself(make_waves, rng):
    assert plan_for(make_waves(2_000, 3), period=16).repeat == 16
    assert plan_for(make_waves(2_000, 3), period=12).repeat == 0  # a quarter before is nearer
    assert plan_for(make_waves(2_000, 3), period=160).repeat == 0  # wider than a patch
    assert plan_for(np.cumsum(rng.normal(size=(2_000, 1)), axis=0), period=64).repeat == 0


def test_channels_that_never_change_do_not_count(make_waves):
    x = np.concatenate([make_waves(2_000), np.zeros((2_000, 3))], axis=1)
    assert plan_for(x).period == plan_for(x[:, :1]).period


@pytest.mark.parametrize(("delay", "share"), DELAYS.items())
def test_a_named_delay_is_part_of_the_width(make_waves, delay, share):
    plan = plan_for(make_waves(2_000), delay)
    assert plan.delay == int(plan.width * share)


@pytest.mark.parametrize("width", [1, 8, 16])
@pytest.mark.parametrize("delay", [0, 3, 8, 16, 50])
def test_a_span_looks_at_no_row_after_the_newest(width, delay):
    oldest, newest = Plan(period=16, width=16, order=4, delay=delay).span(width)
    assert oldest >= newest >= 0


@pytest.mark.parametrize("width", [1, 8, 16])
def test_with_delay_enough_patches_are_those_centred_on_the_row(width):
    plan = Plan(period=16, width=16, order=4, delay=60)
    oldest, newest = plan.span(width)
    ends = np.arange(60 - oldest, 60 - newest + 1)  # after the row that is scored
    centres = ends - (width - 1) / 2
    assert abs(centres.mean()) <= 1
    assert len(ends) >= plan.width


def test_without_delay_only_the_newest_patch_counts_but_residuals_are_averaged():
    plan = Plan(period=16, width=16, order=4)
    assert plan.span(4) == plan.span(16) == (0, 0)
    assert plan.span(1) == (2, 0)
