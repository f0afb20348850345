from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch
from safetensors import safe_open

from tsmamba import MambaDetector
from tsmamba.anomaly.calibration import Conformal, DriftSpot, Quantile, Rate, Spot
from tsmamba.errors import ModelFileError
from tsmamba.persistence import load_model

START = datetime(2024, 1, 1, tzinfo=UTC)


def plain(results):
    """Return results as tuples that compare bit for bit."""
    return [
        r._replace(channel_contrib=None if r.channel_contrib is None else tuple(r.channel_contrib))
        for r in results
    ]


@pytest.mark.parametrize("stamps", [False, True])
@pytest.mark.parametrize("delay", [0, 3])
def test_a_loaded_stream_continues_bit_for_bit(tmp_path, detectors, make_waves, delay, stamps):
    detector = detectors(5, delay)
    times = [START + timedelta(minutes=i) if stamps else i for i in range(240)]
    stream = detector.stream()
    for seed, key in enumerate(["a", None, "c"]):
        x = make_waves(180 - 60 * seed, 5, seed=seed)
        x[-2:] = np.nan
        x[-3, :2] = np.nan
        stream.score_many(x, times[: len(x)], key=key)
        stream.score_one(x[0], times[len(x) + 5], key=key)  # results wait after a gap
    stream.save(tmp_path / "s")
    loaded = detector.stream().load(tmp_path / "s")
    assert loaded.keys == stream.keys == ["a", None, "c"]
    assert loaded.nbytes == stream.nbytes
    rest = make_waves(50, 5, seed=9)
    for key in ("c", None, "a"):
        found, expected = (s.score_many(rest, times[190:], key=key) for s in (loaded, stream))
        assert plain(found) == plain(expected)


@pytest.mark.parametrize(
    "calibration",
    [
        Quantile(),
        Spot(q=1e-3),
        DriftSpot(q=1e-3, depth=20),
        Conformal(alpha=0.05, window=50),
        Rate(per_day=10, steps_per_day=100),
    ],
    ids=lambda calibration: type(calibration).__name__,
)
def test_thresholds_that_moved_go_on_from_where_they_were(tmp_path, rng, calibration):
    detector = MambaDetector("tiny", calibration=calibration).fit(rng.normal(size=(300, 1)))
    stream = detector.stream().seed(2 * rng.normal(size=(200, 1)))
    stream.save(tmp_path / "s")
    rest = rng.normal(size=(100, 1))
    loaded = detector.stream().load(tmp_path / "s")
    assert plain(loaded.score_many(rest)) == plain(stream.score_many(rest))


def test_a_stream_without_series_can_be_saved(tmp_path, tiny):
    tiny.stream().save(tmp_path / "s")
    assert tiny.stream().seed([[0, 0]]).load(tmp_path / "s").keys == []


def test_the_file_is_safetensors(tmp_path, tiny):
    tiny.stream().seed([[0, 0]]).save(tmp_path / "s")
    with safe_open(tmp_path / "s", framework="np") as file:
        assert file.metadata()["kind"] == "MambaDetector stream"


def refused(path, stream, message):
    """Expect a refusal that leaves the stream as it was."""
    stream.save(path.with_name("before"))
    with pytest.raises(ModelFileError, match=message):
        stream.load(path)
    stream.save(path.with_name("after"))
    (before, states), (after, kept) = (
        load_model(path.with_name(name), "MambaDetector stream") for name in ("before", "after")
    )
    assert after == before
    assert kept.keys() == states.keys()
    assert all(torch.equal(kept[name], states[name]) for name in states)


def test_a_damaged_file_is_refused(tmp_path, detectors, make_waves):
    stream, path = detectors().stream().seed(make_waves(150)), tmp_path / "s"
    stream.save(path)
    stream.seed(make_waves(20, seed=1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    refused(path, stream, "not a whole model file")
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused(path, stream, "check sum does not match")
    path.write_bytes(b"")
    refused(path, stream, "not a whole model file")
    refused(tmp_path / "none", stream, "there is no model file")


@pytest.mark.parametrize(
    "other",
    [
        {"contamination": 0.1},
        {"calibration": Spot()},
        {"period": 20},
        {"delay": 2},
        {"memory_size": 20},
    ],
    ids=str,
)
def test_the_file_of_another_detector_is_refused(tmp_path, make_quick, make_waves, other):
    x, path = make_waves(200), tmp_path / "s"
    detector = make_quick().fit(x)
    make_quick(**other).fit(x).stream().seed(x).save(path)
    refused(path, detector.stream().seed(x[:50]), "streams of another detector; load them with")
    make_quick().fit(x[1:]).stream().seed(x).save(path)
    refused(path, detector.stream().seed(x[:50]), "streams of another detector; load them with")


def test_the_file_of_an_equal_detector_is_accepted(tmp_path, make_quick, make_waves):
    x = make_waves(200)
    make_quick().fit(x).stream().seed(x).save(tmp_path / "s")
    assert make_quick().fit(x).stream().load(tmp_path / "s").keys == [None]


def test_a_stream_and_a_detector_do_not_load_each_other(tmp_path, tiny):
    tiny.save(tmp_path / "d")
    tiny.stream().seed([[0, 0]]).save(tmp_path / "s")
    refused(tmp_path / "d", tiny.stream(), "holds a MambaDetector; load it with that class")
    with pytest.raises(ModelFileError, match="holds a MambaDetector stream"):
        MambaDetector.load(tmp_path / "s")


def test_a_folder_that_is_not_there_is_named(tmp_path, tiny):
    with pytest.raises(ModelFileError, match=r"cannot write .*none"):
        tiny.stream().save(tmp_path / "none" / "s")
