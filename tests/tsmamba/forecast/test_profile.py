"""Seasonal profiles of the series."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster
from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore
from tsmamba.forecast import fitting
from tsmamba.forecast import profile as module
from tsmamba.forecast.base import Context
from tsmamba.forecast.profile import fit_profile

HORIZON = 24
CONTEXT = Context(length=48, recent=48, level=48)
WEEK = np.repeat([0.0, 3.0], [120, 48])


def hours(n, start=datetime(2022, 1, 1)):
    end = start.replace(year=start.year + 5)
    return pl.datetime_range(start, end, "1h", eager=True).head(n)


def weekly(n=168 * 16, seed=0, key="a", start=datetime(2022, 1, 1), shift=0):
    """A series with a week that is longer than the context."""
    y = np.resize(np.roll(WEEK, shift), n) + np.random.default_rng(seed).normal(size=n)
    return pl.DataFrame({"unique_id": [key] * n, "ds": hours(n, start), "y": y})


def fit(frame, season=24, held_out=0, horizon=HORIZON, context=CONTEXT, panel=None):
    panel = panel or read_panel(frame)
    windows = WindowStore(panel, season).windows(context.recent, horizon)
    return panel, *fit_profile(panel, windows, context, horizon, season, held_out)


def forecaster(**settings):
    return MambaForecaster(HORIZON, mode="base", context_length=48, **settings)


@pytest.fixture(scope="module")
def frame():
    return pl.concat([weekly(), weekly(168 * 12, 1, "b", datetime(2022, 1, 4), shift=30)])


@pytest.fixture(scope="module")
def found(frame):
    return fit(frame)


# What it is for


def test_a_week_beyond_the_context_is_found(frame, found):
    panel, profile, said = found
    assert said.startswith("used: season of 168 steps, squared error of the base 0.")
    rest = profile.removed(panel)
    assert rest.values.var() < 0.5 * panel.values.var()


def test_it_makes_better_forecasts(frame, monkeypatch):
    ahead = pl.int_range(pl.len(), 0, -1).over("unique_id")
    train, test = frame.filter(ahead > 336), frame.filter(ahead <= 336)
    fitted = forecaster().fit(train)
    assert fitted.report_["profile"].startswith("used")
    monkeypatch.setattr(fitting, "fit_profile", lambda *given: (None, "not used"))
    plain = forecaster().fit(train)
    assert fitted.score(test, metric="mse") > 0.7 * plain.score(test, metric="mse")


def test_the_year_is_found():
    days = pl.datetime_range(datetime(2018, 1, 1), datetime(2022, 12, 31), "1d", eager=True)
    year = np.sin(2 * np.pi * np.arange(len(days)) / 365.25)
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"ds": days, "y": 3 * year + rng.normal(size=len(days))})
    context = Context(length=28, recent=28, level=28)
    panel, profile, said = fit(frame, 7, horizon=60, context=context)
    assert "year" in said
    rest = profile.removed(panel)
    assert rest.values.var() < 0.35 * panel.values.var()


def test_a_week_of_every_block_of_time_is_none():
    rng = np.random.default_rng(0)
    weeks = [np.tile(rng.normal(size=168), 4) for _ in range(4)]  # four weeks a block
    y = np.concatenate(weeks) + 0.5 * rng.normal(size=168 * 16)
    _, profile, said = fit(pl.DataFrame({"ds": hours(168 * 16), "y": y}))
    assert profile is None
    assert said == "not used: none lowers the error of the base on blocks left out"


def test_noise_has_none():
    y = np.random.default_rng(0).normal(size=168 * 16)
    assert fit(pl.DataFrame({"ds": hours(168 * 16), "y": y}))[1] is None


def test_few_seasons_are_too_few():
    _, profile, said = fit(weekly(24 * 7))
    assert profile is None
    assert said == "not used: too few seasons to judge one by"


def test_uneven_time_has_none():
    frame = weekly(1_000)
    panel = read_panel(frame, freq="uneven")
    assert fit(frame, panel=panel)[2] == "not used: uneven time has no phases"


def test_integer_stamps_have_seasons_too():
    frame = weekly().with_columns(ds=pl.int_range(pl.len()) * 2)
    assert "season of 168 steps" in fit(frame)[2]


def test_tables_are_bounded(frame, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 300)
    assert "168" not in fit(frame)[2]


# Laws


def test_what_is_taken_off_is_what_is_added(frame, found):
    panel, profile, _ = found
    series = torch.arange(2)
    steps = torch.arange(500).expand(2, -1)
    at = profile.at(panel, series, steps).numpy()
    taken = panel.values - profile.removed(panel).values
    for number in range(2):
        begin = panel.offsets[number]
        np.testing.assert_allclose(at[number], taken[begin : begin + 500], atol=1e-5)


def test_phases_are_those_of_the_clock(frame, found):
    panel, profile, _ = found
    late = read_panel(frame.group_by("unique_id").tail(300), scaling=panel)
    late_taken = late.values - profile.removed(late).values
    taken = panel.values - profile.removed(panel).values
    for number, end in enumerate(panel.offsets[1:]):
        place = late.ids.to_list().index(panel.ids[number])
        mine = late_taken[late.offsets[place] : late.offsets[place + 1]]
        np.testing.assert_allclose(mine, taken[end - 300 : end], atol=1e-5)


def test_missing_values_stay_missing_and_teach_nothing(frame, found):
    gap = frame.with_columns(
        y=pl.when(pl.int_range(pl.len()) % 97 == 5).then(None).otherwise(pl.col("y"))
    )
    panel, profile, _ = fit(gap)
    assert np.isnan(profile.removed(panel).values).sum() == np.isnan(panel.values).sum() > 0
    assert (profile.tables - found[1].tables).abs().mean() < 0.1


def test_rows_without_weight_teach_nothing(frame):
    panel = read_panel(frame)
    late = panel.offsets[1] - 200 <= np.arange(len(panel.values))
    weights = (~late | (np.arange(len(panel.values)) >= panel.offsets[1])).astype(np.float32)
    changed = np.where(weights == 0, 7.0, panel.values).astype(np.float32)
    one, other = replace(panel, weights=weights), replace(panel, values=changed, weights=weights)
    sums = [module._Sums(each, 0).whole(module._Shape(168, 0)).tables for each in (one, other)]
    torch.testing.assert_close(*sums)


def test_rows_held_out_teach_nothing(frame):
    panel = read_panel(frame)
    changed = panel.values.copy()
    for end in panel.offsets[1:]:
        changed[end - 100 : end] = 9.0
    shape = module._Shape(168, 0)
    kept = module._Sums(panel, 100).whole(shape).tables
    torch.testing.assert_close(
        kept, module._Sums(replace(panel, values=changed), 100).whole(shape).tables
    )
    other = module._Sums(replace(panel, values=changed), 99).whole(shape).tables
    assert (kept - other).abs().max() > 0.1


def test_a_profile_without_a_block_has_not_seen_it(frame):
    panel = read_panel(frame)
    steps = np.arange(len(panel.values)) - np.repeat(panel.offsets[:-1], panel.lengths)
    block = steps * 4 // np.repeat(panel.lengths, panel.lengths)
    changed = np.where(block == 2, 5.0, panel.values).astype(np.float32)
    shape = module._Shape(24, 0)
    one = module._Sums(panel, 0).without_blocks(shape)
    other = module._Sums(replace(panel, values=changed), 0).without_blocks(shape)
    torch.testing.assert_close(one[2].tables, other[2].tables)
    assert (one[1].tables - other[1].tables).abs().max() > 0.05


def test_series_that_were_not_fitted_have_none(frame, found):
    _, profile, _ = found
    new = replace(read_panel(frame), numbers=np.array([1, -1]))
    at = profile.at(new, torch.arange(2), torch.arange(200).expand(2, -1))
    assert at[0].std() > 0
    assert (at[1] == 0).all()
    turned = profile.renumbered(torch.tensor([1, -1, 0]))
    torch.testing.assert_close(turned.tables[[0, 2]], profile.tables[[1, 0]])
    assert (turned.tables[1] == 0).all()


def test_the_order_of_series_does_not_matter(frame, found):
    turned = pl.concat([frame.filter(unique_id="b"), frame.filter(unique_id="a")])
    renamed = turned.with_columns(pl.col("unique_id").replace({"a": "z"}))
    _, profile, _ = fit(renamed)
    torch.testing.assert_close(profile.tables, found[1].tables[[1, 0]], atol=1e-4, rtol=0)


# In a forecaster


@pytest.fixture(scope="module")
def fitted(frame):
    return forecaster().fit(frame)


def test_a_saved_forecaster_has_it(fitted, frame, tmp_path):
    fitted.save(tmp_path / "model")
    again = MambaForecaster.load(tmp_path / "model")
    assert_frame_equal(again.predict(), fitted.predict(), check_exact=True)


def test_a_later_history_has_the_same_phases(fitted, frame):
    short = frame.group_by("unique_id", maintain_order=True).tail(60)
    assert_frame_equal(fitted.predict(short), fitted.predict(), abs_tol=1e-3)


def test_the_time_zone_does_not_matter(frame, fitted):
    zoned = frame.with_columns(pl.col("ds").dt.replace_time_zone("UTC"))
    out = forecaster().fit(zoned).predict()
    np.testing.assert_allclose(
        out["MambaForecaster"], fitted.predict()["MambaForecaster"], atol=1e-4
    )


def test_longer_forecasts_follow_it(fitted, frame):
    out = fitted.predict(horizon=168)
    one = out.filter(unique_id="a")["MambaForecaster"].to_numpy()
    n = frame.filter(unique_id="a").height
    true = np.resize(WEEK, n + 168)[n:]
    assert np.corrcoef(one, true)[0, 1] > 0.9


def test_new_series_are_forecast_by_the_base_without_one(frame, fitted, monkeypatch):
    monkeypatch.setattr(fitting, "fit_profile", lambda *given: (None, "not used"))
    plain = forecaster().fit(frame)
    new = weekly(400, seed=7, key="new")
    assert_frame_equal(
        fitted.predict(new).drop("MambaForecaster-lo-90", "MambaForecaster-hi-90"),
        plain.predict(new).drop("MambaForecaster-lo-90", "MambaForecaster-hi-90"),
        abs_tol=1e-4,
    )


def test_it_stays_when_newer_rows_are_learned_from(frame):
    ahead = pl.int_range(pl.len(), 0, -1).over("unique_id")
    later = forecaster().fit(frame.filter(ahead > 200))
    before = later._fitted.model.profile
    new = weekly(key="new", seed=5)
    later.partial_fit(pl.concat([frame.filter(ahead <= 200), new]))
    after = later._fitted.model.profile
    torch.testing.assert_close(after.tables[:2], before.tables)
    alone = module._Sums(read_panel(new), 0).whole(module._Shape(168, 0))
    torch.testing.assert_close(after.tables[2], alone.tables[0], atol=1e-3, rtol=0)
