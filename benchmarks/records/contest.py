"""What contestants learn from and how they are judged: the same events, bins and summaries."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.records.networks import GRUD, Transformer
from benchmarks.records.sets import Problem
from benchmarks.records.sets import Stays as Frames
from tsmamba import Training
from tsmamba.outcomes.answers import labelled
from tsmamba.outcomes.lessons import draw
from tsmamba.outcomes.numbers import weighted_quantiles
from tsmamba.outcomes.presets import PRESETS
from tsmamba.records.events import EventColumns, Repairs, read_events
from tsmamba.records.reader import Reader, Stays
from tsmamba.training import train

__all__ = ["Answer", "Model", "Read", "judged", "table", "trained"]

_COLUMNS = EventColumns("subject_id", "time", "code", "numeric_value", "label")
_PRESET = PRESETS["auto"]
_BATCH = 64


class Answer(NamedTuple):
    """What is said of the stays or moments to judge, probabilities or numbers, and the truth.

    `bounds` are those of 90 % intervals, (n, 2), where there are any.
    """

    truth: np.ndarray
    said: np.ndarray
    bounds: np.ndarray | None = None


Model = Callable[[Problem, int], Answer]


class Read(NamedTuple):
    """Stays with measurements, whole or cut at moments, as models read them.

    Labels are classes where they are whole numbers.
    """

    stays: Stays
    labels: np.ndarray
    weights: np.ndarray
    n_stays: int


def read_train(frames: Frames, seed: int) -> tuple[Read, Reader]:
    """Read what is learned from: of labels at moments, as many as our estimators draw."""
    given = read_events(frames.events, _COLUMNS, Repairs())
    reader, events = Reader.learn(given, 24, 128, Repairs())
    labels, moments = labelled(frames.labels, frames.events, given, reader, _COLUMNS)
    there = reader.measured(events, moments)
    known, targets = moments.only(there), labels.to_numpy()[there]
    torch.manual_seed(seed)
    strata = np.zeros(len(targets), int) if labels.dtype.is_float() else targets
    which, weights = draw(strata, _PRESET.moments * len(given.ids))
    parts = reader.stays_at(events, known.only(which), summaries=True)
    n_stays = len(np.unique(known.stay[which]))
    return Read(Stays.joined(parts), targets[which], weights, n_stays), reader


def judged(
    problem: Problem, seed: int, learn: Callable[[Read], Callable[[Stays], np.ndarray]]
) -> Answer:
    """Give every label an answer: that of all of training where nothing was measured before."""
    known, reader = read_train(problem.train, seed)
    answer = learn(known)
    frames = problem.test
    given = read_events(frames.events, _COLUMNS, Repairs())
    events = reader.clean(given, Repairs())
    labels, moments = labelled(frames.labels, frames.events, given, reader, _COLUMNS)
    there = reader.measured(events, moments)
    if labels.dtype.is_float():
        (usual,) = weighted_quantiles(known.labels, known.weights, [0.5])
    else:
        usual = np.average(known.labels, weights=known.weights)
    said = np.full(len(labels), usual)
    parts = reader.stays_at(events, moments.only(there), summaries=True)
    said[there] = np.concatenate([answer(part) for part in parts])
    return Answer(labels.to_numpy(), said)


def table(stays: Stays) -> np.ndarray:
    """Return the summaries of stays."""
    if stays.summaries is None:
        raise RuntimeError("stays were read without summaries")
    return stays.summaries


def trained(
    kind: type[GRUD] | type[Transformer],
    known: Read,
    seed: int,
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Stays], Tensor]:
    """Train a network as ours are, but once on all stays; return what gives its outputs, (n,).

    `loss` takes outputs, numbers of lessons, and their weights.
    """
    torch.manual_seed(seed)
    tokens, weights = known.stays.tokens, torch.from_numpy(known.weights).float()
    steps = _PRESET.readings(len(weights), known.n_stays) // _BATCH
    training = Training(max_steps=steps, lr=2e-3, ema_decay=0.99, eval_every=steps)

    def batch_loss(network: nn.Module) -> Tensor:
        stays = torch.randint(len(weights), (_BATCH,))
        return loss(network(tokens.batch(stays)), stays, weights[stays])

    network = kind(tokens.values.shape[1], tokens.statics.shape[1])
    # The last averaged weights are kept: nothing is chosen by an error.
    ranks = iter(range(2, -1, -1))
    train(network, training, batch_loss, lambda network: float(next(ranks)))

    @torch.no_grad()
    def outputs(new: Stays) -> Tensor:
        parts = torch.arange(len(new)).split(256)
        return torch.cat([network(new.tokens.batch(part)) for part in parts])

    return outputs
