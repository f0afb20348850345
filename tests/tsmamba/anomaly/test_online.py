from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from tsmamba import MambaDetector
from tsmamba.anomaly.calibration import Quantile
from tsmamba.anomaly.online import least_threshold

QUIET = 150


def fitted(make_waves, channels=1, **parameters):
    return MambaDetector("alerts", **parameters).fit(make_waves(500, channels))


@pytest.fixture(scope="module")
def alerts(make_waves):
    """Return a function from channels to a detector, not to be changed."""
    made = {n: fitted(make_waves, n) for n in (1, 5)}
    return made.__getitem__


def later(make_waves, n, channels=1):
    """Return the rows that come after those of the fit."""
    return make_waves(500 + n, channels)[500:]


def scores_of(results):
    return np.array([np.nan if r.score is None else r.score for r in results])


@pytest.mark.parametrize("channels", [1, 5])
def test_one_by_one_in_chunks_and_at_once_are_equal(alerts, make_waves, channels):
    detector, x = alerts(channels), make_waves(220, channels, seed=1)
    x[150, 0] += 4
    x[60:63, 0] = np.nan
    x[90:92] = np.nan
    one, many = detector.stream(), detector.stream()
    found, chunked, start = [one.score_one(row) for row in x], [], 0
    for size in (1, 7, 64, 1, 60, 87):
        chunked += many.score_many(x[start : start + size])
        start += size
    batch = detector.anomaly_score(x)
    for scores in (scores_of(found), scores_of(chunked)):
        np.testing.assert_array_equal(scores, batch)
    np.testing.assert_array_equal(np.isnan(batch), np.isnan(x).all(axis=1))
    assert {r.status for r in found} == {"ok", "missing"}
    parts = detector.explain(x)
    np.testing.assert_allclose(parts.sum(axis=1), batch)
    assert ((parts > 0).sum(axis=1) <= 3).all()


def test_many_series_at_once_are_each_by_itself(alerts, make_waves):
    detector = alerts(5)
    series = {key: make_waves(60, 5, seed=seed) for seed, key in enumerate("ab", start=1)}
    together, alone = detector.stream(), detector.stream()
    for i in range(60):
        found = together.score_batch({key: x[i] for key, x in series.items()})
        for key, x in series.items():
            assert found[key].score == alone.score_one(x[i], key=key).score


def test_a_stream_goes_on_where_the_fit_ended(make_waves):
    x = make_waves(900, seed=3)
    x[700] += 3
    short, long = (
        MambaDetector("alerts", calibration=Quantile(least=2.0)).fit(x[:n]) for n in (500, 600)
    )
    # In units of the fit, which differ a little, ranks are the same.
    one, other = short.score_samples(x[500:])[100:], long.score_samples(x[600:])
    np.testing.assert_allclose(one, other, atol=0.05)
    assert np.argmin(one) == np.argmin(other) == 100


def test_each_channel_counts_by_itself(alerts, make_waves):
    x = make_waves(200, 5, seed=1)
    other = x.copy()
    other[:, 1:] += 50
    detector = alerts(5)
    surprise = [
        detector._model.causal.advance(
            [detector._model.causal.start()], detector._model.units.apply(each)[None]
        )[0]
        for each in (x, other)
    ]
    first = [each[0, 0] for each in surprise]
    assert first[0] == first[1]
    assert (surprise[1][0, 1:] > surprise[0][0, 1:]).all()


def test_rows_to_come_change_nothing(alerts, make_waves):
    x = make_waves(200, 5, seed=2)
    changed = x.copy()
    changed[150:] = 99.0
    before, after = (alerts(5).anomaly_score(each) for each in (x, changed))
    np.testing.assert_array_equal(after[:150], before[:150])
    assert after[150] > 1


