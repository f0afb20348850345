import pytest

from tsmamba import MambaDetector
from tsmamba.anomaly.calibration import Conformal, Drift, DriftSpot, Quantile, Rate, Spot
from tsmamba.anomaly.defaults import calibration_for, drift_for
from tsmamba.errors import ParameterError


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"preset": "best"}, r"preset='best'; pass one of 'auto', 'alerts', 'tiny'"),
        (
            {"preset": "alerts", "delay": "p/4"},
            r"delay='p/4' with preset='alerts', .*; leave delay",
        ),
        ({"mode": "online"}, r"mode='online'; pass one of 'offline', 'streaming'"),
        (
            {"delay": "p/3"},
            r"delay='p/3'; pass a whole number of rows, 0 or more, or one of 'p/4', 'p/2', 'p'",
        ),
        ({"delay": -1}, r"delay=-1; pass a whole number of rows, 0"),
        ({"delay": 1.5}, r"delay=1.5; pass a whole number"),
        ({"delay": True}, r"delay=True; pass a whole number"),
        (
            {"delay": "p/4", "preset": "tiny"},
            r"delay='p/4' with preset='tiny', .* leave delay at 0",
        ),
        ({"period": 0}, r"period=0; pass a whole number of 1 or more"),
        ({"period": True}, r"period=True; pass a whole number"),
        ({"memory_size": 15}, r"memory_size=15; pass a whole number of 16 or more"),
        ({"contamination": 0.6}, r'contamination=0.6; pass "auto" or a share of rows in \(0, 0.5'),
        ({"contamination": 0}, r"contamination=0; pass"),
        ({"contamination": "none"}, r"contamination='none'; pass"),
        ({"contamination": 0.1, "calibration": "spot"}, r"leave one of them out"),
        ({"calibration": "pot"}, r"calibration='pot'; pass one of 'quantile', 'spot'"),
        ({"calibration": 3}, r"calibration=3; pass one of .* with settings of your own"),
        ({"calibration": Spot(q=2)}, r"Spot: q=2"),
        ({"calibration": Quantile(least=0)}, r"Quantile: least=0; pass a number above 0 or None"),
        ({"drift": 5}, r"drift=5; pass a Drift or None"),
        ({"drift": Drift(patience=1)}, r"Drift: patience=1"),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_fit_and_named(make_waves, parameters, message):
    with pytest.raises(ParameterError, match=message):
        MambaDetector(**parameters).fit(make_waves(100))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (None, Quantile),
        ("quantile", Quantile),
        ("spot", Spot),
        ("dspot", DriftSpot),
        ("conformal", Conformal),
        ("rate", Rate),
    ],
)
def test_a_name_stands_for_its_calibration(name, kind):
    assert type(calibration_for(name, "auto")) is kind


def test_a_calibration_of_ones_own_is_taken_as_it_is():
    own, drift = Spot(q=1e-3), Drift(patience=9)
    assert calibration_for(own, "auto") is own
    assert drift_for(drift) is drift
    assert calibration_for(None, 0.1).contamination == 0.1
    assert calibration_for(None, "auto", 2.0).least == 2.0
    assert calibration_for(None, 0.1, 2.0).least is None
    assert drift_for(None).patience == Drift().patience
