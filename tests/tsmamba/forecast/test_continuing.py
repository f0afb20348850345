"""`partial_fit`: newer rows teach the present model, as far as they can."""

from copy import deepcopy
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster, Training
from tsmamba.errors import FrameError, ParameterError

POINT = "MambaForecaster"
KEYS = ["unique_id", "ds"]
MODES = ["base", "fast", "small"]
KINDS = {
    "pandas": lambda frame: pd.DataFrame(frame.to_dict(as_series=False)),
    "pyarrow": pl.DataFrame.to_arrow,
    "lazy": pl.DataFrame.lazy,
}


@pytest.fixture(scope="module", params=MODES)
def make(request):
    """Return a function that makes a forecaster, one kind after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def early(seasonal):
    """The first 700 hours of each series."""
    return seasonal.filter(pl.int_range(pl.len()).over("unique_id") < 700)


@pytest.fixture(scope="module")
def late(seasonal):
    """The next 600 hours."""
    rank = pl.int_range(pl.len()).over("unique_id")
    return seasonal.filter(rank.is_between(700, 1_299))


@pytest.fixture(scope="module")
def once(make, early):
    return make().fit(early)


@pytest.fixture
def fitted(once):
    return deepcopy(once)


@pytest.fixture(scope="module")
def linear_once(base, early):
    return base().fit(early)


@pytest.fixture
def linear(linear_once):
    return deepcopy(linear_once)


def broken_rhythm(length, changed_at, seed=0):
    """A season that turns into another, with noise."""
    t = np.arange(length)
    season = np.where(t < changed_at, np.sin(2 * np.pi * t / 24), np.sin(2 * np.pi * t / 11))
    return pl.DataFrame(
        {"ds": t, "y": 3 * season + 0.5 * np.random.default_rng(seed).normal(size=length)}
    )


def without_times(report):
    measured = ("second", "memory")
    return {name: x for name, x in report.items() if not any(part in name for part in measured)}


def state_of(forecaster):
    """All that a refused call must leave."""
    model = forecaster._fitted.model
    return {
        "weights": model.weights.tolist(),
        "gate": model.gate.tolist(),
        "residuals": model.residuals.quantiles.tolist(),
        "history": forecaster._fitted.history.rows(),
        "scaling": forecaster._fitted.scaling.loc.tolist(),
        "report": forecaster.report_,
    }


# What it is to the other methods


def test_without_a_fit_it_is_fit(make, fitted, early):
    first = make().partial_fit(early)
    assert_frame_equal(first.predict(), fitted.predict(), check_exact=True)
    assert without_times(first.report_) == without_times(fitted.report_)


@pytest.mark.parametrize("steps", [1, 23])
def test_rows_of_less_than_a_horizon_change_no_weights(fitted, late, steps):
    rows = late.filter(pl.int_range(pl.len()).over("unique_id") < steps)
    updated, model = deepcopy(fitted).update(rows), fitted._fitted.model
    assert fitted.partial_fit(rows) is fitted
    assert fitted._fitted.model is model
    assert_frame_equal(fitted.predict(), updated.predict(), check_exact=True)
    reason = "as before: the rows hold no window of 24 steps"
    assert fitted.report_ == {
        "training_windows": 0,
        "corrector": reason,
        "intervals": reason,
    }


def test_the_next_forecast_starts_after_the_rows(fitted, late):
    out = fitted.partial_fit(late).predict()
    first = out.group_by("unique_id", maintain_order=True).first()
    last = late.group_by("unique_id", maintain_order=True).last()
    assert (first["ds"] - last["ds"]).unique().to_list() == [timedelta(hours=1)]


def test_rows_of_an_update_can_be_learned_from_later(linear, late):
    """As far as the kept rows are the same: as many as hold the history of the first windows."""
    rows = late.filter(pl.int_range(pl.len()).over("unique_id") < 190)
    one, other = deepcopy(linear).update(rows).partial_fit(rows), linear.partial_fit(rows)
    torch.testing.assert_close(one._fitted.model.weights, other._fitted.model.weights)
    assert_frame_equal(one.predict(), other.predict(), check_exact=True)


def test_a_loaded_forecaster_learns_the_same(make, shop, tmp_path):
    rank = pl.int_range(pl.len()).over("unique_id")
    roles = {
        "future_covariates": ["heat", "sky"],
        "past_covariates": ["flow"],
        "static_covariates": ["site"],
    }
    rows = shop.filter(rank.is_between(600, 775))
    ahead = shop.filter(rank >= 776)
    fitted = make(**roles).fit(shop.filter(rank < 600))
    fitted.save(tmp_path / "m.tsm")
    loaded = MambaForecaster.load(tmp_path / "m.tsm")
    outs = [x.partial_fit(rows).predict(future=ahead) for x in (fitted, loaded)]
    assert_frame_equal(*outs, check_exact=True)
    assert without_times(fitted.report_) == without_times(loaded.report_)


# What it learns


def test_rows_like_the_fitted_ones_change_little(fitted, late, seasonal):
    updated, learned = deepcopy(fitted).update(late), fitted.partial_fit(late)
    gap = (updated.predict()[POINT] - learned.predict()[POINT]).abs().mean()
    assert 0 < gap < 0.1 * late["y"].std()
    rank = pl.int_range(pl.len()).over("unique_id")
    rest = seasonal.filter(rank.is_between(1_300, 1_799))
    assert learned.score(rest) > 1.02 * updated.score(rest)


@pytest.mark.parametrize("mode", ["base", "fast"])
def test_after_a_change_it_beats_an_update(request, mode):
    make = request.getfixturevalue(mode)
    frame = broken_rhythm(2_000, changed_at=1_200)
    old, rows, rest = frame.head(1_200), frame.slice(1_200, 600), frame.tail(200)
    fitted = make().fit(old)
    updated, learned = deepcopy(fitted).update(rows), fitted.partial_fit(rows)
    assert learned.score(rest, metric="mae") > 0.5 * updated.score(rest, metric="mae")
    assert learned.report_["training_windows"] == 600 - 24 + 1
    assert learned.report_["drawn_to"] == "present weights"


def test_few_rows_after_a_change_move_it_little(base):
    frame = broken_rhythm(2_000, changed_at=1_200)
    forecaster, moved = base().fit(frame.head(1_200)), []
    before = forecaster._fitted.model.weights
    for steps in (24, 48, 600):
        learned = deepcopy(forecaster).partial_fit(frame.slice(1_200, steps))
        moved.append(float((learned._fitted.model.weights - before).norm() / before.norm()))
    assert 0 < max(moved[:2]) < 0.02
    assert moved[2] > 0.5


def test_series_without_rows_teach_nothing(linear, early, late):
    rows = late.filter(unique_id=late["unique_id"][0])
    expected = deepcopy(linear).partial_fit(rows)._fitted.model.weights
    others = early.filter(unique_id=early["unique_id"][-1]).tail(100)
    linear.update(others.with_columns(y=1e3 * pl.col("y"))).partial_fit(rows)
    torch.testing.assert_close(linear._fitted.model.weights, expected)


def test_the_order_of_rows_and_series_is_irrelevant(fitted, late):
    turned = late.sort("unique_id", "ds", descending=[True, False])
    assert turned["unique_id"][0] != late["unique_id"][0]
    other = deepcopy(fitted).partial_fit(turned).predict()
    assert_frame_equal(fitted.partial_fit(late).predict(), other, check_exact=True)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_may_be_of_another_kind(linear, late, kind):
    other = deepcopy(linear).partial_fit(KINDS[kind](late)).predict()
    assert_frame_equal(other, linear.partial_fit(late).predict(), check_exact=True)


def test_a_wide_frame_learns_what_its_columns_learn_as_series(base, hourly):
    wide = hourly.with_columns(z=10 - 3 * pl.col("y"))
    long = pl.concat(
        wide.select("ds", unique_id=pl.lit(name), y=name).select(*KEYS, "y") for name in ("y", "z")
    )
    rank = pl.int_range(pl.len()).over("unique_id")
    one = base(target_col=["y", "z"]).fit(wide.head(250)).partial_fit(wide.tail(150))
    other = base().fit(long.filter(rank < 250)).partial_fit(long.filter(rank >= 250))
    torch.testing.assert_close(one._fitted.model.weights, other._fitted.model.weights)
    out = one.predict().rename({"target": "unique_id"})
    assert_frame_equal(out.select(other.predict().columns), other.predict(), check_exact=True)


def test_new_series_teach_and_get_a_scale_of_their_own_that_stays(linear, early, late):
    key = early["unique_id"][0]
    new = early.filter(unique_id=key).select(
        pl.lit("new").alias("unique_id"), "ds", y=50 * pl.col("y")
    )
    forecaster = linear.partial_fit(new)
    assert forecaster.predict()["unique_id"].n_unique() == 3
    scaling = forecaster._fitted.scaling
    assert scaling.ids.to_list()[-1] == "new"
    assert scaling.loc[-1] == pytest.approx(new["y"].mean())
    following = late.filter(unique_id=key).with_columns(unique_id=pl.lit("new"))
    following = following.with_columns(y=50 * pl.col("y"))
    assert -1 < forecaster.score(following.head(200)) < 0
    forecaster.partial_fit(following)
    assert forecaster._fitted.scaling.loc.tolist() == scaling.loc.tolist()


# Covariates and weights


def test_effects_of_covariates_stay(base, shop):
    rank = pl.int_range(pl.len()).over("unique_id")
    forecaster = base(future_covariates=["heat", "sky"]).fit(shop.filter(rank < 500))
    assert forecaster.report_["effects"].startswith("used")
    effects = forecaster._fitted.model.effects
    forecaster.partial_fit(shop.filter(rank.is_between(500, 775)))
    assert forecaster._fitted.model.effects is effects
    ahead = shop.filter(rank.is_between(776, 799))
    both = forecaster.predict(future=ahead).join(ahead, on=KEYS)
    assert (both[POINT] - both["y"]).abs().mean() < 0.4 * shop["y"].std()


def test_rows_without_weight_teach_nothing(base):
    frame = broken_rhythm(1_800, changed_at=1_200).with_columns(w=pl.lit(1.0))
    forecaster = base(weight_col="w").fit(frame.head(1_200))
    before = forecaster._fitted.model.weights
    # Some step must have one: the last day does, which is too little to learn from.
    rows = frame.tail(600).with_columns(w=(pl.col("ds") >= 1_776).cast(pl.Float64))
    after = forecaster.partial_fit(rows)._fitted.model.weights
    assert (after - before).norm() < 0.02 * before.norm()
    assert forecaster.predict()["ds"][0] == 1_800


@pytest.mark.parametrize("weight", [1.0, 7.5])
def test_equal_weights_change_nothing(base, weight):
    frame = broken_rhythm(1_800, changed_at=1_200)
    old, rows = frame.head(1_200), frame.tail(600)
    plain = base().fit(old).partial_fit(rows).predict()
    forecaster = base(weight_col="w").fit(old.with_columns(w=pl.lit(1.0)))
    out = forecaster.partial_fit(rows.with_columns(w=pl.lit(weight))).predict()
    assert_frame_equal(out, plain, abs_tol=1e-3)


# The corrector


@pytest.mark.usefixtures("any_training")
def test_training_goes_on_from_the_present_weights(small, shop):
    rank = pl.int_range(pl.len()).over("unique_id")
    forecaster = small(6, past_covariates=["flow"]).fit(shop.filter(rank < 600))
    corrector = forecaster._fitted.model.corrector
    torch.nn.init.normal_(corrector.embed_context.weight)
    before = {name: x.clone() for name, x in corrector.state_dict().items()}
    longer = shop.filter(rank >= 200).with_columns(pl.col("ds").dt.offset_by("400h"))
    forecaster.set_params(training=Training(max_steps=0)).partial_fit(longer)
    after = forecaster._fitted.model.corrector
    assert after is not corrector
    moved = {name for name, x in after.state_dict().items() if not torch.equal(x, before[name])}
    assert moved == {"head.weight"}  # which the fixture shakes
    assert all(torch.equal(before[name], x) for name, x in corrector.state_dict().items())


@pytest.mark.usefixtures("any_training")
@pytest.mark.parametrize("mode", ["fast", "small"])
def test_few_rows_leave_corrector_gate_and_intervals(request, early, late, mode):
    rows = late.filter(pl.int_range(pl.len()).over("unique_id") < 100)
    forecaster = request.getfixturevalue(mode)(6).fit(early)
    before = forecaster._fitted.model
    after = forecaster.partial_fit(rows)._fitted.model
    assert after.corrector is before.corrector is not None
    assert after.gate is before.gate
    assert after.residuals is before.residuals
    assert not torch.equal(after.weights, before.weights)
    assert forecaster.report_["corrector"] == (
        "as before: the longest series has 100 steps, fewer than 512"
    )
    assert forecaster.report_["intervals"] == "as before: 190 windows of 400 needed"


@pytest.mark.usefixtures("any_corrector")
def test_enough_rows_judge_gate_and_intervals_anew(fast, early, late, monkeypatch):
    forecaster = fast().fit(early)
    before = forecaster._fitted.model
    half = 0.5 * torch.ones(24)
    monkeypatch.setattr(
        "tsmamba.forecast.correction.Correction.gate", lambda *_, **__: (half, 1.0, 0.5)
    )
    forecaster.partial_fit(late)
    after = forecaster._fitted.model
    assert after.corrector is before.corrector
    assert torch.equal(after.gate, half)
    assert forecaster.report_["corrector"] == "used"
    assert not torch.equal(after.residuals.quantiles, before.residuals.quantiles)
    assert "intervals" not in forecaster.report_


def test_intervals_grow_with_the_noise_of_the_rows(base):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=2_000) * np.where(np.arange(2_000) < 1_200, 0.1, 1.0)
    frame = pl.DataFrame({"ds": range(2_000), "y": np.sin(np.arange(2_000) / 4) + noise})
    forecaster = base().fit(frame.head(1_200))
    forecaster.partial_fit(frame.slice(1_200, 600))
    out = forecaster.predict()
    inside = frame.tail(200).head(24)["y"].is_between(out[f"{POINT}-lo-90"], out[f"{POINT}-hi-90"])
    assert inside.mean() > 0.7


# Refusals


REFUSED = {
    "no target": (lambda rows: rows.drop("y"), "no column 'y', which the model was fitted with"),
    "no ids": (lambda rows: rows.drop("unique_id"), "column 'unique_id'"),
    "no covariate": (lambda rows: rows.drop("heat"), "no column 'heat'"),
    "no weights": (lambda rows: rows.drop("w"), "no weight column 'w'"),
    "negative weights": (lambda rows: rows.with_columns(w=-pl.col("w")), "'w'"),
    "infinite": (lambda rows: rows.with_columns(y=pl.lit(np.inf)), "is infinite"),
    "between the steps": (
        lambda rows: rows.with_columns(pl.col("ds").dt.offset_by("7m")),
        "no whole number of steps of '1h'",
    ),
    "no frame": (lambda rows: rows["y"].to_list(), "got list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_rows_change_nothing(base, shop, case):
    change, message = REFUSED[case]
    rank = pl.int_range(pl.len()).over("unique_id")
    frame = shop.with_columns(w=pl.lit(1.0))
    forecaster = base(future_covariates=["heat"], weight_col="w").fit(frame.filter(rank < 500))
    before = state_of(forecaster)
    with pytest.raises(FrameError, match=message):
        forecaster.partial_fit(change(frame.filter(rank >= 500)))
    assert state_of(forecaster) == before


def test_parameters_that_make_no_sense_change_nothing(linear, late):
    before = state_of(linear)
    with pytest.raises(ParameterError, match="mode='slow'"):
        linear.set_params(mode="slow").partial_fit(late)
    assert state_of(linear) == before


@pytest.fixture(scope="module")
def unlike_series():
    """Walks and noise, which no shared map can forecast."""
    rng = np.random.default_rng(0)
    every = [*rng.normal(size=(3, 900)).cumsum(1), *rng.normal(size=(3, 900))]
    return pl.concat(
        pl.DataFrame({"unique_id": name, "ds": np.arange(900), "y": y})
        for name, y in zip("abcdef", every, strict=True)
    )


def test_own_maps_stay_with_their_series_until_better_ones_are_fitted(unlike_series):
    forecaster = MambaForecaster(6, mode="base", context_length=24, season_length=1)
    forecaster.fit(unlike_series.filter(pl.col("ds") < 880))
    before = forecaster._fitted.model.local
    assert before is not None
    newer = unlike_series.filter(pl.col("ds") >= 880)
    stranger = newer.filter(pl.col("unique_id") == "a").with_columns(unique_id=pl.lit("new"))
    forecaster.partial_fit(pl.concat([stranger, newer]))
    after = forecaster._fitted.model.local
    assert after.maps.shape[1] == 7
    np.testing.assert_array_equal(after.maps[:, :6], before.maps)
    assert (after.shares[:, 6, 0] == 1).all()


def test_rows_of_one_series_leave_the_own_maps_of_others(unlike_series):
    forecaster = MambaForecaster(6, mode="base", context_length=24, season_length=1)
    forecaster.fit(unlike_series.filter(pl.col("ds") < 700))
    before = forecaster._fitted.model.local
    forecaster.partial_fit(unlike_series.filter((pl.col("ds") >= 700), unique_id="a"))
    after = forecaster._fitted.model.local
    assert torch.equal(after.maps, before.maps)
    assert torch.equal(after.shares, before.shares)


def test_own_maps_that_err_are_given_up_where_every_series_brings_enough(unlike_series):
    forecaster = MambaForecaster(6, mode="base", context_length=24, season_length=1)
    kinds = {"a": "d", "b": "e", "c": "f", "d": "a", "e": "b", "f": "c"}
    turned = unlike_series.with_columns(pl.col("unique_id").replace(kinds))
    forecaster.fit(unlike_series.filter(pl.col("ds") < 500))
    before = forecaster._fitted.model.local
    forecaster.partial_fit(turned.filter(pl.col("ds") >= 500))
    after = forecaster._fitted.model.local
    assert after is None or not torch.equal(after.maps, before.maps)
