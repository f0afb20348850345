import time
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from tsmamba.anomaly.calibration import Drift
from tsmamba.errors import FrameError, ParameterError

START = datetime(2024, 1, 1)


def plain(results):
    """Return results as tuples that compare bit for bit."""
    return [
        r._replace(channel_contrib=None if r.channel_contrib is None else tuple(r.channel_contrib))
        for r in results
    ]


def score_of(result):
    return np.nan if result.score is None else result.score


def same(one, other):
    """Tell whether scores are equal but for rounding, and missing together."""
    return score_of(one) == pytest.approx(score_of(other), rel=1e-9, abs=1e-9, nan_ok=True)


def hours(rows):
    return [START + timedelta(hours=int(row)) for row in rows]


@pytest.fixture(scope="module", params=["integers", "stamps"])
def timed(request, make_waves, make_quick):
    """Return a detector that knows the pace of its rows, and the times of some row numbers."""
    times = hours if request.param == "stamps" else lambda rows: [10 * int(row) for row in rows]
    x = make_waves(300, 2)
    frame = pl.DataFrame({"ds": times(range(300)), "a": x[:, 0], "b": x[:, 1]})
    return make_quick(delay=3).fit(frame), times


def test_the_memory_of_a_stream_does_not_grow(detectors, make_waves):
    stream = detectors(5, 3).stream()
    stream.score_many(make_waves(10, 5))
    before = stream.nbytes
    for _ in range(3):
        stream.score_many(make_waves(1_000, 5))
        assert stream.nbytes == before > 0
    stream.score_many(make_waves(5, 5), key="other")
    assert stream.nbytes == 2 * before


@pytest.mark.parametrize("gap", [1, 4, 30])
def test_a_row_left_out_is_a_missing_row(timed, make_waves, gap):
    detector, times = timed
    x = make_waves(400, 2, seed=1)
    first, after = range(90), range(90 + gap, 90 + gap + 60)
    told, left_out = detector.stream(), detector.stream()
    given = x.copy()
    given[90 : 90 + gap] = np.nan
    rows = range(90 + gap + 60)
    extended = np.concatenate([given, make_waves(150, 2, seed=2)])[: len(rows)]
    expected = {r.t: r for r in told.score_many(extended, times(rows))}
    kept = [*first, *after]
    found = left_out.score_many(extended[kept], times(kept))
    assert [r.t for r in found] == [None] * 3 + times(kept)[:-3]
    assert plain(found[3:]) == plain([expected[r.t] for r in found[3:]])
    one_by_one = detector.stream()
    single = [one_by_one.score_one(extended[i], t) for i, t in zip(kept, times(kept), strict=True)]
    assert all(same(one, other) for one, other in zip(single, found, strict=True))
    assert [r.t for r in single] == [r.t for r in found]


def test_rows_that_wait_when_a_gap_begins_get_their_results(timed, make_waves):
    detector, times = timed
    x, rows = make_waves(195, 2), [*range(150), *range(400, 445)]
    stream = detector.stream().seed(x[:150], times(rows[:150]))
    found = stream.score_many(x[150:], times(rows[150:]))
    assert [r.t for r in found] == times(rows)[147:-3]
    assert [r.status for r in found[:4]] == ["ok"] * 3 + ["warmup"]


def test_a_stream_scores_rows_as_its_detector_does_even_around_gaps(make_waves, make_quick):
    x = make_waves(400, 2)
    frame = pl.DataFrame({"ds": hours(range(400)), "a": x[:, 0], "b": x[:, 1]})
    detector = make_quick(mode="streaming", delay=5).fit(frame)
    kept = frame.filter(~pl.int_range(pl.len()).is_in([*range(200, 203), *range(300, 340)]))
    found = detector.stream().score_many(kept)[5:]
    scores = detector.anomaly_score(kept)[: len(found)]
    np.testing.assert_allclose([score_of(r) for r in found], scores, rtol=1e-9)
    assert np.isfinite(scores).sum() > 200


def test_after_a_gap_however_long_all_begins_anew(timed, make_waves):
    detector, times = timed
    x, fresh = make_waves(200, 2, seed=1), detector.stream()
    for gap in (500, 10**6):
        stream = detector.stream().seed(x, times(range(200)))
        later = times(range(200 + gap, 400 + gap))
        found, expected = stream.score_many(x, later), detector.stream().score_many(x, later)
        assert [r.status for r in found[4:]] == [r.status for r in expected[4:]]
        assert same(found[-1], expected[-1])
        assert stream.nbytes == fresh.seed(x).nbytes


def test_a_missing_row_has_no_score_and_rows_after_it_have(detectors, make_waves):
    stream, x = detectors().stream().seed(make_waves(200)), make_waves(30, seed=1)
    x[10:12] = np.nan
    found = [r.status for r in stream.score_many(x)]
    assert found == ["ok"] * 10 + ["missing"] * 2 + ["ok"] * 18


