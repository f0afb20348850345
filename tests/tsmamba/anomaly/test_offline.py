import numpy as np
import pytest

SHAPES = ["flat", "spike", "frequency", "amplitude", "level"]
START, LENGTH = 500, 20


def injected(x, shape):
    """Return a copy with one anomaly in its rows from START on."""
    x, rows = x.copy(), slice(START, START + LENGTH)
    t = np.arange(LENGTH)[:, None]
    if shape == "flat":
        x[rows] = x[START]
    elif shape == "spike":
        x[START : START + 2] += 6
    elif shape == "frequency":
        x[rows] = np.sin(2 * np.pi * t / 5)
    elif shape == "amplitude":
        x[rows] *= 3
    else:
        x[rows] += 3
    return x


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_an_anomaly_has_the_highest_score(make_waves, make_quick, shape, seed):
    x = injected(make_waves(700, seed=seed), shape)
    scores = make_quick().fit(x[:400]).anomaly_score(x)
    assert START - 40 <= scores.argmax() <= START + LENGTH + 40
    assert scores.max() > 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_anomaly_among_the_rows_of_the_fit_is_found(make_waves, make_quick, shape, channels):
    x = make_waves(900, channels)
    x[:, :1] = injected(x[:, :1], shape)
    detector = make_quick().fit(x)
    assert START - 70 <= detector.anomaly_score(x).argmax() <= START + LENGTH + 70


def test_rows_of_the_fit_are_known_again_and_not_compared_with_themselves(make_waves, make_quick):
    x = make_waves(900)
    detector = make_quick(memory_size=300).fit(x[:600])
    alone = detector.score_samples(x[:600])
    head = detector.score_samples(x)[:500]  # the rows after it may be new, and are near the end
    assert (alone < 0).mean() > 0.6
    assert np.corrcoef(alone[:500], head)[0, 1] > 0.5
    assert head.mean() == pytest.approx(alone[:500].mean(), rel=0.3)
    unknown = detector.score_samples(np.concatenate([x[:599], x[599:600] + 1e-9]))
    assert unknown.mean() > 1.5 * alone.mean()  # compared with themselves they look too normal


def test_a_permutation_of_channels_permutes_the_parts(make_waves, make_quick, rng):
    x, order = make_waves(500, 5), rng.permutation(5)
    x[400:410, 2] += 20
    one, other = make_quick().fit(x[:300]), make_quick().fit(x[:300, order])
    np.testing.assert_allclose(other.anomaly_score(x[:, order]), one.anomaly_score(x), atol=1e-6)
    np.testing.assert_allclose(other.explain(x[:, order]), one.explain(x)[:, order], atol=1e-6)


@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_level_and_unit_of_a_channel_do_not_matter(make_waves, make_quick, mode):
    x = make_waves(500, 3)
    moved = x * [1e-3, 3.7, 1e5] + [100, -5, 0]
    one, other = make_quick(mode=mode).fit(x[:300]), make_quick(mode=mode).fit(moved[:300])
    np.testing.assert_allclose(other.anomaly_score(moved), one.anomaly_score(x), atol=1e-6)


@pytest.mark.parametrize("n", [1, 5, 31])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("period", [16, 20, 64])
def test_a_series_shorter_than_a_patch_has_scores(make_waves, make_quick, n, channels, period):
    detector = make_quick(period=period).fit(make_waves(600, channels))
    assert n < detector.plan_.patch
    scores = detector.anomaly_score(make_waves(n, channels))
    assert scores.shape == (n,)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("value", [1e12, 1e60, 1.7e308])
def test_a_value_far_out_leaves_finite_scores_and_does_not_drown_others(
    make_waves, make_quick, value
):
    x = make_waves(900)
    near, far = x.copy(), x.copy()
    near[450], far[450] = 1e7, value
    detector = make_quick().fit(x[:400])
    np.testing.assert_allclose(detector.anomaly_score(far), detector.anomaly_score(near), rtol=1e-9)
    assert np.isfinite(detector.anomaly_score(far)).all()


def test_channels_that_part_are_found_though_each_is_as_usual(make_quick, rng):
    level = np.repeat(rng.normal(size=120), 5)
    x = np.stack([level + 0.05 * rng.normal(size=600) for _ in range(4)], axis=1)
    x[500:505, 0] = -np.sign(level[500]) * 1.5
    detector = make_quick(memory_size=200).fit(x[:400])
    assert 495 <= detector.anomaly_score(x).argmax() <= 510
    assert detector.explain(x)[500:505].sum(axis=0).argmax() == 0


def test_one_channel_has_no_rows_to_compare_as_a_whole(make_waves, make_quick):
    assert make_quick().fit(make_waves(300))._model.joint is None
    assert make_quick(preset="tiny").fit(make_waves(300, 2))._model.joint is None
    assert make_quick().fit(make_waves(300, 2))._model.joint is not None