def test_the_beginning_is_the_alert(alerts, make_waves):
    x = later(make_waves, 500)
    x[100:140] += 6
    x[400:] -= 6
    scores = alerts(1).anomaly_score(x)
    alarms = np.flatnonzero(scores >= 1)
    assert {100, 400} <= set(alarms)
    assert len(alarms) < 12
    samples = -alerts(1).score_samples(x)
    for i in alarms:
        assert samples[i] >= samples[max(0, i - QUIET + 1) : i + 1].max()


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_one_channel_alone_may_alert(make_waves, channels):
    detector, x = fitted(make_waves, channels), later(make_waves, 100, channels)
    x[50, 0] += 20
    assert detector.predict(x)[50] == -1
    assert detector.explain(x)[50].argmax() == 0
    assert -detector.offset_ >= least_threshold(channels)


@pytest.mark.parametrize("level", [0.0, 0.1, 5.0, -1e6])
def test_a_series_that_never_changes_is_normal_and_a_change_is_not(level):
    x = np.full((200, 2), level)
    detector = MambaDetector("alerts").fit(x)
    assert (detector.predict(x) == 1).all()
    changed = x.copy()
    changed[60] += 1 + abs(level)
    assert detector.predict(changed)[60] == -1
    assert (detector.predict(changed) == -1).sum() < 5


def test_normal_rows_seldom_alert(rng):
    x = rng.normal(size=(6_000, 1))
    found = MambaDetector("alerts").fit(x[:2_000]).predict(x[2_000:])
    assert (found == -1).sum() <= 8


@pytest.mark.parametrize("value", [1e7, 1e20, 1.7e308])
def test_a_value_far_out_does_not_drown_the_rows_after_it(alerts, make_waves, value):
    x = later(make_waves, 400)
    x[50] = value
    x[300] -= 6
    scores = alerts(1).anomaly_score(x)
    assert np.isfinite(scores).all()
    assert scores[50] > 1
    assert scores[200:].argmax() == 100


@pytest.mark.parametrize("gap", [1, 30, 59, 60, 61, 400])
def test_a_row_left_out_is_a_missing_row(make_waves, gap):
    start = datetime(2024, 1, 1)
    x = make_waves(700 + gap, seed=6)
    ds = [start + timedelta(hours=i) for i in range(len(x))]
    frame = pl.DataFrame({"ds": ds, "y": x[:, 0]})
    detector = MambaDetector("alerts").fit(frame[:500])
    kept = frame[[*range(500, 600), *range(600 + gap, len(x))]]
    told = frame[500:].with_columns(
        y=pl.when(pl.int_range(500, len(x)).is_between(600, 599 + gap)).then(None).otherwise("y")
    )
    expected = detector.anomaly_score(told)
    assert np.isnan(expected[100 : 100 + gap]).all()
    expected = expected[~np.isnan(expected)]
    np.testing.assert_array_equal(detector.anomaly_score(kept), expected)
    streamed = detector.stream().score_many(kept.select("y"), kept["ds"].to_list())
    np.testing.assert_array_equal(scores_of(streamed), expected)


def test_in_a_short_gap_time_goes_by_as_expected_and_nothing_is_learnt(alerts, make_waves):
    scorer, units = alerts(1)._model.causal, alerts(1)._model.units
    before, after = scorer.start(), scorer.start()
    scorer.advance([after], np.full((1, 12, 1), np.nan))
    old, new = before.arrays(), after.arrays()
    for name in ("ranks", "weights", "covariance"):
        np.testing.assert_array_equal(new[name], old[name])
    expected = units.apply(later(make_waves, 12))[:, 0]
    np.testing.assert_allclose(new["trail"][0, 0, 500:512], expected, atol=0.3)


@pytest.mark.parametrize("channels", [1, 5])
@pytest.mark.parametrize("gap", [1, 4, 16, 50])
def test_a_gap_is_no_alert_and_an_anomaly_after_it_is(alerts, make_waves, channels, gap):
    x = later(make_waves, 400, channels)
    x[200 : 200 + gap] = np.nan
    scores = alerts(channels).anomaly_score(x)
    assert np.nanmax(scores[150:300]) < 1
    x[210 + gap] += 9
    assert alerts(channels).anomaly_score(x)[210 + gap] > 1


def test_rows_missing_in_the_fit_set_no_threshold(make_waves):
    x = make_waves(600)
    gappy = np.insert(x, 300, np.full((2_000, 1), np.nan), axis=0)
    one, other = (MambaDetector("alerts", contamination=0.05).fit(rows) for rows in (x, gappy))
    assert other.offset_ == pytest.approx(one.offset_, rel=0.05)


