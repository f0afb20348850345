"""The fit: members on folds of the stays, trees and a network each, and a map to probabilities."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from torch import Tensor, nn

from tsmamba.classify.boosting import Trees, grow
from tsmamba.classify.lessons import Lessons
from tsmamba.classify.network import RecordConfig, RecordNetwork
from tsmamba.records.reader import Stays
from tsmamba.records.tokens import Tokens
from tsmamba.training import Training, train
from tsmamba.training.drawing import drawn

__all__ = ["Ensemble", "Member", "fit_ensemble"]

_BATCH = 256
# Weight of telling the next values beside telling the class.
_FOLLOWING = 1.0
# Shares that trees may have. Of whole stays they have a half; moments are many, so that it can be
# told from them, and trees are often far ahead.
_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Member:
    """What was trained on all folds but one."""

    network: RecordNetwork
    trees: Trees | None

    def log_odds(self, stays: Stays, which: np.ndarray) -> np.ndarray:
        """Return what network and trees, if there are any, say of some stays, (models, n, K)."""
        told = [network_logits(self.network, stays.tokens, which)]
        if self.trees is not None and stays.summaries is not None:
            told.append(self.trees.log_odds(stays.summaries[which]))
        return np.stack(told)


@dataclass(frozen=True)
class Ensemble:
    """Members, and the map from their mean to probabilities.

    Parameters
    ----------
    members : tuple of Member
        One for each fold.
    shares : ndarray of shape (models,)
        Of the network and of the trees, if there are any, in what a member says.
    slope : ndarray of shape (K, K)
        Of the map (Platt scaling for two classes), fitted on what members said of stays they were
        not trained on.
    offset : ndarray of shape (K,)
        Of the map.
    """

    members: tuple[Member, ...]
    shares: np.ndarray
    slope: np.ndarray
    offset: np.ndarray

    def probabilities(self, stays: Stays) -> np.ndarray:
        """Return the probability of each class, shape (n, classes)."""
        which = np.arange(len(stays.tokens))
        mean = np.mean([member.log_odds(stays, which) for member in self.members], 0)
        return self.calibrated(np.tensordot(self.shares, mean, 1))

    def calibrated(self, log_odds: np.ndarray) -> np.ndarray:
        """Map the mean log odds of members, (n, K), to probabilities, (n, classes)."""
        mapped = log_odds @ self.slope.T + self.offset
        if mapped.shape[1] == 1:
            mapped = np.concatenate([np.zeros_like(mapped), mapped], 1)
        shifted = np.exp(mapped - mapped.max(1, keepdims=True))
        probabilities: np.ndarray = shifted / shifted.sum(1, keepdims=True)
        return probabilities


def _at_end(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the last logits of each stay, (B, K), of those after every token, (B, L, K)."""
    return logits[torch.arange(len(mask)), mask.sum(1) - 1]


@torch.no_grad()
def network_logits(network: RecordNetwork, tokens: Tokens, which: np.ndarray) -> np.ndarray:
    """Return the logits of a network at the end of some stays, shape (n, K), float64."""
    parts = []
    for part in torch.from_numpy(which).split(_BATCH):
        batch = tokens.batch(part)
        logits = network(batch).logits
        if network.config.causal:
            logits = _at_end(logits, batch.mask)
        parts.append(logits.double())
    return torch.cat(parts).numpy()


def fit_ensemble(
    lessons: Lessons,
    config: RecordConfig,
    training: Training,
    folds: int,
    on_step: Callable[[int, float], None],
) -> tuple[Ensemble, np.ndarray]:
    """Train a member on each fold and calibrate their mean.

    Parameters
    ----------
    lessons : Lessons
        What is learned from.
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
    held_out : ndarray of shape (n, classes)
        Probabilities of each stay by the member that was not trained on it.
    """
    members = []
    stays, classes, weights = lessons.stays, lessons.classes, lessons.weights
    models = 1 if stays.summaries is None else 2
    out_of_fold = np.empty((models, len(classes), config.n_outputs))
    for number, (inside, outside) in enumerate(lessons.folds(folds)):

        def step(count: int, loss: float, done: int = number * training.steps) -> None:
            on_step(done + count, loss)

        network = _train_network(lessons, inside, outside, config, training, step)
        trees = None
        if stays.summaries is not None:
            parts = (each[inside] for each in (stays.summaries, classes, weights))
            trees = grow(*parts, seed=number)
        members.append(Member(network, trees))
        out_of_fold[:, outside] = members[-1].log_odds(stays, outside)
    return _blended(tuple(members), out_of_fold, lessons)


def _blended(
    members: tuple[Member, ...], out_of_fold: np.ndarray, lessons: Lessons
) -> tuple[Ensemble, np.ndarray]:
    """Settle shares and calibration by what members said of those they were not trained on."""
    found = []
    for of_trees in _SHARES if lessons.cut else _SHARES[:1]:
        shares = np.array([1 - of_trees, of_trees] if len(out_of_fold) == 2 else [1.0])
        log_odds = np.tensordot(shares, out_of_fold, 1)
        platt = LogisticRegression(C=1e3, max_iter=1000)
        platt.fit(log_odds, lessons.classes, lessons.weights)
        ensemble = Ensemble(members, shares, platt.coef_, platt.intercept_)
        held_out = ensemble.calibrated(log_odds)
        loss = log_loss(lessons.classes, held_out, sample_weight=lessons.weights)
        found.append((loss, ensemble, held_out))
    _, ensemble, held_out = min(found, key=lambda each: each[0])
    return ensemble, held_out


def _train_network(
    lessons: Lessons,
    inside: np.ndarray,
    outside: np.ndarray,
    config: RecordConfig,
    training: Training,
    on_step: Callable[[int, float], None],
) -> RecordNetwork:
    tokens = lessons.stays.tokens
    batches = drawn(torch.from_numpy(inside), training.batch_size)
    watched = torch.from_numpy(outside)
    target, weight = torch.from_numpy(lessons.classes), torch.from_numpy(lessons.weights).float()

    def class_loss(logits: Tensor, stays: Tensor, mask: Tensor) -> Tensor:
        if lessons.cut and config.causal:
            logits = _at_end(logits, mask)
        return _class_loss(logits, target[stays], weight[stays], mask)

    def batch_loss(network: RecordNetwork) -> Tensor:
        stays = next(batches)
        batch = tokens.batch(stays)
        answers = network(batch)
        new = (batch.since[:, 1:] == 0) & batch.mask[:, 1:, None]
        error = (answers.following[:, :-1] - batch.values[:, 1:]).square()
        following: Tensor = (error * new).sum() / new.sum().clamp(min=1)
        return class_loss(answers.logits, stays, batch.mask) + _FOLLOWING * following

    @torch.no_grad()
    def validation_error(network: RecordNetwork) -> float:
        losses = torch.zeros(())
        for stays in watched.split(_BATCH):
            batch = tokens.batch(stays)
            losses += len(stays) * class_loss(network(batch).logits, stays, batch.mask)
        return float(losses) / len(watched)

    network = RecordNetwork(config)
    train(network, training, batch_loss, validation_error, on_step)
    return network


def _class_loss(logits: Tensor, target: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """Return the mean negative log likelihood, weighted; of three dimensions over all answers."""
    if logits.ndim == 3:
        target, weight = (each[:, None].expand(mask.shape)[mask] for each in (target, weight))
        logits = logits[mask]
    if logits.shape[1] == 1:
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits[:, 0], target.to(logits.dtype), reduction="none"
        )
    else:
        losses = nn.functional.cross_entropy(logits, target, reduction="none")
    return (weight * losses).sum() / weight.sum()
