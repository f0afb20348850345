import numpy as np
import torch

from tsmamba.outcomes.classes import Classes, as_probabilities


def test_extreme_scores_are_probabilities():
    found = as_probabilities(np.array([[-1e4], [0.0], [1e4]]))
    np.testing.assert_array_equal(found, [[1, 0], [0.5, 0.5], [0, 1]])


def test_the_loss_of_three_classes_is_the_likelihood():
    logits, target = torch.randn(4, 3), torch.tensor([0, 2, 1, 2])
    found = Classes(np.arange(3)).loss(logits, target)
    torch.testing.assert_close(found, -logits.log_softmax(1)[torch.arange(4), target])


def test_the_loss_of_two_classes_is_that_of_three_with_one_impossible():
    logits, target = torch.randn(5, 1), torch.tensor([0, 1, 1, 0, 1])
    three = torch.cat([torch.zeros(5, 1), logits, torch.full((5, 1), -1e9)], 1)
    found = Classes(np.arange(2)).loss(logits, target)
    torch.testing.assert_close(found, Classes(np.arange(3)).loss(three, target))


def test_scores_that_are_too_sure_are_made_less_so(rng):
    truth = rng.normal(size=4_000)
    targets = (rng.uniform(size=4_000) < 1 / (1 + np.exp(-truth))).astype(int)
    slope, offset, _ = Classes(np.arange(2)).settle(5 * truth[:, None], targets, np.ones(4_000))
    np.testing.assert_allclose(slope, 0.2, atol=0.02)
    np.testing.assert_allclose(offset, 0, atol=0.1)
