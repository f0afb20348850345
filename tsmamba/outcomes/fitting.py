"""The fit: members on folds of the stays, trees and a network each, and a map of their mean."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tsmamba.outcomes.boosting import Trees
from tsmamba.outcomes.goal import Goal
from tsmamba.outcomes.lessons import Lessons
from tsmamba.outcomes.network import RecordConfig, RecordNetwork
from tsmamba.records.reader import Stays
from tsmamba.records.tokens import Tokens
from tsmamba.training import Training, train
from tsmamba.training.drawing import drawn

__all__ = ["Ensemble", "Member", "fit_ensemble"]

_BATCH = 256
# Weight of telling the next values beside what is asked.
_FOLLOWING = 1.0


@dataclass(frozen=True)
class Member:
    """What was trained on all folds but one."""

    network: RecordNetwork
    trees: Trees | None

    def outputs(self, stays: Stays, which: np.ndarray) -> np.ndarray:
        """Return what network and trees, if there are any, say of some stays, (models, n, K)."""
        told = [network_outputs(self.network, stays.tokens, which)]
        if self.trees is not None and stays.summaries is not None:
            told.append(self.trees.sums(stays.summaries[which]))
        return np.stack(told)


@dataclass(frozen=True)
class Ensemble:
    """Members, and the map from their mean to an answer.

    Parameters
    ----------
    members : tuple of Member
        One for each fold.
    shares : ndarray of shape (models,)
        Of the network and of the trees, if there are any, in what a member says.
    slope : ndarray of shape (K, K)
        Of the map, fitted on what members said of stays they were not trained on.
    offset : ndarray of shape (K,)
        Of the map.
    """

    members: tuple[Member, ...]
    shares: np.ndarray
    slope: np.ndarray
    offset: np.ndarray

    def scores(self, stays: Stays) -> np.ndarray:
        """Return what is said of each stay, shape (n, K)."""
        which = np.arange(len(stays.tokens))
        mean = np.mean([member.outputs(stays, which) for member in self.members], 0)
        return self.settled(np.tensordot(self.shares, mean, 1))

    def settled(self, outputs: np.ndarray) -> np.ndarray:
        """Map the mean outputs of members, (n, K)."""
        mapped: np.ndarray = outputs @ self.slope.T + self.offset
        return mapped


def _at_end(outputs: Tensor, mask: Tensor) -> Tensor:
    """Return the last outputs of each stay, (B, K), of those after every token, (B, L, K)."""
    return outputs[torch.arange(len(mask)), mask.sum(1) - 1]


@torch.no_grad()
def network_outputs(network: RecordNetwork, tokens: Tokens, which: np.ndarray) -> np.ndarray:
    """Return the outputs of a network at the end of some stays, shape (n, K), float64."""
    parts = []
    for part in torch.from_numpy(which).split(_BATCH):
        batch = tokens.batch(part)
        outputs = network(batch).outputs
        if network.config.causal:
            outputs = _at_end(outputs, batch.mask)
        parts.append(outputs.double())
    return torch.cat(parts).numpy()


def fit_ensemble(
    lessons: Lessons,
    goal: Goal,
    config: RecordConfig,
    training: Training,
    folds: int,
    on_step: Callable[[int, float], None],
) -> tuple[Ensemble, np.ndarray]:
    """Train a member on each fold and settle how they are mixed and mapped.

    Parameters
    ----------
    lessons : Lessons
        What is learned from.
    goal : Goal
        What is learned.
    config : RecordConfig
        Shape of the networks.
    training : Training
        Of the networks; `max_steps` and `eval_every` are set.
    folds : int >= 2
        How many members.
    on_step : callable
        Told the number and the loss of each step, of all members.

    Returns
    -------
    Ensemble
        The model.
    held_out : ndarray of shape (n, K)
        What is said of each stay by the member that was not trained on it.
    """
    members = []
    stays, targets, weights = lessons.stays, lessons.targets, lessons.weights
    models = 1 if stays.summaries is None else 2
    out_of_fold = np.empty((models, len(targets), config.n_outputs))
    for number, (inside, outside) in enumerate(lessons.folds(folds, goal.strata(targets))):

        def step(count: int, loss: float, done: int = number * training.steps) -> None:
            on_step(done + count, loss)

        network = _train_network(lessons, goal, inside, outside, config, training, step)
        trees = None
        if stays.summaries is not None:
            parts = (each[inside] for each in (stays.summaries, targets, weights))
            trees = goal.grow(*parts, seed=number)
        members.append(Member(network, trees))
        out_of_fold[:, outside] = members[-1].outputs(stays, outside)
    return _mixed(tuple(members), out_of_fold, lessons, goal)


def _mixed(
    members: tuple[Member, ...], out_of_fold: np.ndarray, lessons: Lessons, goal: Goal
) -> tuple[Ensemble, np.ndarray]:
    """Settle shares and map by what members said of those they were not trained on."""
    found = []
    both = len(out_of_fold) == 2
    for of_trees in goal.shares(cut=lessons.cut) if both else (0.0,):
        shares = np.array([1 - of_trees, of_trees][: len(out_of_fold)])
        outputs = np.tensordot(shares, out_of_fold, 1)
        slope, offset, loss = goal.settle(outputs, lessons.targets, lessons.weights)
        found.append((loss, Ensemble(members, shares, slope, offset), outputs))
    _, ensemble, outputs = min(found, key=lambda each: each[0])
    return ensemble, ensemble.settled(outputs)


def _train_network(
    lessons: Lessons,
    goal: Goal,
    inside: np.ndarray,
    outside: np.ndarray,
    config: RecordConfig,
    training: Training,
    on_step: Callable[[int, float], None],
) -> RecordNetwork:
    tokens = lessons.stays.tokens
    batches = drawn(torch.from_numpy(inside), training.batch_size)
    watched = torch.from_numpy(outside)
    target, weight = torch.from_numpy(lessons.targets), torch.from_numpy(lessons.weights).float()

    def loss(outputs: Tensor, stays: Tensor, mask: Tensor) -> Tensor:
        if lessons.cut and config.causal:
            outputs = _at_end(outputs, mask)
        return _mean_loss(goal, outputs, target[stays], weight[stays], mask)

    def batch_loss(network: RecordNetwork) -> Tensor:
        stays = next(batches)
        batch = tokens.batch(stays)
        answers = network(batch)
        new = (batch.since[:, 1:] == 0) & batch.mask[:, 1:, None]
        error = (answers.following[:, :-1] - batch.values[:, 1:]).square()
        following: Tensor = (error * new).sum() / new.sum().clamp(min=1)
        return loss(answers.outputs, stays, batch.mask) + _FOLLOWING * following

    @torch.no_grad()
    def validation_error(network: RecordNetwork) -> float:
        losses = torch.zeros(())
        for stays in watched.split(_BATCH):
            batch = tokens.batch(stays)
            losses += len(stays) * loss(network(batch).outputs, stays, batch.mask)
        return float(losses) / len(watched)

    network = RecordNetwork(config)
    train(network, training, batch_loss, validation_error, on_step)
    return network


def _mean_loss(goal: Goal, outputs: Tensor, target: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """Return the mean loss, weighted; of three dimensions over all answers."""
    if outputs.ndim == 3:
        target, weight = (each[:, None].expand(mask.shape)[mask] for each in (target, weight))
        outputs = outputs[mask]
    return (weight * goal.loss(outputs, target)).sum() / weight.sum()
