"""Vectors of series: what they must not depend on, and what they must tell apart."""

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from sklearn.exceptions import NotFittedError

from tsmamba import MambaForecaster
from tsmamba.errors import FrameError
from tsmamba.forecast import embedding
from tsmamba.forecast.correction import Correction
from tsmamba.forecast.pretrained import pretrained_corrector
from tsmamba_datasets import make_irregular, make_seasonal

WIDTH = 3 * pretrained_corrector().config.d_model


@pytest.fixture(scope="module")
def several():
    """Five hourly series of different lengths, none a multiple of a patch."""
    frame = make_seasonal(n_series=5, length=1_100, seed=3)
    kept = pl.col("unique_id").rank("dense") * 190 + 60
    return frame.filter(pl.int_range(pl.len()).over("unique_id") < kept)


def rows(frame):
    return frame.to_numpy() if "unique_id" not in frame.columns else frame[:, 1:].to_numpy()


def close(one, other, atol=2e-5):
    np.testing.assert_allclose(rows(one), rows(other), rtol=0, atol=atol)


def test_a_series_is_a_row_of_float32(linear, several):
    out = linear.embed(several)
    assert out.columns == ["unique_id", *(f"e{number}" for number in range(WIDTH))]
    assert out["unique_id"].to_list() == several["unique_id"].unique(maintain_order=True).to_list()
    assert set(out.dtypes[1:]) == {pl.Float32}
    assert np.isfinite(rows(out)).all()


def test_vectors_are_mean_maximum_and_minimum_of_the_networks_outputs(linear, several):
    """From the network's parts, for a series of whole patches without gaps."""
    y = several.filter(pl.col("unique_id") == several["unique_id"][-1]).tail(960)
    values = torch.tensor(((y["y"] - y["y"].mean()) / y["y"].std(ddof=0)).to_numpy()).float()
    network = pretrained_corrector()
    outputs = network.stack(network.embed_history(values.view(1, -1, 48)))[0]
    expected = torch.cat([outputs.mean(0), outputs.amax(0), outputs.amin(0)])
    np.testing.assert_allclose(rows(linear.embed(y))[0], expected, rtol=0, atol=2e-5)


def test_the_order_of_series_and_rows_is_irrelevant(linear, several):
    usual = linear.embed(several)
    turned = linear.embed(several.sort("unique_id", "ds", descending=[True, False]))
    close(turned.sort("unique_id"), usual.sort("unique_id"))
    close(linear.embed(several.sort("ds", "unique_id")).sort("unique_id"), usual.sort("unique_id"))


def test_a_series_alone_is_the_same_as_among_others(linear, several):
    among = linear.embed(several)
    for key, one in several.group_by("unique_id"):
        close(linear.embed(one), among.filter(pl.col("unique_id") == key[0]))


@pytest.mark.parametrize("steps", [1, 2_000, 2_500])
def test_batches_of_any_size_give_the_same(linear, several, monkeypatch, steps):
    usual = linear.embed(several)
    monkeypatch.setattr(embedding, "_BATCH_STEPS", steps)
    close(linear.embed(several), usual)


def test_a_batch_holds_no_more_than_it_may(monkeypatch):
    monkeypatch.setattr(embedding, "_BATCH_STEPS", 1_000)
    steps = torch.tensor([300, 480, 48, 2_000, 480, 300, 96])
    batches = embedding._batches(steps)
    assert sorted(torch.cat(batches).tolist()) == list(range(7))
    assert all(len(one) == 1 or len(one) * steps[one].max() <= 1_000 for one in batches)
    assert len(batches) == 4


@pytest.mark.parametrize(("a", "b"), [(1000.0, 0.0), (1e-6, 5.0), (1.0, 1e5)])
def test_level_and_unit_are_irrelevant(linear, train, a, b):
    """Of fitted series, too, whose scale is known."""
    other = linear.embed(train.with_columns(y=a * pl.col("y") + b))
    close(other, linear.embed(train), atol=1e-3 if b else 2e-5)


def test_a_mirrored_series_is_another(linear, several):
    one, other = linear.embed(several), linear.embed(several.with_columns(y=-pl.col("y")))
    assert np.abs(rows(one) - rows(other)).max(1).min() > 0.1


@pytest.fixture(scope="module")
def wave():
    """Twenty patches of a wave."""
    hours = pl.datetime(2024, 1, 1) + pl.duration(hours="t")
    return pl.DataFrame({"t": range(960)}).select(ds=hours, y=(pl.col("t") * np.pi / 12).sin())


def without(frame, steps, value=None):
    return frame.with_columns(y=pl.when(steps).then(pl.lit(value)).otherwise("y"))


STEP = pl.int_range(pl.len())


def test_a_missing_step_is_filled_from_the_past(linear, wave):
    holed = without(wave, STEP % 7 == 3)
    assert holed["y"].null_count() == 137
    plain, filled = rows(linear.embed(wave)), rows(linear.embed(holed))
    assert 0 < np.abs(filled - plain).max() < 0.1
    # Zeros in their place would be another series.
    zeros = rows(linear.embed(without(wave, STEP % 7 == 3, 0.0)))
    assert np.abs(zeros - plain).max() > 0.5


def test_missing_steps_may_be_null_nan_or_absent(linear, wave):
    two_patches = STEP.is_between(480, 575)
    usual = linear.embed(without(wave, two_patches))
    assert_frame_equal(linear.embed(without(wave, two_patches, float("nan"))), usual)
    assert_frame_equal(linear.embed(wave.filter(~two_patches)), usual)