def test_a_gap_longer_than_the_past_needs_a_warm_up_again(detectors, make_waves):
    detector = detectors()
    causal = detector._model.causal
    found = {}
    for gap in (causal.past, causal.past + 1):
        stream = detector.stream().seed(make_waves(200))
        stream.score_many(np.full((gap, 1), np.nan))
        found[gap] = [r.status for r in stream.score_many(make_waves(200, seed=1))]
    half = max(block.width for block in detector.plan_.streaming) // 2
    assert found[causal.past] == ["missing"] * (half - 1) + ["ok"] * (201 - half)
    assert found[causal.past + 1] == ["warmup"] * causal.warm_up + ["ok"] * (200 - causal.warm_up)


def test_a_row_has_no_score_while_half_of_a_patch_before_it_is_missing(detectors, make_waves):
    detector, x = detectors(), make_waves(300, seed=1)
    widths = [block.width for block in detector.plan_.streaming]
    for gap in (2, 7, 20):
        rows = x.copy()
        rows[200 : 200 + gap] = np.nan
        gone = np.isnan(rows[:, 0])
        results = detector.stream().score_many(rows)
        for i in range(150, 300):
            lost = any(2 * gone[i - width + 1 : i + 1].sum() > width for width in widths)
            assert (results[i].status == "missing") == (gone[i] or lost)
            assert (results[i].score is None) == (gone[i] or lost)


def test_a_missing_row_is_missing_at_the_start_and_without_any_past(detectors, tiny):
    assert detectors().stream().score_one(np.nan).status == "missing"
    results = tiny.stream().score_many([[0, 0], [None, None], [0, 0]])
    assert [r.status for r in results] == ["ok", "missing", "ok"]
    assert results[1].score is results[1].p_value is results[1].channel_contrib is None
    assert not results[1].is_anomaly


def test_a_missing_channel_repeats_its_period(detectors, make_waves):
    detector, x = detectors(5), make_waves(250, 5)
    period = detector.plan_.repeat
    again, partial = x.copy(), x.copy()
    again[230:233, 2] = x[230 - period : 233 - period, 2]
    partial[230:233, 2] = np.nan
    results = detector.stream().score_many(partial.tolist())
    expected = detector.stream().score_many(again)
    for i, (found, other) in enumerate(zip(results, expected, strict=True)):
        if i in (232, 233):  # of a patch of four rows more than half is missing
            assert found.channel_contrib[2] == 0
        else:
            assert same(found, other)


def test_a_channel_without_a_period_keeps_its_last_value(rng, make_quick):
    x = np.cumsum(rng.normal(size=(600, 1)), axis=0)
    detector = make_quick(period=64).fit(x[:400])
    assert detector.plan_.repeat == 0
    held, gone = x.copy(), x.copy()
    held[500:504], gone[500:504] = x[499], np.nan
    found, expected = (detector.stream().score_many(rows) for rows in (gone, held))
    assert all(r.status == "missing" for r in found[500:504])
    assert all(same(*pair) for pair in zip(found[504:], expected[504:], strict=True))


def test_with_a_delay_a_result_has_the_time_of_the_row_it_is_of(timed, make_waves):
    detector, times = timed
    results = detector.stream().score_many(make_waves(200, 2), times(range(200)))
    assert [r.t for r in results] == [None] * 3 + times(range(197))


@pytest.mark.parametrize("kind", [pl.Datetime("us"), pl.Date, pl.Int64])
def test_a_frame_brings_its_times(make_waves, make_quick, kind):
    x = make_waves(500, 2)
    days = pl.Series([START + timedelta(days=i) for i in range(500)])
    when = pl.Series(range(500)) if kind == pl.Int64 else days.cast(kind)
    frame = pl.DataFrame({"when": when, "a": x[:, 0], "b": x[:, 1], "name": "pump"})
    detector = make_quick(time_col="when", id_col="name").fit(frame.head(150))
    kept = frame.filter(~pl.int_range(pl.len()).is_between(200, 299))
    told = detector.stream().seed(frame.head(150))
    times = range(500) if kind == pl.Int64 else days.to_list()
    beside = detector.stream().seed(x[:150], list(times[:150]))
    late = [*range(150, 200), *range(300, 500)]
    found = told.score_many(kept.tail(-150).to_pandas() if kind != pl.Date else kept.tail(-150))
    expected = beside.score_many(x[late], [times[i] for i in late])
    assert plain(found) == plain(expected)
    assert {"warmup", "ok"} <= {r.status for r in found}


