import json

import numpy as np
import polars as pl
import pytest
import torch

from tsmamba.errors import FrameError
from tsmamba.outcomes.numbers import NormalScores, Numbers, weighted_quantiles


def test_scores_are_normal_and_come_back(rng):
    numbers = np.exp(3 * rng.normal(size=700))
    scale = NormalScores.of(numbers)
    scores = scale.to(numbers)
    assert scores.mean() == pytest.approx(0, abs=1e-9)
    assert scores.std() == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(scale.back(scores), numbers)


def test_any_monotone_scale_of_the_numbers_has_the_same_scores(rng):
    numbers = rng.normal(size=300)
    scores = [NormalScores.of(each).to(each) for each in (numbers, np.exp(numbers), 7 * numbers)]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_equal_numbers_share_the_middle_of_their_ranks():
    scale = NormalScores.of(np.array([1.0, 2.0, 2.0, 2.0, 3.0]))
    np.testing.assert_allclose(scale.to(np.array([2.0])), 0, atol=1e-12)
    np.testing.assert_allclose(scale.to(np.array([1.0])), -scale.to(np.array([3.0])))


def test_beyond_the_knots_the_outermost_is_said():
    scale = NormalScores.of(np.array([1.0, 5.0]))
    assert scale.back(np.array([-9.0, 9.0])).tolist() == [1, 5]
    assert scale.to(np.array([-9.0, 9.0])).tolist() == scale.to(np.array([1.0, 5.0])).tolist()


def test_many_numbers_are_held_by_few_knots(rng):
    numbers = np.exp(rng.normal(size=20_000))
    scale = NormalScores.of(numbers)
    assert len(scale.values) == 1_000
    middle = np.quantile(numbers, np.linspace(0.05, 0.95, 200))
    np.testing.assert_allclose(scale.back(scale.to(middle)), middle, rtol=1e-6)
    assert scale.to(numbers).std() == pytest.approx(1, abs=0.01)


def test_a_scale_comes_back_from_json(rng):
    scale = NormalScores.of(rng.normal(size=40))
    again = NormalScores.from_dict(json.loads(json.dumps(scale.to_dict())))
    np.testing.assert_array_equal(again.values, scale.values)
    np.testing.assert_array_equal(again.scores, scale.scores)


def test_quantiles_with_weights_are_those_of_repeated_numbers(rng):
    numbers, counts = rng.normal(size=50), rng.integers(1, 5, 50)
    levels = [0.0, 0.1, 0.5, 0.93, 1.0]
    repeated = np.repeat(numbers, counts)
    expected = np.quantile(repeated, levels, method="inverted_cdf")
    np.testing.assert_array_equal(weighted_quantiles(numbers, counts, levels), expected)


def test_what_training_drew_to_the_mean_is_stretched_and_moved_to_the_middle(rng):
    goal, targets = Numbers.of(pl.Series(np.exp(rng.normal(size=2_001))), np.arange(2_001), 2)
    said = 0.5 * targets + 3 + 0.01 * rng.normal(size=2_001)
    slope, offset, loss = goal.settle(said[:, None], targets, np.ones(2_001))
    assert slope == pytest.approx(2, abs=0.03)
    assert np.median(targets - (slope[0] * said + offset)) == pytest.approx(0, abs=1e-9)
    assert loss < goal.settle(rng.normal(size=(2_001, 1)), targets, np.ones(2_001)).loss / 10


def test_one_answer_for_all_is_settled():
    goal, targets = Numbers.of(pl.Series([1.0, 2.0, 9.0]), np.arange(3), 2)
    slope, offset, loss = goal.settle(np.zeros((3, 1)), targets, np.ones(3))
    assert slope.shape == (1, 1)
    np.testing.assert_allclose(offset, 0, atol=1e-12)
    assert loss == pytest.approx((1 + 0 + 7) / 3)


def test_the_loss_is_the_squared_error():
    outputs = torch.tensor([[1.0], [3.0]])
    goal, _ = Numbers.of(pl.Series([1, 2]), np.arange(2), 2)
    loss = goal.loss(outputs, torch.tensor([2.0, 2.0], dtype=torch.float64))
    assert loss.dtype == torch.float32
    assert loss.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b"], "labels are of type String; a regressor learns numbers, MambaClassifier"),
        ([True, False], "labels are of type Boolean"),
        ([1.0, float("inf")], "1 of 2 labels are infinite; drop or bound them"),
        ([3, 3], "all labels are 3; there is nothing to learn"),
    ],
)
def test_labels_that_are_no_numbers_are_refused(labels, message):
    with pytest.raises(FrameError, match=message):
        Numbers.of(pl.Series(labels), np.arange(2), 2)


def test_too_few_stays_are_refused():
    with pytest.raises(FrameError, match="1 stays with measurements and a label; 2 are needed"):
        Numbers.of(pl.Series([1.0, 2.0]), np.zeros(2, int), 2)
