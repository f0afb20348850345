from dataclasses import replace

import numpy as np
import pytest

from tsmamba.anomaly.calibration import Drift
from tsmamba.anomaly.joint import JointRows
from tsmamba.anomaly.memory import PatchMemory
from tsmamba.anomaly.state import StreamState, advance

APART = 10


@pytest.fixture
def values(rng):
    return rng.normal(size=(400, 4))


@pytest.fixture
def joint(values):
    return JointRows.of(values, PatchMemory.of(values, 3, 100), APART)


def curbed(values):
    return np.sign(values) * np.log(1 + np.abs(values))


def distances_of(joint, rows):
    """Return the distances that an excess was made of."""
    return joint.excess(rows).sum(axis=-1) * joint.deviation + joint.mean


def test_a_distance_is_that_to_the_third_nearest_row_in_memory(joint, values, rng):
    rows = 4 * rng.normal(size=(50, 4))
    known = curbed(values[joint.memory.ends].astype(np.float32))
    each = np.sqrt(np.square(curbed(rows)[:, None] - known).mean(axis=-1))
    expected = np.sort(each, axis=1)[:, 2]
    above = expected > joint.mean
    assert above.sum() > 20
    np.testing.assert_allclose(distances_of(joint, rows)[above], expected[above], rtol=1e-6)
    np.testing.assert_allclose(joint.excess(rows)[~above], 0)


def test_the_channel_far_out_has_the_larger_part(joint):
    parts = joint.excess(np.array([0.0, 9.0, 0.0, -2.0]))
    assert parts.argmax() == 1
    assert parts[1] > 0.6 * parts.sum() > 0


def test_channels_that_are_missing_do_not_count(joint, values):
    rows = np.full((30, 4), np.nan)
    rows[:, :2] = np.linspace(3, 9, 60).reshape(30, 2)
    memory = PatchMemory.of(values[:, :2].copy(), 3, 100)
    two = JointRows(memory, APART, joint.mean, joint.deviation)
    np.testing.assert_allclose(joint.excess(rows)[:, :2], two.excess(rows[:, :2]), rtol=1e-9)
    assert not joint.excess(rows)[:, 2:].any()
    assert not joint.excess(np.full((2, 4), np.nan)).any()


def test_a_permutation_of_channels_permutes_the_parts(joint, values, rng):
    order, rows = rng.permutation(4), 3 * rng.normal(size=(40, 4))
    rows[::7, 1] = np.nan
    moved = np.ascontiguousarray(values[:, order])
    other = JointRows.of(moved, PatchMemory.of(moved, 3, 100), APART)
    np.testing.assert_allclose(
        other.excess(rows[:, order]), joint.excess(rows)[:, order], atol=1e-9
    )


def test_rows_of_the_fit_are_not_compared_with_those_near_them(rng):
    walk = np.cumsum(rng.normal(size=(300, 2)), axis=0)
    joint = JointRows.of(walk, PatchMemory.of(walk, 3, 298), APART)
    near, apart = joint.excess(walk), joint.excess(walk, len(walk))
    assert near.sum() < 0.3 * apart.sum()
    np.testing.assert_array_equal(joint.excess(np.concatenate([walk, walk]), 300)[:300], apart)


def test_rows_one_by_one_and_at_once_are_the_same_where_many_are_equally_near(rng):
    values = rng.integers(0, 3, size=(300, 6)).astype(float)
    joint = JointRows.of(values, PatchMemory.of(values, 3, 200), APART)
    rows = rng.integers(0, 9, size=(2, 200, 6)).astype(float)
    rows[rng.random(rows.shape) < 0.02] = np.nan
    alone = np.stack([[joint.excess(row) for row in series] for series in rows])
    np.testing.assert_array_equal(joint.excess(rows), alone)


@pytest.mark.parametrize("kept", [1, 2])
def test_a_memory_of_few_rows_and_rows_that_never_change_have_finite_parts(kept):
    values = np.zeros((20, 2))
    joint = JointRows.of(values, PatchMemory.of(values, 3, kept), APART)
    assert joint.mean == 0
    parts = joint.excess(np.array([[1e4, 0.0], [0.0, 0.0]]), 0)
    assert np.isfinite(parts).all()
    assert parts[0, 0] > 1
    assert not parts[1].any()


def test_the_score_of_a_row_is_cut(joint):
    assert joint.excess(np.full(4, 1e4)).sum() == pytest.approx(30)


def test_rows_whose_channels_are_usual_one_by_one_but_not_together_are_far(rng):
    level = rng.normal(size=(300, 1))
    values = level + 0.05 * rng.normal(size=(300, 3))
    joint = JointRows.of(values, PatchMemory.of(values, 3, 200), APART)
    alike, apart = joint.excess(np.array([[1.2, 1.2, 1.2], [1.2, 1.2, -1.2]]))
    assert alike.sum() < 1 < apart.sum() / 10
    assert apart.argmax() == 2


@pytest.mark.parametrize("delay", [0, 3, 40])
def test_a_stream_compares_the_row_that_it_scores(make_quick, make_waves, rng, delay):
    model = make_quick(delay=delay).fit(make_waves(400, 3))._model
    x = make_waves(200, 3, seed=1) + rng.normal(size=(200, 3))
    x[150, 1] = np.nan
    raw = []
    for each in (model, replace(model, joint=None)):
        states = [StreamState.start(each, Drift())]
        pieces = [advance(each, states, x[None, i : i + 17]).raw[0] for i in range(0, 200, 17)]
        raw.append(np.concatenate(pieces))
    found = 3 * np.square(raw[0]) - 2 * np.square(raw[1])
    due = model.joint.excess(model.units.apply(x)).sum(axis=1)[: 200 - delay]
    warm = np.isfinite(found[delay:])
    assert warm.sum() > 50
    assert due[warm].max() > 1
    np.testing.assert_allclose(found[delay:][warm], np.square(due[warm]), rtol=1e-6, atol=1e-6)
