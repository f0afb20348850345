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
from tsmamba.errors import FrameWarning
from tsmamba.outcomes.answers import labelled
from tsmamba.outcomes.boosting import grow_classes
from tsmamba.outcomes.lessons import draw
from tsmamba.outcomes.presets import PRESETS
from tsmamba.records.events import EventColumns, Repairs, read_events
from tsmamba.records.reader import Reader, Stays
from tsmamba.training import train

__all__ = ["MODELS", "Answer", "Model"]

_COLUMNS = EventColumns("subject_id", "time", "code", "numeric_value", "label")
_PRESET = PRESETS["auto"]
_BATCH = 64


class Answer(NamedTuple):
    """Probabilities of the stays or moments to judge, and the truth."""

    truth: np.ndarray
    probability: np.ndarray


Model = Callable[[Problem, int], Answer]


class _Read(NamedTuple):
    """Stays with measurements, whole or cut at moments, as models read them."""

    stays: Stays
    labels: np.ndarray
    weights: np.ndarray
    n_stays: int


def _read_train(frames: Frames, seed: int) -> tuple[_Read, Reader]:
    """Read what is learned from: of labels at moments, as many as the classifier draws."""
    given = read_events(frames.events, _COLUMNS, Repairs())
    reader, events = Reader.learn(given, 24, 128, Repairs())
    labels, moments = labelled(frames.labels, frames.events, given, reader, _COLUMNS)
    there = reader.measured(events, moments)
    known, classes = moments.only(there), labels.to_numpy()[there]
    torch.manual_seed(seed)
    which, weights = draw(classes, _PRESET.moments * len(given.ids))
    parts = reader.stays_at(events, known.only(which), summaries=True)
    n_stays = len(np.unique(known.stay[which]))
    return _Read(Stays.joined(parts), classes[which], weights, n_stays), reader


def _judged(
    problem: Problem, seed: int, learn: Callable[[_Read], Callable[[Stays], np.ndarray]]
) -> Answer:
    """Give every label an answer, the share in training where nothing was measured before."""
    known, reader = _read_train(problem.train, seed)
    answer = learn(known)
    frames = problem.test
    given = read_events(frames.events, _COLUMNS, Repairs())
    events = reader.clean(given, Repairs())
    labels, moments = labelled(frames.labels, frames.events, given, reader, _COLUMNS)
    there = reader.measured(events, moments)
    share = np.average(known.labels, weights=known.weights)
    probability = np.full(len(labels), share)
    parts = reader.stays_at(events, moments.only(there), summaries=True)
    probability[there] = np.concatenate([answer(part) for part in parts])
    return Answer(labels.to_numpy(), probability)


def _classifier(base: str | None = "boosting", *, causal: bool = False) -> Model:
    def model(problem: Problem, seed: int) -> Answer:
        classifier = MambaClassifier(base=base, causal=causal, random_state=seed)
        labels = problem.test.labels
        at = labels if "time" in labels.columns else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FrameWarning)
            classifier.fit(*problem.train)
            found = classifier.predict_proba(problem.test.events, at=at)
        on = ["subject_id", "time"] if at is not None else ["subject_id"]
        truth = found.join(labels, on=on, how="left", maintain_order="left")["label"]
        return Answer(truth.to_numpy(), found["p_1"].to_numpy())

    return model


def _boosting(problem: Problem, seed: int) -> Answer:
    def learn(known: _Read) -> Callable[[Stays], np.ndarray]:
        trees = grow_classes(_table(known.stays), known.labels, known.weights, seed=seed)
        return lambda new: expit(trees.sums(_table(new))[:, 0])

    return _judged(problem, seed, learn)


def _logistic(problem: Problem, seed: int) -> Answer:
    def learn(known: _Read) -> Callable[[Stays], np.ndarray]:
        # Normal scores of each summary, the middle where it is missing.
        scores = make_pipeline(
            QuantileTransformer(n_quantiles=200, output_distribution="normal", random_state=seed),
            SimpleImputer(strategy="constant", fill_value=0.0),
        )
        model = LogisticRegression(C=0.003, max_iter=1_000)
        model.fit(scores.fit_transform(_table(known.stays)), known.labels, known.weights)
        return lambda new: model.predict_proba(scores.transform(_table(new)))[:, 1]

    return _judged(problem, seed, learn)


def _table(stays: Stays) -> np.ndarray:
    if stays.summaries is None:
        raise RuntimeError("stays were read without summaries")
    return stays.summaries


def _network(kind: type[GRUD] | type[Transformer]) -> Model:
    """Train as the networks of the classifier are, but once on all stays."""

    def model(problem: Problem, seed: int) -> Answer:
        def learn(known: _Read) -> Callable[[Stays], np.ndarray]:
            torch.manual_seed(seed)
            tokens, labels = known.stays.tokens, torch.from_numpy(known.labels)
            weights = torch.from_numpy(known.weights).float()
            steps = _PRESET.readings(len(labels), known.n_stays) // _BATCH
            training = Training(max_steps=steps, lr=2e-3, ema_decay=0.99, eval_every=steps)

            def loss(network: nn.Module, stays: Tensor) -> Tensor:
                odds, truth = network(tokens.batch(stays)), labels[stays].float()
                return nn.functional.binary_cross_entropy_with_logits(odds, truth, weights[stays])

            network = kind(tokens.values.shape[1], tokens.statics.shape[1])
            # The last averaged weights are kept: nothing is chosen by an error.
            ranks = iter(range(2, -1, -1))
            train(
                network,
                training,
                lambda network: loss(network, torch.randint(len(labels), (_BATCH,))),
                lambda network: float(next(ranks)),
            )

            @torch.no_grad()
            def answer(new: Stays) -> np.ndarray:
                parts = torch.arange(len(new)).split(256)
                odds = [network(new.tokens.batch(part)) for part in parts]
                return torch.cat(odds).sigmoid().numpy()

            return answer

        return _judged(problem, seed, learn)

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
