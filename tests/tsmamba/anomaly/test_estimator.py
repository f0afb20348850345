from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from tsmamba import MambaDetector
from tsmamba.errors import FrameError, ParameterError

KINDS = {
    "polars": lambda frame: frame,
    "pandas": lambda frame: pd.DataFrame(frame.to_dict(as_series=False)),
    "pyarrow": lambda frame: frame.to_arrow(),
}
both_modes = pytest.mark.parametrize("mode", ["offline", "streaming"])


def framed(x):
    return pl.DataFrame({name: x[:, i] for i, name in enumerate("abcde"[: x.shape[1]])})


def spiked(x):
    x = x.copy()
    x[300:303] += 8
    return x


@pytest.fixture(scope="module", params=["offline", "streaming"])
def fitted(request, make_waves, make_quick):
    x = make_waves(400, 2)
    return make_quick(mode=request.param).fit(x[:250]), spiked(x)


def test_scores_are_measured_by_the_threshold(fitted):
    detector, x = fitted
    samples, scores = detector.score_samples(x), detector.anomaly_score(x)
    np.testing.assert_allclose(scores, samples / detector.offset_)
    np.testing.assert_array_equal(detector.decision_function(x), samples - detector.offset_)
    np.testing.assert_array_equal(detector.predict(x), np.where(scores > 1, -1, 1))
    assert set(detector.predict(x)) == {-1, 1}


def test_parts_add_up_to_the_score(fitted):
    detector, x = fitted
    parts, scores = detector.explain(x), detector.anomaly_score(x)
    assert parts.shape == x.shape
    np.testing.assert_allclose(parts.sum(axis=1), scores)
    assert np.nanmin(parts) >= 0


def test_p_values_fall_as_scores_rise(fitted):
    detector, x = fitted
    p, scores = detector.p_value(x), detector.anomaly_score(x)
    np.testing.assert_array_equal(np.isnan(p), np.isnan(scores))
    known = ~np.isnan(p)
    assert ((p[known] > 0) & (p[known] <= 1)).all()
    assert (np.diff(p[known][np.argsort(scores[known])]) <= 0).all()
    assert p[known].min() < 0.02 < 0.5 < p[known].max()


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("preset", ["auto", "tiny"])
def test_contamination_is_the_share_of_alerts_in_the_fit(make_waves, share, preset):
    x = make_waves(400, 2)
    found = MambaDetector(preset, contamination=share, memory_size=48).fit_predict(x)
    assert (found == -1).mean() == pytest.approx(share, abs=2 / 400)


@both_modes
@pytest.mark.parametrize("kind", KINDS)
def test_frames_give_the_numbers_of_arrays(make_waves, make_quick, mode, kind):
    x = make_waves(350, 3)
    frame = KINDS[kind](framed(x))
    detector, expected = make_quick(mode=mode).fit(frame), make_quick(mode=mode).fit(x)
    np.testing.assert_array_equal(detector.anomaly_score(frame), expected.anomaly_score(x))
    np.testing.assert_array_equal(detector.explain(frame), expected.explain(x))
    assert list(detector.feature_names_in_) == ["a", "b", "c"]
    assert (detector.n_features_in_, expected.n_features_in_) == (3, 3)
    assert not hasattr(expected, "feature_names_in_")
    assert type(detector.episodes(frame)) is type(frame)


def test_columns_in_another_order_are_found_by_name(make_waves, make_quick):
    frame = framed(make_waves(300, 3))
    detector = make_quick().fit(frame)
    np.testing.assert_array_equal(
        detector.anomaly_score(frame.select("c", "a", "b")), detector.anomaly_score(frame)
    )
    detector.fit(frame.to_numpy())
    assert not hasattr(detector, "feature_names_in_")


def test_other_columns_are_refused(make_waves, make_quick):
    frame = framed(make_waves(100, 2))
    detector = make_quick().fit(frame)
    for other, message in (
        (frame.rename({"b": "x"}), r"lacks \['b'\] and also has \['x'\]"),
        (frame.drop("a"), r"lacks \['a'\]"),
        (frame.with_columns(z=pl.lit(1)), r"also has \['z'\]"),
        (frame.with_columns(b=pl.lit("warm")), r"column 'b' is String"),
        (frame.with_columns(b=pl.lit(np.inf)), r"column 'b' holds infinity"),
    ):
        with pytest.raises(FrameError, match=message):
            detector.score_samples(other)
    with pytest.raises(ParameterError, match="X has 3 features, but MambaDetector is expecting 2"):
        detector.predict(np.zeros((20, 3)))


