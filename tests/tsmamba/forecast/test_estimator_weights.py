"""Sample weights: what counts less teaches less, and nothing else changes."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba.errors import FrameError

POINT = "MambaForecaster"


@pytest.fixture(scope="module")
def single(seasonal):
    return seasonal.filter(unique_id=seasonal["unique_id"][0]).drop("unique_id").head(1_200)


def shuffled(frame, stretch):
    """Exchange values within a stretch, which keeps mean and scale; weights are zero there."""
    y, weight = frame["y"].to_numpy().copy(), np.ones(frame.height)
    np.random.default_rng(0).shuffle(y[stretch])
    weight[stretch] = 0
    return frame.with_columns(y=pl.Series(y), w=pl.Series(weight))


@pytest.fixture(scope="module")
def broken(single):
    return shuffled(single, slice(0, 400))


def test_what_has_no_weight_teaches_nothing(base, single):
    """No window with a weight has any of the last 300 steps in its history."""
    broken = shuffled(single, slice(-300, None))
    clean = broken.with_columns(single["y"])

    def moved(**kwargs):
        one, other = (base(**kwargs).fit(x).predict(single)[POINT] for x in (clean, broken))
        return (one - other).abs().mean()

    assert moved(weight_col="w") < 0.1 * moved()


@pytest.mark.parametrize("mode", ["small", "base"])
@pytest.mark.parametrize("weight", [1, 1.0, 7.5])
def test_equal_weights_change_nothing(request, single, mode, weight):
    make = request.getfixturevalue(mode)
    plain = make().fit(single).predict()
    out = make(weight_col="w").fit(single.with_columns(w=pl.lit(weight))).predict()
    exact = weight == 1
    assert_frame_equal(out, plain, check_exact=exact, abs_tol=0.01)


def test_only_a_fit_reads_the_weights(base, broken):
    forecaster = base(weight_col="w").fit(broken)
    assert_frame_equal(forecaster.predict(broken.drop("w")), forecaster.predict(), abs_tol=1e-3)


def test_newer_rows_need_no_weights(base, broken):
    forecaster = base(weight_col="w").fit(broken.head(-48))
    newer = broken.tail(48)
    assert forecaster.score(newer.drop("w")) == forecaster.score(newer)
    whole = forecaster.predict(broken)
    assert_frame_equal(forecaster.update(newer.drop("w")).predict(), whole, abs_tol=1e-3)


@pytest.mark.parametrize("refit", [False, True])
def test_a_backtest_fits_with_the_weights(base, broken, refit):
    frames = [
        base(weight_col=name).cross_validation(broken, n_windows=2, refit=refit)
        for name in ("w", None)
    ]
    errors = [(frame["y"] - frame[POINT]).abs().mean() for frame in frames]
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (lambda frame: frame.drop("w"), "no weight column 'w'"),
        (lambda frame: frame.with_columns(w=-pl.col("w")), "'w'"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(base, broken, frame, message):
    with pytest.raises(FrameError, match=message):
        base(weight_col="w").fit(frame(broken))
