"""Intervals that follow a learned spread: what they gain, and what must not change them."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster, Network, Training
from tsmamba.forecast.correction import Correction

POINT = "MambaForecaster"
BANDS = [f"{POINT}-lo-90", f"{POINT}-hi-90"]
KEYS = ["unique_id", "ds"]
HORIZON = 12
LENGTH = 2_600


def noisy(key, seed):
    """Hours whose noise is ten times as large in the second half of the day."""
    rng = np.random.default_rng(seed)
    late = np.arange(LENGTH) % 24 >= 12
    hours = pl.datetime_range(datetime(2024, 1, 1), datetime(2025, 1, 1), "1h", eager=True)
    y = 10 + np.where(late, 2.0, 0.2) * rng.normal(size=LENGTH)
    return pl.DataFrame({"unique_id": [key] * LENGTH, "ds": hours.head(LENGTH), "y": y})


@pytest.fixture(scope="module")
def frame():
    return pl.concat([noisy("a", 0), noisy("b", 1)])


@pytest.fixture(scope="module")
def train(frame):
    return frame.filter(pl.int_range(pl.len()).over("unique_id") < LENGTH - 400)


@pytest.fixture(scope="module")
def make():
    """Return a function that makes a forecaster with a loss."""

    def of_loss(loss, **kwargs):
        training = Training(loss=loss, max_steps=200, lr=2e-2, eval_every=50)
        network = Network(patch_length=12, d_model=8, n_layers=1, d_state=4)
        return MambaForecaster(
            HORIZON, mode="full", preset="energy", context_length=48, random_state=0,
            network=network, training=training, **kwargs,
        )  # fmt: skip

    return of_loss


@pytest.fixture(scope="module")
def fitted(make, train):
    return make("student-t").fit(train)


def bounds(frame):
    return frame.select(BANDS).to_numpy().T


def judged(forecaster, frame):
    """Return coverage and interval score of the 90 % intervals on the last 400 steps."""
    out = forecaster.cross_validation(frame, n_windows=380, step_size=1, use_fitted=True)
    (low, high), y = bounds(out), out["y"].to_numpy()
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return np.mean(outside == 0), np.mean(high - low + 20 * outside)


def test_intervals_follow_a_spread_that_the_recent_scale_cannot_see(make, fitted, frame, train):
    plain = make("absolute").fit(train)
    assert fitted.report_["spread"].startswith("used: quantile loss ")
    assert "spread" not in plain.report_
    (plain_inside, plain_score), (inside, score) = judged(plain, frame), judged(fitted, frame)
    assert inside == pytest.approx(0.9, abs=0.04)
    assert plain_inside == pytest.approx(0.9, abs=0.04)
    assert score < 0.8 * plain_score


def test_intervals_are_wide_where_the_noise_is(fitted):
    out = fitted.predict()
    low, high = bounds(out)
    late = (out["ds"].dt.hour() >= 12).to_numpy()
    width = high - low
    assert width[late].mean() > 3 * width[~late].mean()


def test_a_spread_is_used_though_the_correction_is_not(make, train, monkeypatch):
    monkeypatch.setattr(Correction, "gate", lambda *_, **__: (torch.zeros(HORIZON), 1.0, 1.0))
    forecaster = make("student-t").fit(train)
    assert forecaster.report_["corrector"].startswith("not used: ")
    assert forecaster.report_["spread"].startswith("used: ")
    out, alone = (forecaster.predict(base_only=x) for x in (False, True))
    assert_frame_equal(out.drop(BANDS), alone.drop(BANDS), abs_tol=1e-4)
    assert np.ptp(np.diff(bounds(out), axis=0)) > 3 * np.ptp(np.diff(bounds(alone), axis=0))


def test_without_the_corrector_intervals_do_not_follow_its_spread(fitted, frame):
    low, high = bounds(fitted.predict(base_only=True))
    width = high - low
    assert width.max() < 2 * width.min()
    out = fitted.cross_validation(
        frame, n_windows=380, step_size=1, use_fitted=True, base_only=True
    )
    (low, high), y = bounds(out), out["y"].to_numpy()
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.04)


def test_quantiles_never_cross(fitted, frame):
    levels = (np.arange(1, 100, 7) / 100).tolist()
    out = fitted.cross_validation(frame, n_windows=30, use_fitted=True, quantiles=levels)
    quantiles = out.select(f"{POINT}_ql{q}" for q in levels).to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize(("a", "b"), [(3.0, -40.0), (0.01, 5.0)])
def test_bounds_scale_with_the_values(fitted, train, a, b):
    new = train.with_columns(unique_id="new " + pl.col("unique_id"), y=a * pl.col("y") + b)
    scaled = fitted.predict(new)
    one = fitted.predict(train)
    np.testing.assert_allclose(bounds(scaled), a * bounds(one) + b, atol=1e-3 * a)


def test_the_order_of_series_is_irrelevant(fitted, train):
    turned = train.sort("unique_id", "ds", descending=[True, False])
    one, other = (fitted.predict(x).sort(KEYS) for x in (train, turned))
    assert_frame_equal(one, other, abs_tol=1e-4)


def test_a_loaded_forecaster_is_the_saved_one(fitted, frame, tmp_path):
    fitted.save(tmp_path / "m.tsm")
    loaded = MambaForecaster.load(tmp_path / "m.tsm")
    assert loaded.training.loss == "student-t"
    for base_only in (False, True):
        one, other = (f.predict(frame, base_only=base_only) for f in (fitted, loaded))
        assert_frame_equal(one, other, check_exact=True)


def test_newer_rows_move_the_intervals_on(fitted, frame, train, tmp_path):
    fitted.save(tmp_path / "m.tsm")
    moved = MambaForecaster.load(tmp_path / "m.tsm")
    moved.update(frame.join(train, on=KEYS, how="anti", maintain_order="left").head(31))
    first = frame.filter(unique_id="a").head(LENGTH - 400 + 31)
    got = moved.predict().filter(unique_id="a")
    assert_frame_equal(got, fitted.predict(first), abs_tol=1e-3)


def test_beyond_the_horizon_intervals_widen_as_without_the_spread(fitted):
    """The last step may be a quiet one, and those beyond it are not."""
    out, alone = (fitted.predict(horizon=3 * HORIZON, base_only=x) for x in (False, True))
    rank = pl.int_range(pl.len()).over("unique_id")
    assert_frame_equal(out.filter(rank < HORIZON), fitted.predict(), check_exact=True)
    far, plain = (x.filter(rank >= HORIZON) for x in (out, alone))
    widths, expected = (bounds(x) - x[POINT].to_numpy() for x in (far, plain))
    np.testing.assert_allclose(widths, expected, atol=1e-4)


def test_equal_seeds_make_equal_intervals(make, fitted, train):
    again = make("student-t").fit(train)
    assert_frame_equal(again.predict(), fitted.predict(), check_exact=True)
