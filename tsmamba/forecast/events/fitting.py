"""The fit: members on folds of the stays, and how they are blended with the last value."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from torch import Tensor

from tsmamba.forecast.events.blending import Blend, fit_blend
from tsmamba.forecast.events.history import LAST, LATEST, histories
from tsmamba.forecast.events.linear import fit_linear, linear
from tsmamba.forecast.events.network import EventConfig, EventNetwork
from tsmamba.forecast.events.record import Record, Targets
from tsmamba.records.tokens import NEVER, Batch
from tsmamba.training import Training, train
from tsmamba.training.drawing import drawn

__all__ = ["Ensemble", "HeldOut", "Member", "Said", "fit_ensemble"]

_BATCH = 256
# Tokens to judge on; more change little.
_MOST_JUDGED = 120_000
# A code that is rarer than this, beside the most frequent one, weighs no more for it.
_LEAST_SHARE = 1e-3
_LEAST_WEIGHT = 1e-6


@dataclass(frozen=True)
class Member:
    """What was fitted on all folds but one.

    Parameters
    ----------
    network : EventNetwork
        Of every code and the whole stay.
    linear : Tensor of shape (H, V, F)
        Of each code's own past, from which the network started.
    """

    network: EventNetwork
    linear: Tensor

    @torch.no_grad()
    def said(self, batch: Batch, latest: Tensor) -> Tensor:
        """Return what each forecaster says, (K, B, L, H, V).

        They are the last single value, the mean of the last bin, the linear model, the network.
        """
        features = histories(batch, latest)
        own = linear(features, self.linear)
        carried = [features[..., each][:, :, None].expand(own.shape) for each in (LATEST, LAST)]
        return torch.stack([*carried, own, self.network(batch, latest)])


@dataclass(frozen=True)
class Said:
    """What forecasters say at some tokens.

    Parameters
    ----------
    values : ndarray of shape (K, n, H, V)
        Of each forecaster, standardised; the first carries the last value forward.
    age : int ndarray of shape (n, V)
        Of the last value: 0 of the last token, 1 older, 2 none.
    """

    values: NDArray[np.float64]
    age: NDArray[np.int64]


@dataclass(frozen=True)
class HeldOut:
    """Errors on stays by members that were not fitted on them.

    Parameters
    ----------
    error, carried : ndarray of shape (V,)
        Mean absolute errors of the blend and of the last value, standardised.
    count : int ndarray of shape (V,)
        Values that were judged.
    """

    error: NDArray[np.float64]
    carried: NDArray[np.float64]
    count: NDArray[np.int64]


@dataclass(frozen=True)
class Ensemble:
    """Members, and how their mean is blended with the last value.

    Parameters
    ----------
    members : tuple of Member
        One for each fold.
    blend : Blend
        Chosen on what members said of stays they were not fitted on.
    """

    members: tuple[Member, ...]
    blend: Blend

    def said(self, record: Record) -> Said:
        """Return what is said at the last token of each stay; none is empty."""
        parts, ages = [], []
        for part in torch.arange(len(record)).split(_BATCH):
            batch, latest = record.batch(part)
            last = torch.arange(len(part)), batch.mask.sum(1) - 1
            means = torch.stack([member.said(batch, latest) for member in self.members]).mean(0)
            parts.append(means[:, *last])
            ages.append(_age(batch.since[last]))
        return Said(torch.cat(parts, 1).double().numpy(), torch.cat(ages).numpy())


def fit_ensemble(
    targets: Targets,
    config: EventConfig,
    training: Training,
    folds: int,
    on_step: Callable[[int, float], None],
) -> tuple[Ensemble, HeldOut]:
    """Fit a member on each fold and blend their mean.

    Parameters
    ----------
    targets : Targets
        Stays, none of them empty, and what follows; something does.
    config : EventConfig
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
    HeldOut
        What it is worth.
    """
    record = targets.record
    members, said, at = [], [], []
    for number, (inside, outside) in enumerate(_folds(len(record), folds)):

        def step(count: int, loss: float, done: int = number * training.steps) -> None:
            on_step(done + count, loss)

        member = _fit_member(targets, inside, config, training, step)
        members.append(member)
        here, values = _judged(member, targets, outside, _MOST_JUDGED // folds)
        at.append(here)
        said.append(values)
    every, token = torch.cat(said, 1).double().numpy(), torch.cat(at)
    truth, seen = (each.numpy() for each in targets.at(token))
    age = _age(record.tokens.since[token]).numpy()
    blend = fit_blend(every, truth.astype(np.float64), seen, age)
    return Ensemble(tuple(members), blend), _held_out(blend, Said(every, age), truth, seen)


def _folds(stays: int, folds: int) -> Iterator[tuple[Tensor, Tensor]]:
    seed = int(torch.randint(2**31, ()))
    splitter = KFold(folds, shuffle=True, random_state=seed)
    for inside, outside in splitter.split(np.zeros((stays, 1))):
        yield torch.from_numpy(inside), torch.from_numpy(outside)


def _fit_member(
    targets: Targets,
    inside: Tensor,
    config: EventConfig,
    training: Training,
    on_step: Callable[[int, float], None],
) -> Member:
    record, batches = targets.record, drawn(inside, training.batch_size)
    kernel = fit_linear(targets, inside)
    network = EventNetwork(config)
    with torch.no_grad():
        network.kernel.copy_(kernel)

    weights = _code_weights(record)

    def batch_loss(network: EventNetwork) -> Tensor:
        stays = next(batches)
        place, mask = record.tokens.places(stays)
        values, seen = targets.at(place)
        weight = seen * mask[..., None, None] * weights
        error: Tensor = ((network(*record.batch(stays)) - values).abs() * weight).sum()
        return error / weight.sum().clamp(min=_LEAST_WEIGHT)

    # Nothing is chosen by an error: each look finds less than the one before, so the last is kept.
    looks = iter(range(0, -training.steps - 2, -1))
    train(network, training, batch_loss, lambda network: float(next(looks)), on_step)
    return Member(network, kernel)


def _code_weights(record: Record) -> Tensor:
    """Return the weight of each code in the loss, (V,); by the root of what is rare."""
    counts = (record.tokens.since == 0).sum(0).clamp(min=1)
    return (counts / counts.max()).clamp(min=_LEAST_SHARE).rsqrt()


def _judged(member: Member, targets: Targets, stays: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return some tokens of stays that something follows, and what is said there, (K, n, H, V)."""
    places, said = [], []
    for part in stays.split(_BATCH):
        place, mask = targets.record.tokens.places(part)
        mask &= (targets.place[place] >= 0).any(-1)
        places.append(place[mask])
        said.append(member.said(*targets.record.batch(part))[:, mask])
    every, values = torch.cat(places), torch.cat(said, 1)
    keep = torch.randperm(len(every))[:most].sort().values
    return every[keep], values[:, keep]


def _held_out(
    blend: Blend, said: Said, truth: NDArray[np.float32], seen: NDArray[np.bool_]
) -> HeldOut:
    count = seen.sum((0, 1))

    def error(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = (np.abs(values - truth) * seen).sum((0, 1))
        means: NDArray[np.float64] = sums / np.maximum(count, 1)
        return means

    return HeldOut(error(blend.points(said.values, said.age)), error(said.values[0]), count)


def _age(since: Tensor) -> Tensor:
    """Return the age of last values as `Blend` counts it, from bins since they were measured."""
    return (since > 0).long() + (since == NEVER).long()