def test_patches_without_a_value_are_left_out(wave):
    observed = torch.ones(1, 960, dtype=torch.bool)
    observed[:, 480:576] = False
    values = torch.tensor(wave["y"].to_list())[None]
    outputs, seen = pretrained_corrector().encode(values, observed, torch.empty(1, 20, 0))
    assert seen[0].tolist() == [True] * 10 + [False] * 2 + [True] * 8
    pooled = embedding._pooled(outputs, seen)
    outputs[~seen] = torch.tensor([[1e6], [-1e6]])
    assert torch.equal(embedding._pooled(outputs, seen), pooled)


def test_one_value_is_enough(linear):
    short = pl.DataFrame({"unique_id": ["a", "b", "b"], "ds": [0, 0, 1], "y": [3.0, 1.0, 2.0]})
    hours = short.with_columns(ds=pl.datetime(2024, 1, 1) + pl.duration(hours="ds"))
    assert np.isfinite(rows(linear.embed(hours))).all()


def test_the_kind_of_frame_stays(linear, several):
    usual = linear.embed(several)
    pandas = linear.embed(several.to_pandas())
    assert_frame_equal(pl.from_pandas(pandas), usual)
    assert linear.embed(several.to_arrow()).column_names == usual.columns
    assert_frame_equal(linear.embed(several.lazy()), usual)


def test_a_frame_without_ids_is_one_row_without_an_id(linear, hourly):
    assert linear.embed(hourly).columns[0] == "e0"
    assert linear.embed(hourly).height == 1


def test_a_wide_frame_has_a_row_for_each_of_its_columns(several):
    long = several.filter(pl.len().over("unique_id") > 800)
    wide = long.pivot("unique_id", values="y", index="ds")
    names = wide.columns[1:]
    wide = wide.drop_nulls().rename({"ds": "when"})
    forecaster = MambaForecaster(24, mode="base", target_col=names, time_col="when").fit(wide)
    out = forecaster.embed(wide)
    assert out["target"].to_list() == names
    long = long.rename({"ds": "when"}).join(wide, on="when", how="semi")
    one = MambaForecaster(24, mode="base", time_col="when").fit(long)
    close(out.rename({"target": "unique_id"}), one.embed(long))


def test_the_fitted_network_is_used(any_training, small, train, several, tmp_path):
    forecaster = small().fit(train)
    usual = forecaster.embed(several)
    assert usual.shape == (5, 1 + 3 * 8)
    forecaster.save(tmp_path / "model.tsm")
    assert_frame_equal(MambaForecaster.load(tmp_path / "model.tsm").embed(several), usual)


def test_without_a_fitted_network_it_is_the_bundled_one(linear, fast, train, several, monkeypatch):
    """Also where the gate is closed."""
    monkeypatch.setattr(
        Correction, "gate", lambda self, *args, **kwargs: (torch.zeros(self.horizon), 1.0, 1.0)
    )
    closed = fast().fit(train)
    assert closed._fitted.model.corrector is None
    assert_frame_equal(closed.embed(several), linear.embed(several))


def test_covariates_and_calendar_reach_the_network(small, shop, any_training):
    columns = {
        "past_covariates": ["flow"],
        "future_covariates": ["heat", "sky"],
        "static_covariates": ["site"],
    }
    forecaster = small(**columns).fit(shop)
    usual = forecaster.embed(shop)
    other = forecaster.embed(shop.with_columns(flow=pl.col("flow") + 3))
    assert np.abs(rows(usual) - rows(other)).max() > 1e-3
    with pytest.raises(FrameError, match="flow"):
        forecaster.embed(shop.drop("flow"))


def test_uneven_time_reaches_the_network():
    frame = make_irregular(length=900, seed=1)
    forecaster = MambaForecaster(24, mode="base", freq="uneven").fit(frame)
    usual = forecaster.embed(frame)
    stamps = pl.col("ds") - pl.col("ds").first()
    stretched = frame.with_columns(
        ds=pl.when(pl.int_range(pl.len()) < 400).then(stamps).otherwise(stamps * 3) + frame["ds"][0]
    )
    assert np.abs(rows(usual) - rows(forecaster.embed(stretched))).max() > 1e-2


def test_nothing_is_fitted(linear, several):
    before = linear.predict()
    linear.embed(several)
    assert_frame_equal(linear.predict(), before)


def test_an_unfitted_forecaster_is_refused(several):
    with pytest.raises(NotFittedError):
        MambaForecaster().embed(several)


def test_behaviours_come_apart():
    """Ramps up and ramps down have one spectrum; each is nearest to its own kind."""
    rng = np.random.default_rng(0)
    t, series = np.arange(4_800), []
    for number in range(12):
        period, phase = rng.uniform(80, 160), rng.uniform(0, 1)
        ramp = (t / period + phase) % 1
        y = rng.normal(size=t.size) * 0.1 + (ramp if number % 2 else -ramp)
        series.append(pl.DataFrame({"unique_id": f"s{number:02}", "ds": t, "y": y}))
    frame = pl.concat(series)
    forecaster = MambaForecaster(24, mode="base").fit(frame.filter(pl.col("unique_id") == "s00"))
    vectors = rows(forecaster.embed(frame))
    distance = np.linalg.norm(vectors[:, None] - vectors, axis=-1)
    np.fill_diagonal(distance, np.inf)
    assert (distance.argmin(1) % 2 == np.arange(12) % 2).all()


def test_memory_is_bounded_in_the_number_of_series(linear, monkeypatch):
    sizes = []
    encode = type(pretrained_corrector()).encode

    def counted(self, history, *rest):
        sizes.append(history.numel())
        return encode(self, history, *rest)

    monkeypatch.setattr(type(pretrained_corrector()), "encode", counted)
    monkeypatch.setattr(embedding, "_BATCH_STEPS", 5_000)
    linear.embed(make_seasonal(n_series=40, length=480, seed=0))
    assert sum(sizes) == 40 * 480
    assert max(sizes) <= 5_000