def test_values_that_were_always_sparse_are_enough(make_waves, rng):
    x = make_waves(1_500)
    x[rng.random(1_500) < 0.6] = np.nan
    x[1_200] = 9.0
    found = MambaDetector("alerts").fit(x[:600]).predict(x[600:])
    assert found[600] == -1
    assert (found == -1).sum() < 5


def test_after_a_long_gap_only_what_needs_a_past_waits(alerts, make_waves):
    detector = alerts(1)
    stream = detector.stream().seed(np.full((61, 1), np.nan))
    assert stream.score_one(50.0).is_anomaly is False
    assert stream.seed(make_waves(60, seed=7)).score_one(50.0).is_anomaly is True


def test_a_missing_channel_says_nothing_and_learns_nothing(alerts, make_waves):
    x = make_waves(200, 5, seed=8)
    x[:, 2] = np.nan
    detector = alerts(5)
    parts = detector.explain(x)
    assert np.isfinite(parts).all()
    assert (parts[:, 2] == 0).all()


def test_a_loaded_stream_continues_bit_for_bit(tmp_path, alerts, make_waves):
    detector, stream = alerts(5), alerts(5).stream()
    for seed, key in enumerate(["a", None], start=1):
        x = make_waves(120, 5, seed=seed)
        x[-2:] = np.nan
        stream.score_many(x, key=key)
    stream.save(tmp_path / "s")
    loaded = detector.stream().load(tmp_path / "s")
    assert loaded.nbytes == stream.nbytes
    for key in (None, "a"):
        rest = make_waves(60, 5, seed=9)
        found, expected = (scores_of(s.score_many(rest, key=key)) for s in (loaded, stream))
        np.testing.assert_array_equal(found, expected)


def test_the_state_does_not_grow(make_waves):
    detector = MambaDetector("alerts").fit(make_waves(8_500))
    stream = detector.stream()
    stream.score_one(0.0)
    before = stream.nbytes
    for _ in range(2):
        stream.score_many(make_waves(300))
        assert stream.nbytes == before > 0
    states = [fitted(make_waves)._model.causal.start(), detector._model.causal.start()]
    shapes = [{name: part.shape for name, part in each.arrays().items()} for each in states]
    assert shapes[0] == shapes[1]


def test_channels_in_another_order_score_the_same(make_waves):
    x, order = make_waves(700, 5, seed=1), [3, 0, 4, 2, 1]
    one = MambaDetector("alerts").fit(x[:500]).anomaly_score(x[500:])
    other = MambaDetector("alerts").fit(x[:500, order]).anomaly_score(x[500:, order])
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_an_episode_closes_below_half_way_to_its_opening(alerts, make_waves):
    x = later(make_waves, 300)
    x[100] += 6
    scores = alerts(1).anomaly_score(x)
    usual = alerts(1)._model.causal_calibrator.law.quantile(0.5) / -alerts(1).offset_
    (episode,) = alerts(1).episodes(x).to_dicts()
    assert episode["start"] == 100
    assert scores[episode["end"] + 1] < max(0.8, (1 + usual) / 2) <= scores[episode["end"]]


def test_a_frame_brings_its_times_and_every_row_is_answered(make_waves):
    ds = [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(700)]
    frame = pl.DataFrame({"ds": ds, "y": make_waves(700)[:, 0]})
    detector = MambaDetector("alerts").fit(frame[:500])
    kept = frame[500:].filter(~pl.int_range(200).is_between(50, 79))
    found = detector.stream().score_many(kept)
    assert [r.t for r in found] == kept["ds"].to_list()
    np.testing.assert_array_equal(scores_of(found), detector.anomaly_score(kept))


def test_either_mode_is_streaming(make_waves):
    x = make_waves(600)
    found = [
        MambaDetector("alerts", mode=mode).fit(x[:500]).anomaly_score(x)
        for mode in ("offline", "streaming")
    ]
    np.testing.assert_array_equal(*found)