def test_times_in_a_frame_and_beside_it_are_refused(timed, make_waves):
    detector, times = timed
    x = make_waves(20, 2)
    frame = pl.DataFrame({"ds": times(range(20)), "a": x[:, 0], "b": x[:, 1]})
    stream = detector.stream()
    for give in (stream.score_many, stream.seed):
        with pytest.raises(ParameterError, match="whose column 'ds' holds times; leave t out, or"):
            give(frame, times(range(20)))
    with pytest.raises(FrameError, match="'ds' goes backwards at row 1"):
        stream.score_many(frame.reverse())
    assert stream.keys == []


REFUSED = [
    ([np.inf, 0.0], 1, "channel 0 holds infinity"),
    ([1.0], 1, "rows of shape 1 x 1"),
    (["3.0", 1.0], 1, "column 'a' holds text, '3.0'"),
    ({"a": 1.0}, 1, r"lacks \['b'\]"),
    ([0.0, 0.0], -5, "time goes backwards: .* after .*; pass rows in the order of time"),
    ([0.0, 0.0], "now", "pass an integer or a datetime"),
    ([0.0, 0.0], None, "fitted on (datetimes|integers); pass such times"),
]


@pytest.mark.parametrize(("x", "step", "message"), REFUSED)
def test_a_refused_row_leaves_the_state_as_it_was(timed, make_waves, x, step, message):
    detector, times = timed
    rows = make_waves(200, 2)
    stream, clean = (detector.stream().seed(rows, times(range(200)), key=None) for _ in range(2))
    other = [5] if isinstance(times([0])[0], datetime) else [START]
    t = step if step == "now" else (other if step is None else times([199 + step]))[0]
    for _ in range(2):
        with pytest.raises((ParameterError, FrameError), match=message):
            stream.score_one(x, t)
    with pytest.raises((ParameterError, FrameError), match=message):
        stream.score_batch({"new": [0.0, 0.0], "a": x} if step == 1 else {None: x}, t)
    assert stream.keys == clean.keys
    t = times([200])[0]
    found, expected = stream.score_one([0.5, 5.0], t), clean.score_one([0.5, 5.0], t)
    assert plain([found]) == plain([expected])


def test_refused_rows_among_many_score_none(timed, make_waves):
    detector, times = timed
    stream = detector.stream()
    with pytest.raises(ParameterError, match="2 times for 3 rows; pass one time a row"):
        stream.score_many(make_waves(3, 2), times([0, 1]))
    with pytest.raises(ParameterError, match="time goes backwards"):
        stream.score_many(make_waves(3, 2), times([0, 2, 1]))
    assert stream.keys == []


def test_times_of_numpy_are_integers_as_others(detectors, make_waves):
    one, other = detectors().stream(), detectors().stream()
    rows = np.delete(np.arange(250), slice(150, 160))
    x = make_waves(240)
    found = plain(one.score_many(x, rows))
    assert found == plain(other.score_many(x, rows.tolist()))
    assert found != plain(detectors().stream().score_many(x, np.arange(240)))


def test_a_batch_is_each_series_by_itself_in_any_order(detectors, make_waves):
    detector = detectors(5, 3)
    series = {key: make_waves(100, 5, seed=seed) for seed, key in enumerate("abc")}
    series["b"][70:72] = np.nan
    series["c"][80, 1] = np.nan
    forth, back, single = (detector.stream() for _ in range(3))
    for i in range(100):
        rows = {key: x[i] for key, x in series.items()}
        found = forth.score_batch(rows, i)
        turned = back.score_batch(dict(reversed(rows.items())), i)
        for key, result in found.items():
            alone = single.score_one(series[key][i], i, key=key)
            for other in (turned[key], alone):
                assert (result.status, result.t, result.key) == (other.status, other.t, key)
                assert same(result, other)
    assert forth.score_batch({}) == {}


@pytest.mark.parametrize(("channels", "delay"), [(1, 0), (5, 3)])
def test_a_series_is_the_same_to_the_last_bit_whatever_comes_with_it(
    detectors, make_waves, rng, channels, delay
):
    detector = detectors(channels, delay)
    series = {str(key): make_waves(80, channels, seed=key) for key in range(11)}
    for x in series.values():
        x[rng.random(x.shape) < 0.02] = np.nan
    batch, single = detector.stream(), detector.stream()
    for i in range(80):
        order = rng.permutation(11).astype(str)
        found = batch.score_batch({key: series[key][i] for key in order}, i)
        assert list(found) == list(order)
        alone = [single.score_one(series[key][i], i, key=key) for key in order]
        assert plain(found.values()) == plain(alone)


def test_no_series_or_result_holds_the_memory_of_those_it_came_with(detectors):
    stream, row = detectors(5, 3).stream(), [1.0, np.nan, 0.0, 2.0, 3.0]
    for _ in range(80):
        found = stream.score_batch({"a": row, "b": row, "c": row})
    assert all(result.channel_contrib.base is None for result in found.values())
    for state in stream._series.values():
        arrays = (*state.causal.arrays().values(), state.absent, state.watch.scores)
        assert all(array.base is None for array in arrays)


