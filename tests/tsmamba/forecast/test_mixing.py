import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster
from tsmamba.data.panel import read_panel
from tsmamba.data.windows import WindowStore
from tsmamba.errors import ParameterError
from tsmamba.forecast.base import N_BLOCKS, Context, blocks_of, features
from tsmamba.forecast.correction import Correction
from tsmamba.forecast.linear import fit_linear_base
from tsmamba.forecast.mixing import fit_mixing
from tsmamba.forecast.network import CorrectorConfig
from tsmamba.forecast.source import Source

POINT = "MambaForecaster"
HORIZON, LEAD, NOISE = 24, 15, 0.05
COLUMNS = ["a", "b", "c"]


def autoregressive(rng, length, rate=0.9):
    y = rng.normal(size=length)
    for step in range(1, length):
        y[step] += rate * y[step - 1]
    return y


@pytest.fixture(scope="module")
def frame():
    """Column b repeats a after some steps; c stands by itself."""
    rng = np.random.default_rng(0)
    a = autoregressive(rng, 1_500 + LEAD)
    b = a[:-LEAD] + NOISE * rng.normal(size=1_500)
    c = autoregressive(rng, 1_500)
    return pl.DataFrame({"ds": range(1_500), "a": a[LEAD:], "b": b, "c": c})


@pytest.fixture(scope="module")
def make():
    def make(**kwargs):
        given = {"mode": "base", "season_length": 1, "target_col": COLUMNS, "multivariate": True}
        return MambaForecaster(HORIZON, **given | kwargs)

    return make


@pytest.fixture(scope="module")
def fitted(make, frame):
    return make().fit(frame.head(-200))


def errors(forecaster, frame):
    """Mean squared error of each column and step."""
    out = forecaster.cross_validation(frame, n_windows=200 - HORIZON, step_size=1, use_fitted=True)
    away = out.select(
        "target", step=pl.col("ds") - pl.col("cutoff"), e=(pl.col("y") - pl.col(POINT)) ** 2
    )
    return {
        key[0]: rows.group_by("step").agg(pl.col("e").mean()).sort("step")["e"].to_numpy()
        for key, rows in away.group_by("target")
    }


def test_a_column_that_follows_another_is_forecast_as_far_as_it_follows(frame, fitted, make):
    alone = errors(make(multivariate=False).fit(frame.head(-200)), frame)
    mixed = errors(fitted, frame)
    # The last of the known steps share their penalty with steps that nobody knows.
    assert (mixed["b"][: LEAD // 2] < 2 * NOISE**2).all()
    assert (mixed["b"][:LEAD] < 40 * NOISE**2).all()
    assert (alone["b"][:LEAD] > 200 * NOISE**2).all()
    for column in ("a", "c"):
        np.testing.assert_allclose(mixed[column], alone[column], rtol=1e-5)


def test_the_report_says_for_which_columns_and_what_they_gain(fitted, make, frame):
    told = fitted.report_["mixing"]
    assert told.startswith("used for 1 of 3 columns ('b'): error of the base ")
    before, after = (float(word) for word in told.split() if word[0] == "0")
    assert after < before / 2
    assert "mixing" not in make(multivariate=False).fit(frame).report_


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["alike", "unlike", "walks"])
def test_columns_that_have_nothing_in_common_are_left_alone(make, kind, seed):
    rng = np.random.default_rng(seed)
    rates = {"alike": (0.9, 0.9, 0.9), "unlike": (0.95, 0.2, 1.0), "walks": (1.0, 1.0, 1.0)}[kind]
    columns = {
        name: autoregressive(rng, 800, rate) for name, rate in zip(COLUMNS, rates, strict=True)
    }
    one, other = (
        make(multivariate=x).fit(pl.DataFrame({"ds": range(800), **columns})) for x in (True, False)
    )
    assert one.report_["mixing"] == "not used: no column is forecast better with the others"
    assert_frame_equal(one.predict(), other.predict(), check_exact=True)


def test_too_short_a_history_is_left_alone_and_the_report_says_why(make, frame):
    report = make().fit(frame.head(150)).report_
    assert report["mixing"] == "not used: a fourth of the history holds fewer than 32 windows"


def test_the_order_of_columns_is_irrelevant(fitted, make, frame):
    turned = make(target_col=["c", "b", "a"]).fit(frame.head(-200))
    one, other = (x.predict().sort("target", "ds") for x in (fitted, turned))
    points = ["target", "ds", POINT]
    assert_frame_equal(one.select(points), other.select(points), abs_tol=1e-3)


def test_units_of_a_column_are_its_own(fitted, make, frame):
    plain = fitted.predict()
    for column in ("a", "b"):
        changed = frame.head(-200).with_columns(pl.col(column) * 1e3 - 5e3)
        other = make().fit(changed).predict()
        own = pl.col("target") == column
        expected = pl.when(own).then(pl.col(POINT) * 1e3 - 5e3).otherwise(POINT)
        tolerance = pl.when(own).then(5.0).otherwise(5e-3)
        gap = (other[POINT] - plain.select(expected).to_series()).abs()
        assert (gap < plain.select(tolerance).to_series()).all()


def test_what_comes_after_an_origin_changes_no_forecast_from_it(fitted, frame):
    changed = frame.with_columns(
        pl.when(pl.col("ds") >= 1_500 - HORIZON).then(99.0).otherwise(name).alias(name)
        for name in COLUMNS
    )
    one, other = (fitted.cross_validation(x, use_fitted=True) for x in (frame, changed))
    assert_frame_equal(one.drop("y"), other.drop("y"), check_exact=True)


def test_a_saved_forecaster_forecasts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "m.tsm")
    loaded = MambaForecaster.load(tmp_path / "m.tsm")
    assert loaded.multivariate
    assert_frame_equal(loaded.predict(), fitted.predict(), check_exact=True)


