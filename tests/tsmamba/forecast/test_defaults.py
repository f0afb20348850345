from datetime import date, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from tsmamba.data.panel import read_panel
from tsmamba.errors import ParameterError, SeriesTooShortError
from tsmamba.forecast.defaults import MAX_CONTEXT, check_parameters, choose_season, plan


def panel_at(every, length=60):
    if every.endswith(("mo", "q", "y")):
        ds = pl.date_range(date(1900, 1, 1), date(2200, 1, 1), every, eager=True)
    else:
        start = datetime(2024, 1, 1)
        ds = pl.datetime_range(start, start + timedelta(days=500), every, eager=True)
    return read_panel(pl.DataFrame({"ds": ds.head(length)}).with_columns(y=pl.int_range(pl.len())))


def plan_of(panel, **kwargs):
    given = dict.fromkeys(("horizon", "context_length", "season_length", "patch_length"))
    return plan(panel, **given | kwargs)


# The season


@pytest.mark.parametrize(
    ("every", "season"),
    [
        ("1s", 60),
        ("10s", 360),
        ("1m", 60),
        ("5m", 288),
        ("10m", 144),
        ("15m", 96),
        ("30m", 48),
        ("1h", 24),
        ("2h", 12),
        ("12h", 2),
        ("7m", 1),
        ("1d", 7),
        ("1w", 52),
        ("1mo", 12),
        ("1q", 4),
        ("1y", 1),
    ],
)
def test_the_calendar_decides_the_season(every, season):
    assert choose_season(panel_at(every)) == season


@pytest.mark.parametrize("season", [5, 24, 96])
@pytest.mark.parametrize("trend", [0.0, 0.05])
def test_integer_stamps_are_judged_by_their_autocorrelation(make_panel, season, trend):
    rng = np.random.default_rng(0)
    t = np.arange(20 * season)
    y = np.sin(2 * np.pi * t / season) + trend * t + 0.01 * rng.normal(size=t.size)
    assert choose_season(make_panel(y)) == season


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=800),
        np.random.default_rng(0).normal(size=800).cumsum(),
        np.ones(100),
        np.arange(100.0),
        [1.0],
        [1.0, 2.0],
        [1.0, np.nan, 2.0, np.nan, 3.0],
    ],
    ids=["noise", "walk", "constant", "line", "one", "two", "gaps"],
)
def test_without_a_season_it_is_one(make_panel, values):
    assert choose_season(make_panel(values)) == 1


# The sizes


def reach(context):
    """Steps back that the base sees."""
    return context.recent + sum(width * count for width, count in context.stretches)


@pytest.mark.parametrize(
    ("every", "length", "horizon"),
    [("1h", 500, 24), ("15m", 1000, 96), ("1h", 60, 15), ("1y", 200, 24), ("1d", 8, 2)],
)
def test_the_horizon_is_a_season_or_a_quarter_of_a_short_series(every, length, horizon):
    assert plan_of(panel_at(every, length)).horizon == horizon


@pytest.mark.parametrize("length", [30, 100, 1_000, 10_000, 100_000])
def test_the_context_fits_the_series_and_leaves_windows_to_train_on(make_panel, length):
    panel = make_panel(np.arange(length) % 24)
    sizes = plan_of(panel, horizon=12)
    context = sizes.context
    assert 1 <= context.recent <= context.level <= context.length <= min(length, MAX_CONTEXT)
    assert reach(context) <= context.length
    assert length - context.recent - 12 + 1 >= length // 3 - 12


def test_what_the_user_asks_for_is_used(make_panel):
    panel = make_panel(np.arange(3000) % 24)
    sizes = plan_of(panel, horizon=7, context_length=100, season_length=9, patch_length=5)
    assert (sizes.horizon, sizes.context.length, sizes.season, sizes.patch) == (7, 100, 9, 5)


@pytest.mark.parametrize("length", [100, 1_000, 8_192, 500_000])
def test_the_far_past_is_summarised_by_ever_wider_stretches(make_panel, length):
    panel = make_panel(np.arange(3000) % 24)
    context = plan_of(panel, horizon=24, context_length=length).context
    widths = [width for width, _ in context.stretches]
    assert all(2 * near == far for near, far in pairwise(widths))
    assert all(count > 0 for _, count in context.stretches)
    # Nothing is left over that would hold another stretch.
    assert length - reach(context) < (2 * widths[-1] if widths else 4)


def test_inputs_grow_with_the_logarithm_of_the_context(make_panel):
    panel = make_panel(np.arange(3000) % 24)
    inputs = [
        plan_of(panel, horizon=24, context_length=length).context.n_features
        for length in (1_000, 2_000, 4_000, 8_000, 16_000)
    ]
    assert np.ptp(np.diff(inputs)) <= 2


def test_a_context_that_was_not_asked_for_is_capped(make_panel):
    panel = make_panel(np.arange(60_000) % 24)
    assert plan_of(panel).context.length > 1_000
    assert plan_of(panel, most_context=1_000).context.length == 1_000
    assert plan_of(panel, most_context=1_000, context_length=3_000).context.length == 3_000
    assert plan_of(panel, most_context=50_000).context == plan_of(panel).context


@pytest.mark.parametrize(
    ("season", "patch"), [(24, 48), (5, 45), (7, 42), (96, 48), (288, 48), (101, 48), (1, 48)]
)
def test_patches_are_seasons_or_parts_of_one(make_panel, season, patch):
    panel = make_panel(np.arange(3000) % 24)
    assert plan_of(panel, season_length=season).patch == patch


@pytest.mark.parametrize("season", [24, 96, 7])
def test_a_stride_over_windows_sees_every_phase(make_panel, season):
    panel = make_panel(np.arange(200_000) % 24)
    sizes = plan_of(panel, season_length=season, horizon=24)
    assert sizes.stride > 1
    assert np.gcd(sizes.stride, season) == 1


@pytest.mark.parametrize("length", [1, 5, 13])
def test_a_series_too_short_for_the_horizon_is_refused(make_panel, length):
    with pytest.raises(SeriesTooShortError) as error:
        plan_of(make_panel(np.arange(length) * 1.0), horizon=10)
    assert str(error.value) == (
        f"series 's0', the longest, has {length} steps, too few to learn a forecast of 10: "
        f"at least horizon + 4 = 14 are needed; give longer history or ask for "
        f"horizon={max(1, length - 4)} or less"
    )


def test_the_shortest_usable_series_is_used(make_panel):
    assert plan_of(make_panel(np.arange(14.0)), horizon=10).horizon == 10
    assert plan_of(make_panel(np.arange(5.0))).horizon == 1


# The check of whole numbers


@pytest.mark.parametrize("value", [None, 1, 5, np.int64(3)])
def test_whole_numbers_pass(value):
    check_parameters(horizon=value)


@pytest.mark.parametrize("value", [0, -3, 1.5, 2.0, True, "a", np.nan, [3]])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ParameterError) as error:
        check_parameters(horizon=value)
    assert str(error.value) == f"horizon={value!r}; pass a whole number of at least 1"
