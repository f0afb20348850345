"""scikit-learn's own checks of estimators, and parameters."""

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tsmamba import MambaClassifier, Training


class OnArrays(MambaClassifier):
    """The classifier behind the arrays that scikit-learn's checks feed.

    A row is a stay, in which a column is measured at the hour of its number.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags

    def fit(self, X, y):
        X, y = validate_data(self, X, y, ensure_all_finite="allow-nan", ensure_min_samples=2)
        check_classification_targets(y)
        return super().fit(framed(X), pl.DataFrame({"subject_id": range(len(y)), "label": y}))

    def predict_proba(self, X):
        return super().predict_proba(self._framed(X)).drop("subject_id").to_numpy()

    def predict(self, X):
        numbers = self.predict_proba(X).argmax(1)
        return self.classes_[numbers]

    def score(self, X, y):
        return float((self.predict(X) == y).mean())

    def _framed(self, X):
        check_is_fitted(self)
        return framed(validate_data(self, X, reset=False, ensure_all_finite="allow-nan"))


def framed(X):
    n, codes = X.shape
    return pl.DataFrame(
        {
            "subject_id": np.repeat(np.arange(n), codes),
            "time": np.tile(1.0 + np.arange(codes), n),
            "code": np.tile([f"x{number}" for number in range(codes)], n),
            "numeric_value": X.astype(float).ravel(),
        }
    )


def array_classifier():
    knobs = Training(max_steps=8, lr=5e-2, ema_decay=0.1)
    return OnArrays(preset="tiny", base=None, n_bins=4, training=knobs, random_state=0)


# Asks that a row alone and among others get the same answer to 1e-7, closer than sums in single
# precision over batches of another size are; test_estimator.py asks for 1e-6.
TOO_CLOSE = "check_methods_subset_invariance"
CHECKS = [
    check
    for _, check in estimator_checks_generator(array_classifier())
    if check.func.__name__ != TOO_CLOSE
]
# Feed an array, which has neither stays nor times: they are run behind OnArrays.
FOR_ARRAYS = {
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_classifiers_regression_target",
    "check_classifiers_train",
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
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_n_features_in",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_requires_y_none",
    "check_supervised_y_2d",
}
every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.func.__name__)


@pytest.fixture(autouse=True)
def _array_api(monkeypatch):
    """Without the variable one check would be skipped."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@every_check
def test_the_classifier_behind_arrays_passes(check):
    check(array_classifier())


@every_check
def test_the_classifier_itself_passes_what_needs_no_array(check):
    """Those listed must fail, so that the list does not go stale."""
    if check.func.__name__ not in FOR_ARRAYS:
        check(MambaClassifier(preset="tiny", random_state=0))
        return
    with pytest.raises((AssertionError, TypeError, ValueError)):
        check(MambaClassifier(preset="tiny", random_state=0))


def test_every_listed_check_exists():
    assert {check.func.__name__ for check in CHECKS} >= FOR_ARRAYS


def nested(classifier):
    return {name: repr(value) for name, value in classifier.get_params().items()}


def test_a_clone_has_equal_parameters_and_shares_none_that_can_change():
    classifier = MambaClassifier(n_bins=7, base=None, training=Training(lr=0.1))
    copy = clone(classifier)
    assert nested(copy) == nested(classifier)
    copy.set_params(training__lr=0.2)
    assert classifier.training.lr == 0.1


def test_a_clone_is_not_fitted(fitted):
    assert not [name for name in vars(clone(fitted)) if name.endswith("_")]


def test_parameters_set_from_another_estimator_make_an_equal_one():
    classifier = MambaClassifier(causal=True, max_codes=3, training=Training(max_steps=3))
    assert nested(MambaClassifier().set_params(**classifier.get_params())) == nested(classifier)


def test_nested_parameters_reach_knobs_that_were_left_open():
    classifier = MambaClassifier().set_params(training__lr=0.1, n_bins=6)
    assert (classifier.training.lr, classifier.n_bins) == (0.1, 6)


@pytest.mark.parametrize("name", ["bins", "training__speed"])
def test_unknown_parameters_are_refused(name):
    with pytest.raises(ValueError, match="Invalid parameter"):
        MambaClassifier(training=Training()).set_params(**{name: 1})


def test_a_grid_of_parameters_can_be_tried(records, others):
    """Searches of scikit-learn split rows, not stays; a loop over the grid does not."""
    knobs = Training(max_steps=1)
    classifier = MambaClassifier(preset="tiny", base=None, training=knobs, random_state=0)
    grid = ParameterGrid({"n_bins": [2, 24], "training__max_steps": [1, 2]})
    fits = [clone(classifier).set_params(**point).fit(*records) for point in grid]
    assert len({fit.score(*others, metric="brier") for fit in fits}) == len(grid)
    assert knobs.max_steps == 1


def test_it_is_a_classifier_that_takes_missing_values_and_says_whether_it_repeats():
    assert is_classifier(MambaClassifier())
    tags = MambaClassifier().__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert not tags.input_tags.two_d_array
    assert tags.non_deterministic
    assert not MambaClassifier(random_state=0).__sklearn_tags__().non_deterministic


def test_it_shows_the_parameters_that_were_set(fitted):
    assert repr(MambaClassifier(n_bins=7)) == "MambaClassifier(n_bins=7)"
    html = estimator_html_repr(MambaClassifier(training=Training(lr=0.125)))
    assert all(part in html for part in ("MambaClassifier", "Training", "0.125", "Not fitted"))
    assert "Not fitted" not in estimator_html_repr(fitted)
