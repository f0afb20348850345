import json

import numpy as np
import polars as pl
import pytest

from tsmamba.records.events import Events
from tsmamba.records.vocabulary import Scale, Static, Vocabulary


@pytest.mark.parametrize("log", [False, True])
def test_a_scale_makes_values_standard_and_takes_the_logarithm_of_skewed_ones(rng, log):
    values = rng.normal(50, 5, 5_000)
    scale = Scale.of(np.exp(values / 5) if log else values)
    assert scale.log == log
    scaled = scale(np.exp(values / 5) if log else values)
    assert scaled.mean() == pytest.approx(0, abs=1e-9)
    assert scaled.std() == pytest.approx(1, abs=1e-9)
    assert np.abs(scaled).max() < 4
    np.testing.assert_allclose(np.corrcoef(scaled, values)[0, 1], 1, atol=1e-2)


def test_values_beyond_those_of_training_are_clipped(rng):
    scale = Scale.of(rng.normal(size=1_000))
    np.testing.assert_array_equal(
        scale(np.array([-1e9, 1e9])), scale(np.array([scale.low, scale.high]))
    )


def test_a_skewed_quantity_below_zero_keeps_its_unit(rng):
    assert not Scale.of(np.exp(rng.normal(size=1_000)) - 1).log


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 1e30])
def test_a_constant_becomes_zero(value):
    np.testing.assert_allclose(
        Scale.of(np.full(7, value))(np.array([value, 2 * value + 1])), 0, atol=1
    )
    assert Scale.of(np.ones(1))(np.ones(1)) == 0


def test_codes_and_statics_are_told_apart(reader):
    assert list(reader.vocabulary.codes) == ["HR", "Lactate", "Temp"]
    statics = reader.vocabulary.statics
    assert {name: static.categories for name, static in statics.items()} == {
        "Age": (),
        "Gender": (0.0, 1.0),
    }
    assert reader.vocabulary.static_width == 4


def frame_of(*rows, stays):
    schema = {"stay": pl.UInt32, "time": pl.Float64, "code": pl.String, "value": pl.Float64}
    return Events(pl.Series(range(stays)), pl.DataFrame(rows, schema, orient="row"), from_zero=True)


def test_rare_codes_are_left_out():
    usual = [(stay, float(t), "HR", 80.0) for stay in range(300) for t in range(2)]
    rare = [(stay, 1.0, "rare", 1.0) for stay in range(2)]
    seldom = [(stay, 1.0, "seldom", 1.0) for stay in range(3)]
    found = Vocabulary.learn(frame_of(*usual, *rare, *seldom, stays=300), 128)
    assert list(found.codes) == ["HR", "seldom"]


def test_the_codes_of_most_stays_are_kept():
    rows = [
        (s, 1.0, code, 1.0)
        for code, n in [("a", 3), ("b", 9), ("c", 9), ("d", 5)]
        for s in range(n)
    ]
    assert list(Vocabulary.learn(frame_of(*rows, stays=9), 2).codes) == ["b", "c"]
    assert list(Vocabulary.learn(frame_of(*rows, stays=9), 3).codes) == ["b", "c", "d"]


@pytest.mark.parametrize(("late", "static"), [(0, True), (1, True), (3, False)])
def test_a_static_code_stands_once_at_the_start_of_nearly_all_stays(late, static):
    rows = [(s, 0.0, "Age", float(s)) for s in range(late, 200)]
    found = Vocabulary.learn(
        frame_of(*rows, *[(s, 2.0, "Age", 1.0) for s in range(late)], stays=200), 9
    )
    assert ("Age" in found.statics) == static


def test_static_features_are_categories_or_a_value_and_whether_it_is_missing():
    wards = Static(Scale.of(np.array([1.0, 2.0])), (1.0, 2.0))
    np.testing.assert_array_equal(
        wards.features(np.array([2.0, 1.0, np.nan, 7.0])), [[0, 1], [1, 0], [0, 0], [0, 0]]
    )
    age = Static(Scale(0, 100, log=False, mean=60.0, sd=10.0), ())
    np.testing.assert_array_equal(
        age.features(np.array([70.0, np.nan, 200.0])), np.float32([[1, 0], [0, 1], [4, 0]])
    )


def test_what_is_static_is_read_at_the_start_only():
    rows = [
        (0, 0.0, "Age", 60.0),
        (1, 0.5, "Age", 60.0),
        (2, 0.0, "Age", 61.0),
        (2, 0.0, "Age", 62.0),
    ]
    age = Static(Scale(0, 100, log=False, mean=60.0, sd=1.0), ())
    found = Vocabulary({}, {"Age": age}).static_features(frame_of(*rows, stays=4))
    np.testing.assert_array_equal(found, [[0, 0], [0, 1], [1, 0], [0, 1]])


def test_without_statics_there_are_no_features():
    assert Vocabulary({}, {}).static_features(frame_of(stays=3)).shape == (3, 0)


def test_a_vocabulary_comes_back_from_json(reader):
    state = json.loads(json.dumps(reader.vocabulary.to_dict()))
    assert Vocabulary.from_dict(state) == reader.vocabulary


@pytest.mark.parametrize("log", [False, True])
def test_a_scale_is_undone_within_what_was_seen(rng, log):
    values = np.exp(rng.normal(size=1_000)) if log else rng.normal(size=1_000)
    scale = Scale.of(values)
    assert scale.log == log
    np.testing.assert_allclose(scale.undo(scale(values)), np.clip(values, scale.low, scale.high))
    np.testing.assert_allclose(scale.undo(np.array([-1e9, 1e9])), [scale.low, scale.high])
