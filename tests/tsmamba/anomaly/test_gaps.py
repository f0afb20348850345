import numpy as np
import pytest

from tsmamba.anomaly.gaps import sparse

START = 500
MODES = [("offline", 0), ("streaming", 0), ("streaming", "p/2")]


@pytest.mark.parametrize(("oldest", "newest"), [(0, 0), (3, 0), (9, 4)])
def test_sparse_rows_have_less_than_half_of_the_usual_values(rng, oldest, newest):
    absent, usual = rng.random((200, 3)) < [0.1, 0.5, 0.9], np.array([1.0, 0.5, 0.1])
    found = sparse(absent, 150, [(oldest, newest)], usual)
    for row, channels in enumerate(found):
        at = 50 + row
        known = (~absent[at - oldest : at - newest + 1]).mean(axis=0)
        np.testing.assert_array_equal(channels, known < usual / 2)
    assert found.any()
    assert not found.all()


def test_any_stretch_makes_a_row_sparse(rng):
    absent = rng.random((60, 2)) < 0.4
    both = sparse(absent, 40, [(5, 0), (12, 3)], np.ones(2))
    either = sparse(absent, 40, [(5, 0)], np.ones(2)) | sparse(absent, 40, [(12, 3)], np.ones(2))
    np.testing.assert_array_equal(both, either)
    assert not sparse(np.zeros((60, 2), dtype=bool), 40, [(5, 0)], np.ones(2)).any()


def test_series_at_once_are_sparse_as_each_by_itself(rng):
    absent, usual = rng.random((4, 60, 2)) < 0.4, np.array([1.0, 0.5])
    found = sparse(absent, 40, [(5, 0), (12, 3)], usual)
    alone = [sparse(one, 40, [(5, 0), (12, 3)], usual) for one in absent]
    np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize(("mode", "delay"), MODES)
@pytest.mark.parametrize("periods", [0.25, 0.5, 1, 3])
def test_a_gap_is_no_alert(make_waves, make_quick, mode, delay, periods):
    x = make_waves(900, 2, seed=1)
    detector = make_quick(mode=mode, delay=delay).fit(x[:400])
    x[START : START + int(16 * periods)] = np.nan
    scores = detector.anomaly_score(x)[START - 50 : START + 120]
    assert np.nanmax(scores) < 1
    assert np.isfinite(scores).sum() > 50


@pytest.mark.parametrize(("mode", "delay"), MODES)
def test_an_anomaly_right_after_a_gap_is_an_alert(make_waves, make_quick, mode, delay):
    x = make_waves(900, 2)
    detector = make_quick(mode=mode, delay=delay).fit(x[:400])
    x[START : START + 8] = np.nan
    x[START + 12 : START + 20] += 9
    assert (detector.predict(x)[START : START + 30] == -1).any()


def test_looking_both_ways_rows_far_inside_a_gap_have_no_score(make_waves, make_quick):
    x = make_waves(900, 2)
    detector = make_quick().fit(x[:400])
    width = detector.plan_.width
    x[START : START + 3 * width] = np.nan
    scores = detector.anomaly_score(x)
    gone = np.flatnonzero(np.isnan(scores))
    assert START <= gone.min() <= START + width
    assert START + 2 * width <= gone.max() < START + 3 * width
    assert (np.diff(gone) == 1).all()
    assert (detector.predict(x)[gone] == 1).all()
    assert np.isnan(detector.p_value(x)[gone]).all()
    assert np.isnan(detector.explain(x)[gone]).all()
    assert len(detector.episodes(x)) < 5


@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_a_channel_that_is_gone_says_nothing(make_waves, make_quick, mode):
    x = make_waves(900, 3)
    detector = make_quick(mode=mode).fit(x[:400])
    x[START : START + 100, 1] = np.nan
    parts = detector.explain(x)
    assert np.isfinite(parts[START:]).all()
    assert (parts[START + 20 : START + 80, 1] == 0).all()
    assert (parts[START + 20 : START + 80, [0, 2]] > 0).any()


@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_values_that_were_always_sparse_are_enough(make_waves, make_quick, rng, mode):
    x = make_waves(900)
    x[rng.random(900) < 0.6] = np.nan
    scores = make_quick(mode=mode).fit(x[:400]).anomaly_score(x)
    there = ~np.isnan(x[:, 0])
    there[:100] = False
    assert np.isfinite(scores[there]).mean() > 0.8
