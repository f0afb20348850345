"""scikit-learn's own checks of the regressor, behind arrays."""

import numpy as np
import polars as pl
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from tests.tsmamba.outcomes.test_sklearn import TOO_CLOSE, framed
from tsmamba import MambaRegressor, Training


class OnArrays(MambaRegressor):
    """The regressor behind arrays: a row is a stay, a column is measured at its number's hour."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.regressor_tags.poor_score = True  # after eight steps
        return tags

    def fit(self, X, y):
        X, y = validate_data(
            self, X, y, ensure_all_finite="allow-nan", ensure_min_samples=2, y_numeric=True
        )
        labels = pl.DataFrame({"subject_id": range(len(y)), "label": y})
        return super().fit(framed(X), labels)

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan")
        return super().predict(framed(X))["label"].to_numpy()

    def score(self, X, y):
        return 1 - float(np.square(self.predict(X) - y).mean() / np.var(y))


def array_regressor():
    knobs = Training(max_steps=8, lr=5e-2, ema_decay=0.1)
    return OnArrays(preset="tiny", base=None, n_bins=4, training=knobs, random_state=0)


CHECKS = [
    check
    for _, check in estimator_checks_generator(array_regressor())
    if check.func.__name__ != TOO_CLOSE
]


@pytest.fixture(autouse=True)
def _array_api(monkeypatch):
    """Without the variable one check would be skipped."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.func.__name__)
def test_the_regressor_behind_arrays_passes(check):
    check(array_regressor())