def test_many_series_at_once_cost_a_part_of_one_by_one(detectors):
    stream, rows = detectors().stream(), {str(key): 0.5 for key in range(64)}

    def seconds(score):
        started = time.perf_counter()
        score()
        return time.perf_counter() - started

    together = min(seconds(lambda: stream.score_batch(rows)) for _ in range(5))
    alone = min(seconds(lambda: stream.score_one(0.5, key="0")) for _ in range(50))
    assert together / 64 < alone / 3  # a tenth on an idle machine


def test_a_batch_sees_rows_left_out_of_single_series(timed, make_waves):
    detector, times = timed
    x = make_waves(200, 2)
    batch, single = detector.stream(), detector.stream()
    left_out = {"b": range(90, 93), "c": range(90, 95), "d": range(90, 93)}
    for i, t in enumerate(times(range(120))):
        keys = [key for key in "bdac" if i not in left_out.get(key, ())]
        found = batch.score_batch(dict.fromkeys(keys, x[i]), t)
        expected = [single.score_one(x[i], t, key=key) for key in keys]
        assert list(found) == keys
        for result, other in zip(found.values(), expected, strict=True):
            assert (result.status, result.t, result.key) == (other.status, other.t, other.key)
            assert same(result, other)


def test_the_series_not_used_for_longest_goes_first(tiny):
    stream = tiny.stream(max_keys=2)
    for key in ("a", "b", "a", "c"):
        stream.score_one([0, 0], key=key)
    assert stream.keys == ["a", "c"]
    stream.score_batch({"d": [0, 0], "a": [0, 0]})
    assert stream.keys == ["d", "a"]
    with pytest.raises(ParameterError, match="3 series at once, the stream keeps 2; raise max"):
        stream.score_batch({key: [0, 0] for key in "xyz"})
    with pytest.raises(ParameterError, match="max_keys=0; pass a whole number of 1 or more"):
        tiny.stream(max_keys=0)


def test_a_series_dropped_begins_anew(detectors, make_waves):
    stream = detectors().stream(max_keys=1).seed(make_waves(200), key="a")
    assert stream.score_one(0.0, key="a").status == "ok"
    stream.score_one(0.0, key="b")
    assert stream.score_one(0.0, key="a").status == "warmup"


def test_rows_without_a_key_belong_to_the_series_of_the_stream(tiny):
    stream = tiny.stream("pump")
    assert stream.score_one([0, 0]).key == stream.keys[0] == "pump"
    assert stream.score_one([0, 0], key="fan").key == "fan"


def test_streams_of_one_detector_do_not_touch_each_other_or_it(detectors, make_waves):
    detector, x = detectors(5), make_waves(80, 5)
    before, identity = detector.anomaly_score(x), detector._model.identity
    one, other, alone = (detector.stream() for _ in range(3))
    found = []
    for row in x:
        found.append(one.score_one(row))
        other.score_one(row + 100)
    assert plain(found) == plain([alone.score_one(row) for row in x])
    np.testing.assert_array_equal(detector.anomaly_score(x), before)
    vars(detector._model).pop("identity")  # it is made anew from what is there
    assert detector._model.identity == identity


def test_seeded_rows_leave_no_warm_up(detectors, make_waves):
    detector, x = detectors(), make_waves(300)
    whole = detector.stream().score_many(x)
    warm_up = detector._model.causal.warm_up
    assert [r.status for r in whole[: warm_up + 1]] == ["warmup"] * warm_up + ["ok"]
    later = detector.stream().seed(x[:200]).score_many(x[200:])
    assert {r.status for r in later} == {"ok"}
    np.testing.assert_allclose([r.score for r in later], [r.score for r in whole[200:]], rtol=1e-9)


def test_a_result_adds_up(detectors, make_waves):
    x = make_waves(300, 5, seed=5)
    x[250:260, 3] += 20
    for r in detectors(5).stream().score_many(x):
        if r.status == "ok":
            assert r.channel_contrib.sum() == pytest.approx(r.score)
            assert r.is_anomaly == (r.score >= 1)
            assert 0 < r.p_value <= 1


def test_a_new_level_becomes_normal_after_the_patience(rng, make_quick):
    detector = make_quick(preset="tiny", drift=Drift(patience=60)).fit(rng.normal(size=(500, 1)))
    results = detector.stream().score_many(10 + rng.normal(size=(400, 1)))
    assert [i for i, r in enumerate(results) if r.status == "drift"] == [59]
    assert all(r.is_anomaly for r in results[:60])
    assert not any(r.is_anomaly for r in results[60:])
