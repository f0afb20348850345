import numpy as np
import pytest
import torch

from tsmamba import MambaDetector
from tsmamba.anomaly import corrector as module
from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.anomaly.corrector import Corrector
from tsmamba.errors import ParameterError


@pytest.fixture(scope="module")
def kinks():
    """Two channels with kinks, which no line foretells."""
    rng = np.random.default_rng(0)
    wave = np.abs(np.sin(np.arange(1_600) / 9))
    return np.stack([wave, np.roll(wave, 7)], axis=1) + 0.01 * rng.normal(size=(1_600, 2))


@pytest.fixture(scope="module")
def regression(kinks):
    return Autoregression.of(kinks, order=4)


@pytest.fixture(scope="module")
def quick():
    """Train for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEPS", 60)
        yield


@pytest.fixture(scope="module")
def corrector(kinks, regression, quick):
    return Corrector.of(kinks, regression, seed=0)


@pytest.fixture(scope="module")
def detector(kinks, quick):
    return MambaDetector(corrector="mamba", delay="p/4", random_state=0).fit(kinks)


def test_less_is_left_over_where_lines_do_not_do(corrector, kinks, regression):
    new = np.roll(kinks, 400, axis=0)[:800]
    residuals = regression.residuals(new)
    left = corrector.remaining(new[4:], residuals)
    assert np.abs(left[50:]).mean() < 0.9 * np.abs(residuals[50:]).mean()


def test_noise_is_left_alone(regression, quick):
    noise = np.random.default_rng(1).normal(size=(1_000, 2))
    found = Corrector.of(noise, Autoregression.of(noise, order=2), seed=0)
    assert found is None or found.gate < 0.5


def test_too_few_rows_have_none(kinks):
    few = kinks[:400]
    assert Corrector.of(few, Autoregression.of(few, order=4), seed=0) is None


def test_what_is_foretold_rests_on_the_past(corrector, kinks, regression):
    rows, residuals = kinks[4:304], regression.residuals(kinks[:304])
    expected = corrector.remaining(rows, residuals)
    changed = rows.copy(), residuals.copy()
    for each in changed:
        each[200:] += 3.0
    found = corrector.remaining(*changed)
    np.testing.assert_allclose(found[:200], expected[:200], atol=1e-6)
    # Row and residual alike, so the forecast of the row, which comes in, is as it was.
    np.testing.assert_allclose((found - changed[1])[200], (expected - residuals)[200], atol=1e-6)


def test_row_by_row_is_all_at_once(corrector, kinks, regression, monkeypatch):
    rows, residuals = kinks[4:204], regression.residuals(kinks[:204])
    expected = corrector.remaining(rows, residuals)
    monkeypatch.setattr(module, "_PIECE", 37)
    np.testing.assert_allclose(corrector.remaining(rows, residuals), expected, atol=1e-6)
    state = corrector.start()
    state.row, state.residual = rows[0].copy(), residuals[0].copy()
    there = np.ones((1, 1), bool)
    found = [
        corrector.advance([state], rows[None, [i]], residuals[None, [i]], there)[0, 0]
        for i in range(1, 200)
    ]
    np.testing.assert_allclose(found, expected[1:], atol=1e-6)


def test_streams_do_not_touch_each_other_and_rows_that_are_missing_change_nothing(
    corrector, kinks, regression
):
    rows = np.stack([kinks[4:54], kinks[104:154]])
    residuals = np.stack([regression.residuals(part) for part in (kinks[:54], kinks[100:154])])
    there = np.ones((2, 50), bool)
    there[0, 20:30] = False
    both = [corrector.start(), corrector.start()]
    found = corrector.advance(both, rows, residuals, there)
    for i, kept in enumerate(there):
        alone = [corrector.start()]
        parts = (each[i : i + 1, kept] for each in (rows, residuals, there))
        np.testing.assert_allclose(found[i, kept], corrector.advance(alone, *parts)[0], atol=1e-6)
        np.testing.assert_allclose(both[i].packed, alone[0].packed, atol=1e-6)
    np.testing.assert_array_equal(found[0, 20:30], residuals[0, 20:30])


def test_seeds_repeat_and_the_state_outside_is_left_alone(kinks, regression, quick):
    before = torch.random.get_rng_state()
    one, two, other = (Corrector.of(kinks, regression, seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    for name, part in one.arrays().items():
        np.testing.assert_array_equal(part, two.arrays()[name])
    assert not np.array_equal(one.arrays()["head.weight"], other.arrays()["head.weight"])


# In a detector


def test_rows_one_by_one_and_in_chunks_have_the_numbers_of_all_at_once(detector, kinks):
    rows = kinks[:300].copy()
    rows[120:123] = np.nan
    rows[200, 0] = np.nan
    whole = [one.score for one in detector.stream().score_many(rows)]
    for size in (1, 7, 150):
        stream = detector.stream()
        parts = [stream.score_many(part) for part in np.split(rows, range(size, 300, size))]
        found = [one.score for part in parts for one in part]
        np.testing.assert_allclose(
            np.array(found, float), np.array(whole, float), rtol=1e-5, equal_nan=True
        )


def test_many_streams_at_once_are_as_alone(detector, kinks):
    together, alone = detector.stream(), detector.stream()
    for i in range(150):
        rows = {"a": kinks[i], "b": kinks[i + 500], "c": kinks[i + 40]}
        found = together.score_batch(rows)
        for key, row in rows.items():
            one = alone.score_one(row, key=key)
            assert (found[key].score is None) == (one.score is None)
            if one.score is not None:
                assert found[key].score == pytest.approx(one.score, rel=1e-5)


def test_a_stream_goes_on_from_a_file_bit_for_bit(detector, kinks, tmp_path):
    stream = detector.stream()
    stream.score_many(kinks[:200])
    stream.save(tmp_path / "state")
    again = detector.stream().load(tmp_path / "state")
    found, expected = (each.score_many(kinks[200:260]) for each in (again, stream))
    assert [one.score for one in found] == [one.score for one in expected]
    assert again.nbytes == stream.nbytes


def test_a_loaded_detector_has_the_same_scores(detector, kinks, tmp_path):
    detector.save(tmp_path / "detector")
    before = torch.random.get_rng_state()
    loaded = MambaDetector.load(tmp_path / "detector")
    assert torch.equal(before, torch.random.get_rng_state())
    new = np.roll(kinks, 300, axis=0)
    np.testing.assert_array_equal(loaded.anomaly_score(new), detector.anomaly_score(new))
    results = (each.stream().score_many(new[:200]) for each in (loaded, detector))
    found, expected = ([one.score for one in each] for each in results)
    assert found == expected


def test_both_modes_use_it(detector, kinks):
    plain = MambaDetector(delay="p/4").fit(kinks)
    assert detector.correction_ > plain.correction_ == 0
    assert not np.allclose(plain.anomaly_score(kinks), detector.anomaly_score(kinks))
    results = (each.stream().score_many(kinks[:300]) for each in (detector, plain))
    found, expected = ([one.score for one in each] for each in results)
    assert found != expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"corrector": "lstm"}, "corrector='lstm'; pass 'mamba' or None"),
        ({"corrector": "mamba", "preset": "alerts"}, "has no autoregression to correct"),
        ({"random_state": -1}, "random_state=-1; pass a whole number of 0 or more"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(given, message, kinks):
    with pytest.raises(ParameterError, match=message):
        MambaDetector(**given).fit(kinks)
