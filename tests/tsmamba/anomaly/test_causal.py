import numpy as np
import pytest

every_delay = pytest.mark.parametrize("delay", [0, 3, "p/4", "p"])
every_width = pytest.mark.parametrize("channels", [1, 5])


def scores_of(results):
    return np.array([np.nan if r.score is None else r.score for r in results])


@every_delay
@every_width
def test_one_by_one_in_chunks_and_at_once_are_the_same(detectors, make_waves, delay, channels):
    detector, x = detectors(channels, delay), make_waves(220, channels, seed=1)
    x[150, 0] += 4
    one, many = detector.stream(), detector.stream()
    found = [one.score_one(row) for row in x]
    chunked, start = [], 0
    for size in (1, 7, 64, 1, 60, 87):
        chunked += many.score_many(x[start : start + size])
        start += size
    assert start == len(x)
    batch, waits = detector.anomaly_score(x), detector.plan_.delay
    np.testing.assert_allclose(scores_of(chunked), scores_of(found), atol=1e-9, rtol=1e-9)
    np.testing.assert_allclose(
        batch[: len(x) - waits], scores_of(found)[waits:], atol=1e-9, rtol=1e-9
    )
    assert np.isnan(batch[len(x) - waits :]).all()
    assert np.isfinite(batch).sum() > 50
    assert [r.status for r in found] == [r.status for r in chunked]
    parts = detector.explain(x)[: len(x) - waits]
    for result, row in zip(found[waits:], parts, strict=True):
        if result.score is None:
            assert result.channel_contrib is None
        else:
            np.testing.assert_allclose(result.channel_contrib, row, atol=1e-9, rtol=1e-9)


@every_delay
def test_rows_to_come_change_nothing(detectors, make_waves, delay):
    detector, x = detectors(5, delay), make_waves(300, 5, seed=2)
    changed = x.copy()
    changed[250:] = 99.0
    before, after = (detector.anomaly_score(each) for each in (x, changed))
    known = 250 - detector.plan_.delay
    np.testing.assert_allclose(after[:known], before[:known], rtol=1e-9, atol=1e-9)
    assert np.isfinite(before[known - 1])
    assert np.nanmax(after[known:]) > 1


@pytest.mark.parametrize("value", [1e7, 1e20, 1.7e308])
def test_a_value_far_out_does_not_drown_the_rows_after_it(detectors, make_waves, value):
    detector, x = detectors(), make_waves(300, seed=3)
    x[250] = value
    stream = detector.stream()
    found = scores_of([stream.score_one(row) for row in x])
    np.testing.assert_allclose(detector.anomaly_score(x), found, rtol=1e-9, atol=1e-9)
    assert np.isfinite(found[250:]).all()
    assert found[250] > 1


@every_delay
def test_the_last_normal_rows_score_less_than_a_spike(detectors, make_waves, delay):
    detector, x = detectors(1, delay), make_waves(300, seed=4)
    x[250:252] += 5
    scores, reach = detector.anomaly_score(x), detector.plan_.patch
    assert 250 - reach <= np.nanargmax(scores) <= 250 + reach
    assert np.nanmax(scores) > 1