def test_newer_rows_are_as_good_as_the_whole_history(fitted, frame, tmp_path):
    fitted.save(tmp_path / "m.tsm")
    updated = MambaForecaster.load(tmp_path / "m.tsm").update(frame.tail(200))
    assert_frame_equal(updated.predict(), fitted.predict(frame), abs_tol=1e-3)


def test_forecasts_beyond_the_horizon_are_made_from_those_of_all_columns(fitted, frame):
    far = fitted.predict(horizon=2 * HORIZON)
    near = far.group_by("target", maintain_order=True).head(HORIZON)
    wide = near.pivot("target", index="ds", values=POINT)
    again = fitted.predict(pl.concat([frame.head(-200), wide]))
    rest = far.group_by("target", maintain_order=True).tail(HORIZON)
    assert_frame_equal(rest.select("ds", POINT), again.select("ds", POINT), abs_tol=1e-3)


def test_ids_share_the_mixing(fitted, make, frame):
    train = frame.head(-200)
    two = pl.concat(
        [
            train.with_columns(unique_id=pl.lit("x")),
            train.tail(900).with_columns(unique_id=pl.lit("y")),
        ]
    )
    forecaster = make().fit(two)
    assert forecaster.report_["mixing"].startswith("used for 1 of 3 columns ('b')")
    other = frame.with_columns(unique_id=pl.lit("new"))
    assert (errors(forecaster, other)["b"][: LEAD // 2] < 2 * NOISE**2).all()


def test_gaps_are_no_obstacle(make, frame):
    rng = np.random.default_rng(1)
    gappy = frame.with_columns(
        pl.when(pl.Series(rng.random(1_500) < 0.02)).then(None).otherwise(name).alias(name)
        for name in COLUMNS
    )
    forecaster = make().fit(gappy.head(-200))
    plain = make(multivariate=False).fit(gappy.head(-200))
    assert (
        errors(forecaster, frame)["b"][:LEAD].mean() < errors(plain, frame)["b"][:LEAD].mean() / 5
    )


@pytest.mark.filterwarnings("ignore::tsmamba.errors.GuidanceWarning")
def test_the_corrector_comes_on_top_of_the_mixed_base(any_corrector, make, frame):
    short = frame.head(600)
    forecaster, linear = (make(mode=mode).fit(short) for mode in ("fast", "base"))
    assert forecaster.report_["mixing"].startswith("used for 1 of 3 columns ('b')")
    base = forecaster.predict(base_only=True)
    assert_frame_equal(base.select(POINT), linear.predict().select(POINT), check_exact=True)
    assert (forecaster.predict()[POINT] - base[POINT]).abs().max() > 0.1


# Folds


@pytest.fixture(scope="module")
def fold_fit(frame):
    store = WindowStore(read_panel(frame, target_col=COLUMNS))
    context = Context(length=48, recent=48, level=48)
    windows = store.windows(48, HORIZON)
    base = fit_linear_base(store, windows, context, HORIZON)
    mixing, _ = fit_mixing(store, windows, base, context, COLUMNS)
    return store, windows, context, base._replace(mixing=mixing), mixing


def test_each_window_is_forecast_by_the_fold_without_its_block(fold_fit):
    store, windows, context, base, mixing = fold_fit
    inputs, _ = features(store, windows, context)
    got = base.out_of_fold(store, windows)(inputs)
    without = base._replace(mixing=None).out_of_fold(store, windows)(inputs)
    block = blocks_of(store, windows, HORIZON)
    for number in range(N_BLOCKS):
        of = block == number
        expected = mixing.folds[number].mixed(without[of], store, windows.select(of))
        torch.testing.assert_close(got[of], expected)
    assert not torch.equal(mixing.folds[0].weights, mixing.folds[1].weights)


def test_the_corrector_is_judged_on_the_mixed_base_of_the_folds(fold_fit, frame):
    store, windows, context, base, _ = fold_fit
    source = Source.of(read_panel(frame, target_col=COLUMNS), season=1, cycles=())
    config = CorrectorConfig(history=48, horizon=HORIZON, patch=24)
    some = windows.thinned(99)
    batch = Correction(source, context, base, config).batch(some)
    inputs, _ = features(store, some, context)
    torch.testing.assert_close(batch.base, base.out_of_fold(store, some)(inputs))
    without = base._replace(mixing=None).out_of_fold(store, some)(inputs)
    assert not torch.allclose(batch.base, without)


def test_windows_are_forecast_alike_alone_and_together(fold_fit):
    store, windows, context, base, mixing = fold_fit
    inputs, _ = features(store, windows, context)
    linear = inputs @ base.shared.weights
    together = mixing.mixing.mixed(linear, store, windows)
    for row in (0, 700, len(windows) // 2, len(windows) - 1):
        pick = torch.tensor([row])
        alone = mixing.mixing.mixed(linear[pick], store, windows.select(pick))
        torch.testing.assert_close(alone[0], together[row], rtol=1e-4, atol=1e-4)


def test_a_fold_never_saw_a_target_of_its_block(fold_fit, frame):
    """Small changes at the end move no choice, and no weights of the fold without the end."""
    _, windows, context, _, mixing = fold_fit
    changed = WindowStore(read_panel(frame, target_col=COLUMNS))
    for end in changed.offsets[1:].tolist():
        changed.values[end - 20 : end] += 0.1
    base = fit_linear_base(changed, windows, context, HORIZON)
    other, _ = fit_mixing(changed, windows, base, context, COLUMNS)
    assert torch.equal(other.mixing.kept, mixing.mixing.kept)
    gaps = [
        (a.weights - b.weights).abs().max() for a, b in zip(other.folds, mixing.folds, strict=True)
    ]
    assert gaps[3] < 1e-4 < 1e-3 < min(gaps[:3])


# Refusals


@pytest.mark.parametrize("target_col", ["y", ["y"]])
def test_one_column_cannot_be_mixed(make, hourly, target_col):
    with pytest.raises(ParameterError, match=r"multivariate=True with target_col=.*'y'.*df\.pivot"):
        make(target_col=target_col).fit(hourly)


def test_multivariate_is_true_or_false(make, frame):
    with pytest.raises(ParameterError, match="multivariate='yes'; pass True or False"):
        make(multivariate="yes").fit(frame)