@pytest.mark.parametrize("call", ["score_samples", "p_value", "episodes", "plot", "explain"])
def test_nothing_works_before_fit(call):
    with pytest.raises(NotFittedError):
        getattr(MambaDetector(), call)(np.zeros((20, 1)))
    for call_without in (MambaDetector().stream, lambda: MambaDetector().save("d")):
        with pytest.raises(NotFittedError):
            call_without()


def test_16_rows_are_enough_and_15_are_not(make_waves):
    x = make_waves(40, 2)
    assert np.isfinite(MambaDetector().fit(x[:16]).anomaly_score(x)).all()
    with pytest.raises(ParameterError, match="n_samples=15: fit needs at least 16 rows"):
        MambaDetector().fit(x[:15])


def test_rows_without_any_value_cannot_be_fitted():
    with pytest.raises(ParameterError, match="X holds no value: all 40 are missing"):
        MambaDetector().fit(np.full((20, 2), np.nan))


@both_modes
@pytest.mark.parametrize("gone", ["some", "rows", "channel"])
def test_missing_values_are_accepted(make_waves, make_quick, rng, mode, gone):
    x = make_waves(400, 3)
    if gone == "some":
        x[rng.random(x.shape) < 0.1] = np.nan
    elif gone == "rows":
        x[100:102] = np.nan
    else:
        x[:, 1] = np.nan
    scores = make_quick(mode=mode).fit(x[:300]).anomaly_score(x)
    missing = np.isnan(x).all(axis=1) & (mode == "streaming")
    warm_up = 0 if mode == "offline" else np.isnan(scores[:90]).sum()
    assert np.isfinite(scores[~missing][warm_up:]).all()
    assert np.isnan(scores[missing]).all()


@pytest.mark.parametrize("level", [0.0, 0.1, 5.0, -1e6])
@pytest.mark.parametrize("preset", ["auto", "tiny"])
def test_a_series_that_never_changes_is_normal_and_a_change_is_not(preset, level):
    x = np.full((120, 2), level)
    detector = MambaDetector(preset).fit(x)
    assert (detector.predict(x) == 1).all()
    changed = x.copy()
    changed[60] += 1 + abs(level)
    assert detector.predict(changed)[60] == -1


def test_a_channel_that_never_changes_does_not_drown_others(make_waves, make_quick):
    x = spiked(np.concatenate([make_waves(400), np.full((400, 1), 3.0)], axis=1))
    x[300:303, 1] = 3.0
    scores = make_quick().fit(x[:250]).anomaly_score(x)
    assert 270 <= scores.argmax() <= 330


def times(kind, rows):
    if kind == "integers":
        return [int(row) * 5 for row in rows]
    if kind == "dates":
        return [date(2024, 1, 1) + timedelta(days=int(row)) for row in rows]
    return [datetime(2024, 1, 1) + timedelta(minutes=int(row)) for row in rows]


@both_modes
@pytest.mark.parametrize("kind", ["integers", "dates", "stamps"])
def test_a_gap_in_the_times_is_as_many_missing_rows(make_waves, make_quick, mode, kind):
    x = make_waves(400, 2)
    kept = np.delete(np.arange(400), slice(320, 324))
    whole = x.copy()
    whole[320:324] = np.nan
    detector = make_quick(mode=mode).fit(
        framed(x[:250]).with_columns(ds=pl.Series(times(kind, range(250))))
    )
    gappy = framed(x[kept]).with_columns(ds=pl.Series(times(kind, kept)))
    full = framed(whole).with_columns(ds=pl.Series(times(kind, range(400))))
    expected = detector.anomaly_score(full)
    np.testing.assert_array_equal(detector.anomaly_score(gappy), expected[kept])
    assert not np.array_equal(detector.anomaly_score(framed(x[kept])), expected[kept])


def test_times_of_another_kind_or_backwards_are_refused(make_waves, make_quick):
    frame = framed(make_waves(100)).with_columns(ds=pl.Series(times("integers", range(100))))
    stamps = frame.with_columns(ds=pl.Series(times("stamps", range(100))))
    detector = make_quick().fit(frame)
    with pytest.raises(FrameError, match=r"'ds' is Datetime.* fitted on integers as times"):
        detector.anomaly_score(stamps)
    with pytest.raises(FrameError, match="fitted on dates or stamps as times; pass such times"):
        make_quick().fit(stamps).anomaly_score(frame)
    with pytest.raises(FrameError, match="goes backwards at row 1"):
        detector.fit(frame.reverse())


def test_episodes_hold_the_alerts(fitted):
    detector, x = fitted
    found, scores = detector.episodes(x), detector.anomaly_score(x)
    assert isinstance(found, pl.DataFrame)
    assert found["peak"].max() == pytest.approx(np.nanmax(scores))
    peak = found.row(found["peak"].arg_max(), named=True)
    assert peak["start"] <= np.nanargmax(scores) <= peak["end"]
