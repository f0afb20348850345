import numpy as np
import polars as pl
import pytest

from tsmamba.anomaly.adapters import PyodDetector, PysadModel, RiverDetector
from tsmamba.errors import FrameError


@pytest.fixture(scope="module")
def named(make_waves, make_quick):
    x = make_waves(300, 2)
    return make_quick().fit(pl.DataFrame({"a": x[:, 0], "b": x[:, 1]}))


@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_the_view_of_pyod_has_its_labels_and_signs(make_waves, make_quick, mode):
    x = make_waves(400, seed=1)
    x[300:303] += 5
    detector = make_quick(mode=mode)
    view = detector.as_pyod().fit(x[:250])
    assert isinstance(view, PyodDetector)
    scores = view.decision_function(x)
    np.testing.assert_array_equal(scores, np.nan_to_num(detector.anomaly_score(x)))
    np.testing.assert_array_equal(view.predict(x), scores > view.threshold_)
    assert set(view.predict(x)) == {0, 1}
    np.testing.assert_array_equal(view.decision_scores_, view.decision_function(x[:250]))
    np.testing.assert_array_equal(view.labels_, view.predict(x[:250]))


def test_river_scores_and_learns_each_row_once(named, make_waves):
    rows = [{"b": b, "a": a} for a, b in make_waves(150, 2, seed=1)]
    stream = named.stream()
    expected = [stream.score_one(row).score or 0.0 for row in rows]
    assert not any(expected[:10])
    assert any(expected)
    both = RiverDetector(named.stream())
    found = []
    for row in rows:
        found.append(both.score_one(row))
        both.learn_one(row)
    assert found == pytest.approx(expected)
    learnt = RiverDetector(named.stream())
    for row in rows[:100]:
        learnt.learn_one(row)
    assert [learnt.score_one(row) for row in rows[100:]] == pytest.approx(expected[100:])
    with pytest.raises(FrameError, match=r"lacks \['b'\]"):
        both.score_one({"a": 1.0})


def test_pysad_scores_arrays(named, make_waves):
    x = make_waves(150, 2, seed=1)
    model, stream = PysadModel(named.stream()), named.stream()
    expected = [stream.score_one(row).score or 0.0 for row in x]
    found = [model.fit_partial(row).score_partial(row) for row in x[:75]]
    found += [model.fit_score_partial(row) for row in x[75:]]
    assert found == expected
    assert any(found)
