import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from tsmamba import MambaDetector
from tsmamba.anomaly.calibration import Drift, Spot
from tsmamba.errors import ParameterError


@pytest.fixture
def _array_api(monkeypatch):
    """Without the variable one check would be skipped."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@parametrize_with_checks([MambaDetector(preset="tiny")])
@pytest.mark.usefixtures("_array_api")
def test_the_detector_passes(estimator, check):
    check(estimator)


def test_a_clone_has_equal_parameters_and_no_fit():
    detector = MambaDetector("tiny", calibration=Spot(q=1e-3), drift=Drift(patience=5), period=7)
    copy = clone(detector.fit(np.arange(900.0)[:, None] % 7))
    assert repr(copy.get_params()) == repr(detector.get_params())
    assert copy.calibration is not detector.calibration
    assert not hasattr(copy, "n_features_in_")


def test_nested_parameters_can_be_set():
    detector = MambaDetector(calibration=Spot(), drift=Drift())
    detector.set_params(calibration__q=1e-5, drift__patience=7, memory_size=20)
    found = detector.calibration.q, detector.drift.patience, detector.memory_size
    assert found == (1e-5, 7, 20)
    with pytest.raises(ValueError, match="Invalid parameter"):
        detector.set_params(window=3)


def test_a_refused_fit_leaves_the_detector_as_it_was(make_waves, make_quick):
    x = make_waves(200)
    detector = make_quick().fit(x)
    before, state = detector.anomaly_score(x), dict(vars(detector))
    for bad in (x[:5], np.full((40, 1), np.inf), np.full((40, 1), np.nan), x[:, 0]):
        with pytest.raises(ValueError, match=r"16 rows|infinity|holds no value|2D array"):
            detector.fit(bad)
    with pytest.raises(ParameterError, match="delay='q'"):
        detector.set_params(delay="q").fit(x)
    assert vars(detector.set_params(delay=0)) == state
    np.testing.assert_array_equal(detector.anomaly_score(x), before)
