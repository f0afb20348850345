import pickle
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tsmamba import MambaForecaster, Network, Training

POINT = "MambaForecaster"
BANDS = [f"{POINT}-lo-90", f"{POINT}-hi-90"]


def values(frame, name=POINT):
    return frame[name].to_numpy()


@pytest.fixture(scope="module")
def bundled(fast, train):
    return fast().fit(train)


@pytest.fixture(params=["full", "fast", "base"])
def fitted(request, full, bundled, linear):
    return {"full": full, "fast": bundled, "base": linear}[request.param]


@pytest.fixture(scope="module")
def corrected(small, predictable):
    """One whose corrector is in use."""
    return small(
        12,
        context_length=24,
        season_length=24,
        network=Network(patch_length=6, d_model=16, n_layers=1, d_state=8),
        training=Training(max_steps=150, lr=1e-2, eval_every=25),
    ).fit(predictable.head(6_000))


# As an estimator


def test_it_is_cloned_and_shown_as_scikit_learn_expects():
    forecaster = MambaForecaster(24, quantiles=[0.1, 0.9], training=Training(max_steps=5))
    copy = clone(forecaster)
    assert repr(copy) == repr(forecaster)
    assert copy.get_params(deep=False).keys() == forecaster.get_params(deep=False).keys()
    assert copy.get_params()["training__max_steps"] == 5
    assert repr(MambaForecaster()) == "MambaForecaster()"
    assert "horizon=24" in repr(forecaster)


def test_every_parameter_is_kept_as_it_was_given():
    given = {name: object() for name in MambaForecaster().get_params(deep=False)}
    forecaster = MambaForecaster(**given)
    assert all(getattr(forecaster, name) is value for name, value in given.items())


def test_fitting_changes_no_parameter(full, small):
    fresh, after = small().get_params(), full.get_params()
    assert fresh.keys() == after.keys()
    assert all(repr(fresh[name]) == repr(after[name]) for name in fresh)


def test_fitting_returns_itself_and_sets_its_attributes(fitted):
    check_is_fitted(fitted)
    assert fitted.horizon_ == 24
    assert fitted.season_length_ == 24
    assert fitted.context_length_ >= 24
    assert fitted.freq_.every == "1h"
    assert fitted.report_["seconds"] > 0


def test_a_clone_is_not_fitted(linear):
    copy = clone(linear)
    assert not hasattr(copy, "horizon_")


# Forecasts


def test_forecasts_follow_each_series(fitted, train):
    out = fitted.predict()
    assert out.columns == ["unique_id", "ds", POINT, *BANDS]
    last = train.group_by("unique_id", maintain_order=True).agg(pl.col("ds").max())
    for key, end in last.iter_rows():
        stamps = out.filter(unique_id=key)["ds"]
        assert len(stamps) == 24
        assert stamps.to_list() == [end + timedelta(hours=step) for step in range(1, 25)]
    assert out["unique_id"].unique(maintain_order=True).to_list() == last["unique_id"].to_list()


def test_forecasts_are_better_than_repeating_the_last_day(fitted, train, test):
    out = fitted.predict()
    true = test.join(out, on=["unique_id", "ds"])["y"]
    naive = train.group_by("unique_id", maintain_order=True).tail(24)["y"]
    assert (values(out) - true).abs().mean() < (naive - true).abs().mean()


