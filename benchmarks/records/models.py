"""The contestants. Each sees the same cleaned events, bins and summaries."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import expit
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer
from torch import Tensor, nn

from benchmarks.records.networks import GRUD, Transformer
from benchmarks.records.sets import Problem
from benchmarks.records.sets import Stays as Frames
from tsmamba import MambaClassifier, Training
from tsmamba.classify.boosting import grow
from tsmamba.classify.labels import read_labels
from tsmamba.errors import FrameWarning
from tsmamba.records.events import EventColumns, Repairs, read_events
from tsmamba.records.reader import Reader, Stays
from tsmamba.training import train

__all__ = ["MODELS", "Answer", "Model"]

_COLUMNS = EventColumns("subject_id", "time", "code", "numeric_value")
_EPOCHS = 8
_BATCH = 64


class Answer(NamedTuple):
    """Probabilities of the stays to judge, and the truth."""

    truth: np.ndarray
    probability: np.ndarray


Model = Callable[[Problem, int], Answer]


class _Read(NamedTuple):
    """Stays with measurements, as models read them."""

    stays: Stays
    labels: np.ndarray
    there: np.ndarray


def _read(frames: Frames, reader: Reader | None) -> tuple[_Read, Reader]:
    given = read_events(frames.events, _COLUMNS, Repairs())
    if reader is None:
        reader, events = Reader.learn(given, 24, 128, Repairs())
    else:
        events = reader.clean(given, Repairs())
    there = reader.measured(events)
    labels = read_labels(frames.labels, given.ids, "subject_id", "label").to_numpy()
    stays = reader.stays(events.only(there), summaries=True)
    return _Read(stays, labels.astype(np.int64), there), reader


def _judged(problem: Problem, answer: Callable[[_Read, _Read], np.ndarray]) -> Answer:
    """Give every stay an answer, the prior where nothing was measured."""
    known, reader = _read(problem.train, None)
    new, _ = _read(problem.test, reader)
    labels = known.labels[known.there]
    probability = np.full(len(new.labels), labels.mean())
    probability[new.there] = answer(known._replace(labels=labels), new)
    return Answer(new.labels, probability)


def _classifier(base: str | None = "boosting", *, causal: bool = False) -> Model:
    def model(problem: Problem, seed: int) -> Answer:
        classifier = MambaClassifier(base=base, causal=causal, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FrameWarning)
            classifier.fit(*problem.train)
            found = classifier.predict_proba(problem.test.events)
        truth = read_labels(problem.test.labels, found["subject_id"], "subject_id", "label")
        return Answer(truth.to_numpy().astype(np.int64), found["p_1"].to_numpy())

    return model


def _boosting(problem: Problem, seed: int) -> Answer:
    def answer(known: _Read, new: _Read) -> np.ndarray:
        trees = grow(_table(known), known.labels, seed=seed)
        probability: np.ndarray = expit(trees.log_odds(_table(new))[:, 0])
        return probability

    return _judged(problem, answer)


def _logistic(problem: Problem, seed: int) -> Answer:
    def answer(known: _Read, new: _Read) -> np.ndarray:
        # Normal scores of each summary, the middle where it is missing.
        model = make_pipeline(
            QuantileTransformer(n_quantiles=200, output_distribution="normal", random_state=seed),
            SimpleImputer(strategy="constant", fill_value=0.0),
            LogisticRegression(C=0.003, max_iter=1_000),
        )
        probability: np.ndarray = model.fit(_table(known), known.labels).predict_proba(_table(new))
        return probability[:, 1]

    return _judged(problem, answer)


def _table(read: _Read) -> np.ndarray:
    if read.stays.summaries is None:
        raise RuntimeError("stays were read without summaries")
    return read.stays.summaries


def _network(kind: type[GRUD] | type[Transformer]) -> Model:
    """Train as the networks of the classifier are, but once on all stays."""

    def model(problem: Problem, seed: int) -> Answer:
        def answer(known: _Read, new: _Read) -> np.ndarray:
            torch.manual_seed(seed)
            tokens, labels = known.stays.tokens, torch.from_numpy(known.labels)
            steps = _EPOCHS * len(labels) // _BATCH
            training = Training(max_steps=steps, lr=2e-3, ema_decay=0.99, eval_every=steps)

            def loss(network: nn.Module, stays: Tensor) -> Tensor:
                odds = network(tokens.batch(stays))
                return nn.functional.binary_cross_entropy_with_logits(odds, labels[stays].float())

            network = kind(tokens.values.shape[1], tokens.statics.shape[1])
            # The last averaged weights are kept: nothing is chosen by an error.
            ranks = iter(range(2, -1, -1))
            train(
                network,
                training,
                lambda network: loss(network, torch.randint(len(labels), (_BATCH,))),
                lambda network: float(next(ranks)),
            )
            with torch.no_grad():
                parts = torch.arange(len(new.stays.tokens)).split(256)
                odds = [network(new.stays.tokens.batch(part)) for part in parts]
            return torch.cat(odds).sigmoid().numpy()

        return _judged(problem, answer)

    return model


MODELS: dict[str, Model] = {
    "MambaClassifier": _classifier(),
    "MambaClassifier, no trees": _classifier(base=None),
    "MambaClassifier, causal, no trees": _classifier(base=None, causal=True),
    "boosting on summaries": _boosting,
    "logistic regression on summaries": _logistic,
    "GRU-D": _network(GRUD),
    "transformer": _network(Transformer),
}
