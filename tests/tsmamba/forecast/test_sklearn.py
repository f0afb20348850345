"""scikit-learn's own checks of estimators, and its searches and scores over frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.utils import check_array, estimator_html_repr
from sklearn.utils.estimator_checks import estimator_checks_generator

from tsmamba import MambaForecaster, Network, Training
from tsmamba.errors import ParameterError, SeriesTooShortError
from tsmamba.forecast.base import N_BLOCKS
from tsmamba.model_selection import RollingOrigin

POINT = "MambaForecaster"
HORIZON = 24


class OnArrays(MambaForecaster):
    """The forecaster behind the arrays that scikit-learn's checks feed.

    A row is a step and the first column holds the values; rows to score follow the history.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags

    def fit(self, X, y=None):
        return super().fit(framed(X))

    def partial_fit(self, X, y=None):
        return super().partial_fit(framed(X))

    def predict(self, X):
        return super().predict(framed(X))[POINT].to_numpy()

    def score(self, X, y=None):
        return super().score(framed(X, start=super().predict()["ds"][0]))


def framed(X, start=0):
    if isinstance(X, pl.DataFrame):  # a first `partial_fit` calls `fit`
        return X
    values = check_array(X, ensure_all_finite="allow-nan")[:, 0]
    return pl.DataFrame({"ds": range(start, start + len(values)), "y": values})


COLUMNS = "frames have columns with names, not a number of features"
STEPS = "a forecast has a row for each step ahead, not one for each row of the history"
NOT_FOR_FORECASTERS = {
    "check_n_features_in": COLUMNS,
    "check_n_features_in_after_fitting": COLUMNS,
    "check_methods_sample_order_invariance": STEPS,
    "check_methods_subset_invariance": STEPS,
    "check_fit2d_1sample": "the error asks for two stamps, in other words than for samples",
}
NOT_FOR_FRAMES = dict.fromkeys(
    [
        "check_array_api_input",
        "check_complex_data",
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_estimator_sparse_tag",
        "check_estimators_dtypes",
        "check_estimators_empty_data_messages",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
    ],
    "feeds an array, which has no time stamps: it is run behind OnArrays",
) | dict.fromkeys(
    NOT_FOR_FORECASTERS.keys() - {"check_n_features_in_after_fitting"},  # asks the tags first
    "feeds an array, and has no meaning behind OnArrays either",
)
NOT_FOR_KNOBS = dict.fromkeys(
    {*NOT_FOR_FRAMES, *NOT_FOR_FORECASTERS, "check_fit1d"} - {"check_fit_score_takes_y"},
    "calls fit, which knobs have not: they are for the estimator that holds them",
)


def array_forecaster():
    return OnArrays(2, mode="base")


CHECKS = [check for _, check in estimator_checks_generator(array_forecaster())]
every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.func.__name__)