def test_quantiles_never_cross_and_levels_nest(fitted):
    names = [f"{POINT}_ql{q}" for q in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)]
    out = fitted.predict(quantiles=[0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
    assert out.columns == ["unique_id", "ds", POINT, *names]
    assert (np.diff(out.select(names).to_numpy(), axis=1) >= 0).all()
    bounds = fitted.predict(level=[50, 90])
    assert (values(bounds, BANDS[0]) <= values(bounds, f"{POINT}-lo-50")).all()
    np.testing.assert_array_equal(
        values(bounds, BANDS[0]), values(fitted.predict(quantiles=[0.05]), f"{POINT}_ql0.05")
    )


def test_quantiles_of_the_estimator_are_its_default(base, hourly):
    forecaster = base(quantiles=[0.2, 0.8]).fit(hourly)
    assert forecaster.predict().columns[1:] == [POINT, f"{POINT}_ql0.2", f"{POINT}_ql0.8"]
    assert forecaster.predict(level=[80]).columns[2:] == [f"{POINT}-lo-80", f"{POINT}-hi-80"]


def test_predicting_changes_nothing(fitted):
    first = fitted.predict()
    fitted.predict(level=[20])
    assert_frame_equal(first, fitted.predict(), check_exact=True)


def test_the_history_given_anew_makes_the_same_forecast(fitted, train):
    assert_frame_equal(fitted.predict(), fitted.predict(train), abs_tol=1e-4)


def test_a_longer_history_moves_the_forecast_on(fitted, seasonal):
    moved = fitted.predict(seasonal)["ds"] - fitted.predict()["ds"]
    assert moved.unique().to_list() == [timedelta(hours=48)]


def test_only_the_context_matters(base, hourly):
    forecaster = base(context_length=72).fit(hourly)
    assert_frame_equal(
        forecaster.predict(hourly), forecaster.predict(hourly.tail(72)), abs_tol=1e-3
    )


def test_new_series_are_forecast_without_a_fit(fitted, train):
    one = train.filter(pl.col("unique_id") == train["unique_id"][0])
    new = one.with_columns(unique_id=pl.lit("new"))
    larger = one.with_columns(unique_id=pl.lit("larger"), y=pl.col("y") * 3 - 40)
    out, other = fitted.predict(new), fitted.predict(larger)
    assert out["unique_id"].unique().to_list() == ["new"]
    np.testing.assert_allclose(values(other), values(out) * 3 - 40, rtol=1e-3)
    known = values(fitted.predict(one))
    assert np.abs(values(out) - known).mean() < 0.2 * known.std()


def test_the_base_alone_can_be_asked_for(corrected, predictable):
    history = predictable.slice(6_000, 100)
    with_corrector, alone = (corrected.predict(history, base_only=x) for x in (False, True))
    assert corrected.report_["corrector"] == "used"
    assert np.abs(values(with_corrector) - values(alone)).max() > 0.05


def test_a_corrector_is_never_worse_than_its_base_on_validation(full, corrected):
    for forecaster in (full, corrected):
        report = forecaster.report_
        assert report["validation_error"] <= report["validation_error_base"]


# Seeds and silence


def test_equal_seeds_make_equal_forecasts(small, train):
    frames = [small(random_state=5).fit(train).predict() for _ in range(2)]
    assert_frame_equal(*frames, check_exact=True)


def test_the_global_random_state_is_left_as_it_was(small, train):
    before = torch.get_rng_state()
    small(random_state=3).fit(train).predict()
    assert torch.equal(before, torch.get_rng_state())


def test_it_is_silent_unless_asked(small, train, capfd):
    small().fit(train).predict()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_intervals_cover_what_they_promise(base):
    rng = np.random.default_rng(0)
    shares = []
    for length in (300, 1_200):
        inside = []
        for _ in range(10):
            y = np.sin(np.arange(length + 24) / 4) + rng.normal(size=length + 24)
            frame = pl.DataFrame({"ds": range(length + 24), "y": y})
            out = base(context_length=None).fit(frame.head(length)).predict()
            inside.append(
                (y[length:] >= values(out, BANDS[0])) & (y[length:] <= values(out, BANDS[1]))
            )
        shares.append(np.mean(inside))
    assert min(shares) > 0.82
    assert max(shares) < 0.97


# Files


def test_a_loaded_forecaster_is_the_saved_one(fitted, tmp_path, seasonal, test):
    fitted.save(tmp_path / "m.tsm")
    loaded = MambaForecaster.load(tmp_path / "m.tsm")
    assert_frame_equal(loaded.predict(), fitted.predict(), check_exact=True)
    assert_frame_equal(loaded.predict(seasonal), fitted.predict(seasonal), check_exact=True)
    assert loaded.score(test) == fitted.score(test)
    assert repr(loaded) == repr(fitted)
    for name in ("horizon_", "context_length_", "season_length_", "freq_", "report_"):
        assert getattr(loaded, name) == getattr(fitted, name)


def test_a_corrector_is_saved_too(corrected, predictable, tmp_path):
    corrected.save(tmp_path / "m.tsm")
    loaded = MambaForecaster.load(tmp_path / "m.tsm")
    history = predictable.slice(6_000, 100)
    assert_frame_equal(loaded.predict(history), corrected.predict(history), check_exact=True)


def test_saving_twice_is_saving_once(linear, tmp_path):
    linear.save(tmp_path / "a")
    MambaForecaster.load(tmp_path / "a").save(tmp_path / "b")
    assert_frame_equal(
        MambaForecaster.load(tmp_path / "b").predict(), linear.predict(), check_exact=True
    )


def test_parameters_of_numpy_are_saved(base, hourly, tmp_path):
    forecaster = base(np.int64(6), quantiles=np.array([0.1, 0.9]), random_state=np.int64(3))
    forecaster.fit(hourly).save(tmp_path / "m")
    assert_frame_equal(
        MambaForecaster.load(tmp_path / "m").predict(), forecaster.predict(), check_exact=True
    )


def test_a_file_is_read_in_a_fresh_process(corrected, tmp_path, run_python):
    corrected.save(tmp_path / "m.tsm")
    code = (
        "import torch; torch.set_num_threads(2)\n"
        "from tsmamba import MambaForecaster\n"
        "MambaForecaster.load('m.tsm').predict().write_parquet('out.parquet')"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr == done.stdout == ""
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert_frame_equal(out, corrected.predict(), abs_tol=1e-6)


def test_it_survives_a_pickle_for_use_in_worker_processes(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert_frame_equal(copy.predict(), fitted.predict(), check_exact=True)


# Size


@pytest.mark.slow
def test_a_long_series_is_fitted_in_little_memory(run_python):
    """The windows of these 200,000 steps would fill more than 400 MB."""
    code = (
        "import resource, torch\n"
        "import numpy as np, polars as pl\n"
        "from tsmamba import MambaForecaster\n"
        "torch.set_num_threads(1)\n"
        "y = np.random.default_rng(0).normal(size=200_000)\n"
        "df = pl.DataFrame({'ds': range(len(y)), 'y': y})\n"
        "make = lambda: MambaForecaster(24, mode='base', season_length=24)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "make().fit(df.head(20_000)).predict(); before = peak()\n"
        "make().fit(df).predict(); print(peak() - before)"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 120
