from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from tsmamba.data.covariates import Roles, extend_covariates, read_covariates
from tsmamba.data.panel import future_frame, read_panel
from tsmamba.data.windows import Windows
from tsmamba.forecast.effects import fit_effects
from tsmamba.forecast.source import Source

ROLES = Roles(future=("heat",), past=("flow",), static=("size",))
PATCH, HISTORY, AHEAD = 6, 3, 2
ORIGIN = 500


@pytest.fixture(scope="module")
def frame(shop):
    return shop.with_columns(size=pl.when(pl.col("unique_id") == "a").then(1.0).otherwise(3.0))


def source_of(frame, **kwargs):
    panel = read_panel(frame)
    covariates, _ = read_covariates(frame, panel, ROLES)
    return Source.of(panel, 24, covariates=covariates, **kwargs)


def context_of(source, origin=ORIGIN):
    windows = Windows(torch.tensor([origin]), torch.tensor([0]))
    return source.context(windows, HISTORY, AHEAD, PATCH)[0]


def test_a_token_knows_calendar_covariates_and_what_is_fixed(frame):
    source = source_of(frame)
    context = context_of(source)
    assert context.shape == (HISTORY + AHEAD, source.n_context)
    width = source.clock.width
    assert source.n_context == width + 3
    values = torch.from_numpy(source.covariates.values[ORIGIN - 18 : ORIGIN + 12])
    means = values.view(5, 6, 2).mean(1)
    torch.testing.assert_close(context[:, width], means[:, 0])
    torch.testing.assert_close(context[:HISTORY, width + 1], means[:HISTORY, 1])
    assert (context[HISTORY:, width + 1] == 0).all()
    assert (context[:, -1] == source.covariates.static[0, 0]).all()


def test_without_covariates_there_is_the_calendar_alone(frame):
    source = Source.of(read_panel(frame), 24)
    assert source.n_context == source.clock.width
    assert context_of(source).shape == (HISTORY + AHEAD, source.n_context)
    bare = Source.of(read_panel(frame), 24, cycles=())
    assert context_of(bare).shape == (HISTORY + AHEAD, 0)


@pytest.mark.parametrize(("name", "seen"), [("flow", False), ("heat", True)])
def test_only_what_is_known_ahead_is_seen_after_the_origin(frame, name, seen):
    source = source_of(frame)
    column = ["heat", "flow"].index(name)
    values = source.covariates.values.copy()
    values[ORIGIN : ORIGIN + PATCH, column] += 1
    changed = replace(source, covariates=replace(source.covariates, values=values))
    moved = (context_of(changed) - context_of(source)).abs().sum(1)
    assert moved.tolist() == pytest.approx([0, 0, 0, 1 if seen else 0, 0], abs=1e-5)


def test_effects_are_taken_off_and_given_back(frame):
    source = source_of(frame)
    effects = fit_effects(source.panel, source.covariates, 24)
    reduced = source.without(effects)
    assert source.effect is None
    assert source.taken_off_ahead(Windows(torch.tensor([ORIGIN]), torch.tensor([0])), 12) == 0.0
    windows = source.store.windows(100, 12).thinned(20)
    restored = reduced.store.future(windows, 12)[0] + reduced.taken_off_ahead(windows, 12)
    torch.testing.assert_close(restored, source.store.future(windows, 12)[0])
    assert reduced.store.values.var() < 0.8 * source.store.values.var()
    again = reduced.without(None)
    assert torch.equal(again.store.values, source.store.values)


def test_without_covariates_no_effects_are_taken_off(frame):
    source = source_of(frame)
    effects = fit_effects(source.panel, source.covariates, 24)
    plain = Source.of(source.panel, 24, effects=effects)
    assert torch.equal(plain.store.values, source.store.values)


def test_the_effect_of_a_step_is_that_of_steps_up_to_it(frame):
    known = frame.filter(pl.int_range(pl.len(), 0, -1).over("unique_id") > 24)
    panel = read_panel(known)
    covariates, encoding = read_covariates(known, panel, ROLES)
    effects = fit_effects(panel, covariates, 24)
    ahead = future_frame(panel, 24).join(frame, on=["unique_id", "ds"])
    step = pl.int_range(pl.len()).over("unique_id")
    changed = ahead.with_columns(heat=pl.when(step == 9).then(4.0).otherwise("heat"))
    one, two = (
        Source.of(
            panel,
            24,
            covariates=extend_covariates(covariates, panel, ROLES, encoding, rows, 24),
            effects=effects,
        )
        for rows in (ahead, changed)
    )
    windows = one.store.last()
    moved = (one.taken_off_ahead(windows, 24) - two.taken_off_ahead(windows, 24)).abs().numpy()
    assert (moved[:, :9] == 0).all()
    assert (moved[:, 9] > 0.1).all()
    np.testing.assert_array_equal(one.store.values, two.store.values)