@pytest.fixture
def _array_api(monkeypatch):
    """Without the variable one check would be skipped."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


def run(check, estimator, listed):
    """Expect a check to pass, or to fail if it is listed, so that no list goes stale."""
    if check.func.__name__ not in listed:
        check(estimator)
        return
    with pytest.raises((AssertionError, AttributeError, IndexError, TypeError, ValueError)):
        check(estimator)


@every_check
@pytest.mark.usefixtures("_array_api")
def test_the_forecaster_behind_arrays_passes(check):
    run(check, array_forecaster(), NOT_FOR_FORECASTERS)


@every_check
@pytest.mark.usefixtures("_array_api")
def test_the_forecaster_itself_passes(check):
    run(check, MambaForecaster(2, mode="base"), NOT_FOR_FRAMES)


@every_check
@pytest.mark.parametrize("knobs", [Training(), Network()])
@pytest.mark.usefixtures("_array_api")
def test_nested_knobs_pass(check, knobs):
    run(check, knobs, NOT_FOR_KNOBS)


def test_every_listed_check_exists():
    names = {check.func.__name__ for check in CHECKS}
    assert NOT_FOR_FRAMES.keys() | NOT_FOR_KNOBS.keys() <= names


# Parameters


def nested(forecaster):
    return {name: repr(value) for name, value in forecaster.get_params().items()}


def test_a_clone_has_equal_parameters_and_shares_none_that_can_change():
    forecaster = MambaForecaster(HORIZON, training=Training(lr=0.1), target_col=["a", "b"])
    copy = clone(forecaster)
    assert nested(copy) == nested(forecaster)
    copy.set_params(training__lr=0.2).target_col.append("c")
    assert forecaster.training.lr == 0.1
    assert forecaster.target_col == ["a", "b"]


def test_parameters_set_from_another_estimator_make_an_equal_one():
    forecaster = MambaForecaster(HORIZON, mode="base", training=Training(max_steps=3, lr=0.1))
    assert nested(MambaForecaster().set_params(**forecaster.get_params())) == nested(forecaster)


def test_nested_parameters_reach_knobs_that_were_left_open():
    forecaster = MambaForecaster().set_params(training__lr=0.1, network__d_model=8, horizon=6)
    assert (forecaster.training.lr, forecaster.network.d_model, forecaster.horizon) == (0.1, 8, 6)


@pytest.mark.parametrize("name", ["horizons", "training__speed"])
def test_unknown_parameters_are_refused(name):
    with pytest.raises(ValueError, match="Invalid parameter"):
        MambaForecaster(training=Training()).set_params(**{name: 1})


def test_a_notebook_shows_the_parameters_and_whether_it_is_fitted(base, hourly):
    forecaster = base(training=Training(lr=0.125))
    html = estimator_html_repr(forecaster)
    assert all(part in html for part in ("MambaForecaster", "Training", "0.125", "Not fitted"))
    assert "Not fitted" not in estimator_html_repr(forecaster.fit(hourly))


# Searches


def to_pandas(frame):
    return pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


KINDS = {
    "polars": lambda frame: frame,
    "pandas": to_pandas,
    "pyarrow": lambda frame: frame.to_arrow(),
}


@pytest.fixture(scope="module")
def panel(seasonal):
    """The last days of each series, of unequal length, interleaved in time."""
    rank = pl.int_range(pl.len(), 0, -1).over("unique_id")
    last = pl.col("unique_id") == seasonal["unique_id"][-1]
    return seasonal.filter(rank <= pl.when(last).then(200).otherwise(260)).sort("ds", "unique_id")


@pytest.fixture
def cv():
    return RollingOrigin(2, HORIZON)


def scores(forecaster, panel, cv):
    """Fit and judge on each split by hand."""
    return [
        clone(forecaster).fit(panel[train.tolist()]).score(panel[test.tolist()])
        for train, test in cv.split(panel)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_grid_search_judges_each_candidate_on_each_split(base, panel, cv, kind):
    frame, seasons = KINDS[kind](panel), [24, 48]
    search = GridSearchCV(base(), {"season_length": seasons}, cv=cv, error_score="raise").fit(frame)
    results = search.cv_results_
    for row, season in enumerate(seasons):
        found = [results[f"split{split}_test_score"][row] for split in range(2)]
        np.testing.assert_allclose(found, scores(base(season_length=season), panel, cv), rtol=1e-6)
    assert search.best_params_["season_length"] == seasons[results["mean_test_score"].argmax()]
    forecast = search.best_estimator_.predict()
    assert type(forecast) is type(frame)
    expected = base(**search.best_params_).fit(panel).predict()
    np.testing.assert_array_equal(np.asarray(forecast[POINT]), expected[POINT])
    np.testing.assert_allclose(np.asarray(search.predict(frame)[POINT]), expected[POINT], rtol=1e-4)


def test_the_score_does_not_depend_on_the_season_that_is_set(base, train, test):
    one, other = (base(season_length=season).fit(train).score(test) for season in (12, 24))
    assert one == pytest.approx(other, rel=0.05)


def test_a_grid_search_reaches_the_knobs_of_training(small, seasonal, cv):
    forecaster = small(training=None)
    grid = {"training__max_steps": [1, 4], "training__lr": [1e-2]}
    search = GridSearchCV(forecaster, grid, cv=cv, error_score="raise").fit(seasonal)
    best = search.best_estimator_
    assert best.report_["steps"] == N_BLOCKS * best.training.max_steps
    assert best.training.max_steps == search.best_params_["training__max_steps"]
    assert best.training.lr == 1e-2
    assert forecaster.training is None
    expected = scores(clone(forecaster).set_params(**search.best_params_), seasonal, cv)
    assert search.best_score_ == pytest.approx(np.mean(expected))


def test_a_random_search_over_all_candidates_is_a_grid_search(base, panel, cv):
    grid = {"context_length": [48, 96, 120]}
    every = GridSearchCV(base(), grid, cv=cv, error_score="raise").fit(panel)
    drawn = RandomizedSearchCV(
        base(), grid, n_iter=3, cv=cv, random_state=0, error_score="raise"
    ).fit(panel)
    assert drawn.best_params_ == every.best_params_
    assert drawn.best_score_ == every.best_score_


def test_a_search_without_a_refit_only_judges(base, panel, cv):
    search = GridSearchCV(base(), {"context_length": [48]}, cv=cv, refit=False).fit(panel)
    assert not hasattr(search, "best_estimator_")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_score_of_ones_own_can_be_used(base, panel, cv):
    def minus_mae(forecaster, test):
        both = test.join(forecaster.predict(), on=["unique_id", "ds"])
        assert both.height == test.height
        return -(both["y"] - both[POINT]).abs().mean()

    found = cross_val_score(base(), panel, cv=cv, scoring=minus_mae, error_score="raise")
    expected = base().cross_validation(panel, n_windows=2, refit=True)
    error = (pl.col("y") - pl.col(POINT)).abs().mean()
    by_split = expected.with_columns(
        split=pl.col("cutoff").rank("dense").over("unique_id")
    ).group_by("split", maintain_order=True)
    assert found == pytest.approx(-by_split.agg(error).sort("split")["y"].to_numpy(), rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_by_cross_validation_are_those_by_hand(base, panel, cv, kind):
    found = cross_val_score(base(), KINDS[kind](panel), cv=cv, error_score="raise")
    np.testing.assert_allclose(found, scores(base(), panel, cv), rtol=1e-6)


def test_splits_are_those_of_the_backtest_of_the_forecaster(base, panel, cv):
    """Cross-validation by scikit-learn and by the forecaster fit and forecast the same."""
    done = cross_validate(base(), panel, cv=cv, return_estimator=True, error_score="raise")
    found = pl.concat(forecaster.predict() for forecaster in done["estimator"])
    expected = base().cross_validation(panel, n_windows=2, refit=True)
    # Series come in another order, and with it other windows to calibrate the bounds on.
    found, expected = (
        frame.select("unique_id", "ds", POINT).sort("unique_id", "ds")
        for frame in (found, expected)
    )
    assert_frame_equal(found, expected, abs_tol=1e-2)


def test_covariates_come_along(base, panel, cv, rng):
    known = panel.with_columns(z=pl.col("y") + 0.1 * rng.normal(size=panel.height))
    with_known = base(future_covariates=["z"])
    found = cross_val_score(with_known, known, cv=cv, error_score="raise")
    np.testing.assert_allclose(found, scores(with_known, known, cv), rtol=1e-6)
    assert (found > cross_val_score(base(), known, cv=cv, error_score="raise")).all()


def test_a_wide_frame_is_searched_too(base, hourly):
    wide = hourly.with_columns(a=pl.col("y"), b=pl.col("y") * 2 + 100).drop("y")
    found = cross_val_score(
        base(target_col=["a", "b"]), wide, cv=RollingOrigin(2, HORIZON), error_score="raise"
    )
    assert np.isfinite(found).all()


def test_a_search_over_too_short_series_fits_nothing(base, panel, monkeypatch):
    monkeypatch.setattr(MambaForecaster, "fit", lambda *_, **__: pytest.fail("fitted"))
    search = GridSearchCV(base(), {"context_length": [48]}, cv=RollingOrigin(20, HORIZON))
    with pytest.raises(SeriesTooShortError, match="need more than 480"):
        search.fit(panel)


def test_a_candidate_out_of_range_is_refused(base, panel, cv):
    search = GridSearchCV(base(), {"context_length": [-1]}, cv=cv, error_score="raise")
    with pytest.raises(ParameterError, match="context_length=-1"):
        search.fit(panel)
