from dataclasses import replace

import numpy as np
import pytest
import torch

from tsmamba import Training
from tsmamba.outcomes import fitting
from tsmamba.outcomes.classes import Classes, as_probabilities
from tsmamba.outcomes.fitting import Ensemble, Member, fit_ensemble, network_outputs
from tsmamba.outcomes.lessons import Lessons
from tsmamba.outcomes.network import RecordConfig, RecordNetwork

KNOBS = Training(max_steps=3, batch_size=16, eval_every=3)


@pytest.fixture(scope="module")
def stays(reader, cleaned):
    return reader.stays(cleaned, summaries=False)


@pytest.fixture(scope="module")
def config(reader):
    width = reader.vocabulary.static_width
    return RecordConfig(len(reader.vocabulary.codes), width, 1, d_model=8, d_state=4)


def ensemble_of(stays, config, labels, folds=3, on_step=lambda step, loss: None):
    torch.manual_seed(0)
    lessons = Lessons(stays, labels, np.ones(len(labels)), np.arange(len(labels)), cut=False)
    goal = Classes(np.unique(labels))
    return fit_ensemble(lessons, goal, config, KNOBS, folds, on_step)


@pytest.mark.parametrize("causal", [False, True])
def test_logits_do_not_depend_on_how_stays_are_batched(stays, config, causal, monkeypatch):
    network = RecordNetwork(replace(config, causal=causal)).eval()
    which = np.array([5, 3, 9, 50, 4, 0, 3])
    expected = network_outputs(network, stays.tokens, which)
    monkeypatch.setattr(fitting, "_BATCH", 2)
    np.testing.assert_allclose(network_outputs(network, stays.tokens, which), expected, atol=1e-6)
    alone = [network_outputs(network, stays.tokens, which[i : i + 1])[0] for i in range(len(which))]
    np.testing.assert_allclose(alone, expected, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_stay_is_held_out_once(stays, config, n_classes):
    labels = np.arange(60) % n_classes
    config = replace(config, n_outputs=1 if n_classes == 2 else n_classes)
    ensemble, held_out = ensemble_of(stays, config, labels)
    held_out = as_probabilities(held_out)
    assert len(ensemble.members) == 3
    np.testing.assert_allclose(held_out.sum(1), 1)
    told = as_probabilities(ensemble.scores(stays))
    assert told.shape == held_out.shape == (60, n_classes)
    each = [
        as_probabilities(ensemble.settled(member.outputs(stays, np.arange(60))[0]))
        for member in ensemble.members
    ]
    by = [np.isclose(probabilities, held_out).all(1) for probabilities in each]
    assert np.sum(by, 0).min() >= 1
    assert [count.sum() for count in by] == [20, 20, 20]


def test_held_out_probabilities_are_right_on_average(stays, config):
    labels = (np.arange(60) % 4 == 0).astype(int)
    _, held_out = ensemble_of(stays, config, labels)
    assert as_probabilities(held_out)[:, 1].mean() == pytest.approx(labels.mean(), abs=1e-3)


def test_the_answer_of_members_is_the_mean_of_their_outputs(stays, config):
    ensemble, _ = ensemble_of(stays, config, np.arange(60) % 2)
    which = np.arange(60)
    mean = np.mean([network_outputs(m.network, stays.tokens, which) for m in ensemble.members], 0)
    expected = ensemble.slope[0, 0] * mean + ensemble.offset[0]
    np.testing.assert_allclose(ensemble.scores(stays), expected, rtol=1e-6)


def test_networks_and_trees_count_by_their_shares(stays, config):
    class Constant:
        def sums(self, X):
            return np.full((len(X), 1), 3.0)

    network = RecordNetwork(config).eval()
    both = replace(stays, summaries=np.zeros((60, 2)))
    members = (Member(network, Constant()),)
    found = Ensemble(members, np.array([0.25, 0.75]), np.eye(1), np.zeros(1)).scores(both)
    expected = 0.25 * network_outputs(network, stays.tokens, np.arange(60)) + 0.75 * 3
    np.testing.assert_allclose(found, expected)


def test_steps_of_all_members_are_told(stays, config):
    told = []
    ensemble_of(stays, config, np.arange(60) % 2, on_step=lambda step, loss: told.append(step))
    assert told == list(range(1, 10))


def test_seeds_repeat(stays, config):
    labels = np.arange(60) % 2
    (_, one), (_, two) = ensemble_of(stays, config, labels), ensemble_of(stays, config, labels)
    np.testing.assert_array_equal(one, two)


def test_a_causal_network_is_taught_after_every_token():
    logits, mask = torch.randn(2, 3, 1), torch.tensor([[True, True, False], [True, True, True]])
    target, goal = torch.tensor([1, 0]), Classes(np.arange(2))
    sign = torch.tensor([1.0, -1.0])[:, None, None]
    losses = torch.nn.functional.softplus(-sign * logits)[..., 0]
    found = fitting._mean_loss(goal, logits, target, torch.ones(2), mask)
    torch.testing.assert_close(found, losses[mask].mean())
    last = fitting._mean_loss(goal, logits[:, 0], target, torch.ones(2), mask)
    torch.testing.assert_close(last, losses[:, 0].mean())
