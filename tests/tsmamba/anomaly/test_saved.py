from datetime import datetime

import numpy as np
import polars as pl
import pytest
from safetensors import safe_open

from tsmamba import MambaDetector
from tsmamba.anomaly.calibration import Conformal, Drift, DriftSpot, Quantile, Rate, Spot
from tsmamba.anomaly.parts import from_parts, to_parts
from tsmamba.errors import FrameError, ModelFileError


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"contamination": np.float64(0.1), "delay": "p/2"},
        {"calibration": "quantile", "drift": Drift(patience=50)},
        {"calibration": Quantile(contamination=0.2)},
        {"calibration": Spot(q=1e-3, level=0.9)},
        {"calibration": DriftSpot(q=1e-3, level=0.9, depth=20)},
        {"calibration": Conformal(alpha=0.02, window=30)},
        {"calibration": Rate(per_day=3, steps_per_day=100)},
        {"preset": "tiny", "calibration": "conformal"},
        {"preset": "alerts"},
        {"preset": "alerts", "calibration": Quantile(least=1.5)},
        {"period": np.int64(20)},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_a_loaded_detector_is_the_saved_one(tmp_path, make_waves, make_quick, parameters, mode):
    x = make_waves(350, 2)
    detector = make_quick(mode=mode, **parameters).fit(x[:300])
    detector.save(tmp_path / "d")
    loaded = MambaDetector.load(tmp_path / "d")
    assert repr(loaded.get_params()) == repr(
        {
            name: getattr(value, "item", lambda value=value: value)()
            for name, value in detector.get_params().items()
        }
    )
    assert (loaded.plan_, loaded.offset_) == (detector.plan_, detector.offset_)
    for method in ("score_samples", "anomaly_score", "p_value", "explain", "predict"):
        found, expected = getattr(loaded, method)(x), getattr(detector, method)(x)
        np.testing.assert_array_equal(found, expected)
    streams = [each.stream().score_many(x) for each in (loaded, detector)]
    assert [r.score for r in streams[0]] == [r.score for r in streams[1]]
    assert loaded._model.identity == detector._model.identity


def test_names_and_pace_come_along(tmp_path, make_waves, make_quick):
    hours = pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 20), "1h", eager=True)
    x = make_waves(len(hours), 2)
    frame = pl.DataFrame({"when": hours, "a": x[:, 0], "b": x[:, 1]})
    gappy = frame[[*range(200), *range(230, 300)]]
    detector = make_quick(time_col="when", calibration="rate").fit(frame[:300])
    detector.save(tmp_path / "d")
    loaded = MambaDetector.load(tmp_path / "d")
    assert list(loaded.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(loaded.anomaly_score(gappy), detector.anomaly_score(gappy))
    with pytest.raises(FrameError, match=r"lacks \['b'\]"):
        loaded.anomaly_score(frame.drop("b"))
    assert not hasattr(make_quick().fit(x), "feature_names_in_")


def test_the_file_is_safetensors(tmp_path, tiny):
    tiny.save(tmp_path / "d")
    with safe_open(tmp_path / "d", framework="np") as file:
        assert file.metadata()["kind"] == "MambaDetector"


def test_a_damaged_file_is_refused(tmp_path, tiny):
    path = tmp_path / "d"
    tiny.save(path)
    whole = path.read_bytes()
    for data, message in (
        (whole[:-3], "not a whole model file"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "check sum does not match"),
        (whole.replace(b"tiny", b"auto", 1), "check sum does not match"),
        (b"\x80\x04N.", "not a whole model file"),
    ):
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=message):
            MambaDetector.load(path)
    with pytest.raises(ModelFileError, match="there is no model file"):
        MambaDetector.load(tmp_path / "none")


def test_a_model_of_several_channels_from_before_rows_were_compared_goes_on(make_waves, make_quick):
    x = make_waves(400, 3)
    model = make_quick().fit(x[:300])._model
    settings, arrays = to_parts(model)
    del arrays["joint"]
    older = from_parts(settings, arrays, Quantile())
    assert older.joint is None
    assert older.identity != model.identity
    own = older.offline_contributions(x)
    assert np.isfinite(own).all()
    together = np.square(model.joint.excess(model.units.apply(x), 300).sum(axis=1))
    expected = np.sqrt((2 * np.square(own.sum(axis=1)) + together) / 3)
    np.testing.assert_allclose(model.offline_contributions(x).sum(axis=1), expected)
