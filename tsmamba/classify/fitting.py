"""The fit: members on folds of the stays, trees and a network each, and a map to probabilities."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from tsmamba.classify.boosting import Trees, grow
from tsmamba.classify.network import RecordConfig, RecordNetwork
from tsmamba.records.reader import Stays
from tsmamba.records.tokens import Tokens
from tsmamba.training import Training, train
from tsmamba.training.drawing import drawn

__all__ = ["Ensemble", "Member", "fit_ensemble"]

_BATCH = 256
# Weight of telling the next values beside telling the class.
_FOLLOWING = 1.0


@dataclass(frozen=True)
class Member:
    """What was trained on all folds but one."""

    network: RecordNetwork
    trees: Trees | None

    def log_odds(self, stays: Stays, which: np.ndarray) -> np.ndarray:
        """Return the mean of network and trees on some stays, shape (n, K)."""
        logits = network_logits(self.network, stays.tokens, which)
        if self.trees is None or stays.summaries is None:
            return logits
        log_odds: np.ndarray = (logits + self.trees.log_odds(stays.summaries[which])) / 2
        return log_odds


@dataclass(frozen=True)
class Ensemble:
    """Members, and the map from their mean to probabilities.

    Parameters
    ----------
    members : tuple of Member
        One for each fold.
    slope : ndarray of shape (K, K)
        Of the map (Platt scaling for two classes), fitted on what members said of stays they were
        not trained on.
    offset : ndarray of shape (K,)
        Of the map.
    """

    members: tuple[Member, ...]
    slope: np.ndarray
    offset: np.ndarray

    def probabilities(self, stays: Stays) -> np.ndarray:
        """Return the probability of each class, shape (n, classes)."""
        which = np.arange(len(stays.tokens))
        mean = np.mean([member.log_odds(stays, which) for member in self.members], 0)
        return self.calibrated(mean)

    def calibrated(self, log_odds: np.ndarray) -> np.ndarray:
        """Map the mean log odds of members, (n, K), to probabilities, (n, classes)."""
        mapped = log_odds @ self.slope.T + self.offset
        if mapped.shape[1] == 1:
            mapped = np.concatenate([np.zeros_like(mapped), mapped], 1)
        shifted = np.exp(mapped - mapped.max(1, keepdims=True))
        probabilities: np.ndarray = shifted / shifted.sum(1, keepdims=True)
        return probabilities


@torch.no_grad()
def network_logits(network: RecordNetwork, tokens: Tokens, which: np.ndarray) -> np.ndarray:
    """Return the logits of a network at the end of some stays, shape (n, K), float64."""
    parts = []
    for part in torch.from_numpy(which).split(_BATCH):
        batch = tokens.batch(part)
        logits = network(batch).logits
        if network.config.causal:
            logits = logits[torch.arange(len(part)), batch.mask.sum(1) - 1]
        parts.append(logits.double())
    return torch.cat(parts).numpy()


def fit_ensemble(
    stays: Stays,
    labels: np.ndarray,
    config: RecordConfig,
    training: Training,
    folds: int,
    on_step: Callable[[int, float], None],
) -> tuple[Ensemble, np.ndarray]:
    """Train a member on each fold and calibrate their mean.

    Parameters
    ----------
    stays : Stays
        None is empty.
    labels : int ndarray of shape (n,)
        Classes from 0 on.
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
    out_of_fold = np.empty((len(labels), config.n_outputs))
    for number, (inside, outside) in enumerate(_folds(labels, folds)):

        def step(count: int, loss: float, done: int = number * training.steps) -> None:
            on_step(done + count, loss)

        network = _train_network(stays.tokens, labels, inside, outside, config, training, step)
        trees = None
        if stays.summaries is not None:
            trees = grow(stays.summaries[inside], labels[inside], seed=number)
        members.append(Member(network, trees))
        out_of_fold[outside] = members[-1].log_odds(stays, outside)
    platt = LogisticRegression(C=1e3, max_iter=1000).fit(out_of_fold, labels)
    ensemble = Ensemble(tuple(members), platt.coef_, platt.intercept_)
    return ensemble, ensemble.calibrated(out_of_fold)


def _folds(labels: np.ndarray, folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    seed = int(torch.randint(2**31, ()))
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    yield from splitter.split(np.zeros((len(labels), 1)), labels)


def _train_network(
    tokens: Tokens,
    labels: np.ndarray,
    inside: np.ndarray,
    outside: np.ndarray,
    config: RecordConfig,
    training: Training,
    on_step: Callable[[int, float], None],
) -> RecordNetwork:
    target = torch.from_numpy(labels)
    batches = drawn(torch.from_numpy(inside), training.batch_size)
    watched = torch.from_numpy(outside)

    def batch_loss(network: RecordNetwork) -> Tensor:
        stays = next(batches)
        batch = tokens.batch(stays)
        answers = network(batch)
        new = (batch.since[:, 1:] == 0) & batch.mask[:, 1:, None]
        error = (answers.following[:, :-1] - batch.values[:, 1:]).square()
        following: Tensor = (error * new).sum() / new.sum().clamp(min=1)
        return _class_loss(answers.logits, target[stays], batch.mask) + _FOLLOWING * following

    @torch.no_grad()
    def validation_error(network: RecordNetwork) -> float:
        losses = torch.zeros(())
        for stays in watched.split(_BATCH):
            batch = tokens.batch(stays)
            losses += len(stays) * _class_loss(network(batch).logits, target[stays], batch.mask)
        return float(losses) / len(watched)

    network = RecordNetwork(config)
    train(network, training, batch_loss, validation_error, on_step)
    return network


def _class_loss(logits: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Return the mean negative log likelihood; of a causal network over all its answers."""
    if logits.ndim == 3:
        target = target[:, None].expand(mask.shape)[mask]
        logits = logits[mask]
    if logits.shape[1] == 1:
        return nn.functional.binary_cross_entropy_with_logits(logits[:, 0], target.to(logits.dtype))
    return nn.functional.cross_entropy(logits, target)
