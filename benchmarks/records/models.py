"""The contestants on classes. Each sees the same cleaned events, bins and summaries."""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from scipy.special import expit
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer
from torch import Tensor, nn

from benchmarks.records.contest import Answer, Model, Read, judged, table, trained
from benchmarks.records.networks import GRUD, Transformer
from benchmarks.records.sets import Problem
from tsmamba import MambaClassifier
from tsmamba.errors import FrameWarning
from tsmamba.outcomes.boosting import grow_classes
from tsmamba.records.reader import Stays

__all__ = ["MODELS"]


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
    def learn(known: Read) -> Callable[[Stays], np.ndarray]:
        trees = grow_classes(table(known.stays), known.labels, known.weights, seed=seed)
        return lambda new: expit(trees.sums(table(new))[:, 0])

    return judged(problem, seed, learn)


def _logistic(problem: Problem, seed: int) -> Answer:
    def learn(known: Read) -> Callable[[Stays], np.ndarray]:
        # Normal scores of each summary, the middle where it is missing.
        scores = make_pipeline(
            QuantileTransformer(n_quantiles=200, output_distribution="normal", random_state=seed),
            SimpleImputer(strategy="constant", fill_value=0.0),
        )
        model = LogisticRegression(C=0.003, max_iter=1_000)
        model.fit(scores.fit_transform(table(known.stays)), known.labels, known.weights)
        return lambda new: model.predict_proba(scores.transform(table(new)))[:, 1]

    return judged(problem, seed, learn)


def _network(kind: type[GRUD] | type[Transformer]) -> Model:
    def model(problem: Problem, seed: int) -> Answer:
        def learn(known: Read) -> Callable[[Stays], np.ndarray]:
            labels = torch.from_numpy(known.labels).float()

            def loss(odds: Tensor, stays: Tensor, weights: Tensor) -> Tensor:
                return nn.functional.binary_cross_entropy_with_logits(odds, labels[stays], weights)

            outputs = trained(kind, known, seed, loss)
            return lambda new: outputs(new).sigmoid().numpy()

        return judged(problem, seed, learn)

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
