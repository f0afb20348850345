"""The contestants on numbers. Each sees the same cleaned events, bins and summaries."""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer
from torch import Tensor

from benchmarks.records.contest import Answer, Model, Read, judged, table, trained
from benchmarks.records.networks import GRUD, Transformer
from benchmarks.records.sets import Problem
from tsmamba import MambaRegressor
from tsmamba.errors import FrameWarning
from tsmamba.outcomes.numbers import NormalScores
from tsmamba.records.reader import Stays

__all__ = ["REGRESSORS"]


def _regressor(base: str | None = "boosting") -> Model:
    def model(problem: Problem, seed: int) -> Answer:
        regressor = MambaRegressor(base=base, random_state=seed)
        labels = problem.test.labels
        on = [name for name in ("subject_id", "time") if name in labels.columns]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FrameWarning)
            regressor.fit(*problem.train)
            at = labels if "time" in on else None
            found = regressor.predict(problem.test.events, at=at, level=[90])
        truth = found.join(labels, on=on, how="left", maintain_order="left", suffix="_true")
        bounds = found.select("label-lo-90", "label-hi-90").to_numpy()
        return Answer(truth["label_true"].to_numpy(), found["label"].to_numpy(), bounds)

    return model


def _of_scores(learn: Callable[[Read, np.ndarray, int], Callable[[Stays], np.ndarray]]) -> Model:
    """Learn normal scores of the numbers, as ours do, and tell numbers."""

    def model(problem: Problem, seed: int) -> Answer:
        def numbers(known: Read) -> Callable[[Stays], np.ndarray]:
            scale = NormalScores.of(known.labels)
            scores = learn(known, scale.to(known.labels), seed)
            return lambda new: scale.back(scores(new))

        return judged(problem, seed, numbers)

    return model


def _usual(problem: Problem, seed: int) -> Answer:
    def learn(known: Read) -> Callable[[Stays], np.ndarray]:
        return lambda new: np.full(len(new), np.median(known.labels))

    return judged(problem, seed, learn)


def _boosting(problem: Problem, seed: int) -> Answer:
    """Grow trees with the settings of ours, but to reduce the absolute error that is judged."""

    def learn(known: Read) -> Callable[[Stays], np.ndarray]:
        X = table(known.stays)
        booster = HistGradientBoostingRegressor(
            loss="absolute_error",
            learning_rate=0.03,
            max_iter=300,
            max_leaf_nodes=8,
            min_samples_leaf=30,
            l2_regularization=10.0,
            max_features=0.3,
            early_stopping=False,
            random_state=seed,
        ).fit(np.where(np.isnan(X).all(0), 0.0, X), known.labels)
        return lambda new: booster.predict(table(new))

    return judged(problem, seed, learn)


def _ridge(known: Read, targets: np.ndarray, seed: int) -> Callable[[Stays], np.ndarray]:
    # Normal scores of each summary, the middle where it is missing.
    model = make_pipeline(
        QuantileTransformer(n_quantiles=200, output_distribution="normal", random_state=seed),
        SimpleImputer(strategy="constant", fill_value=0.0),
        RidgeCV(np.logspace(1, 5, 9)),
    ).fit(table(known.stays), targets)
    return lambda new: model.predict(table(new))


def _network(kind: type[GRUD] | type[Transformer]) -> Model:
    def learn(known: Read, targets: np.ndarray, seed: int) -> Callable[[Stays], np.ndarray]:
        scores = torch.from_numpy(targets).float()

        def loss(outputs: Tensor, stays: Tensor, weights: Tensor) -> Tensor:
            return ((outputs - scores[stays]).square() * weights).mean()

        outputs = trained(kind, known, seed, loss)
        return lambda new: outputs(new).double().numpy()

    return _of_scores(learn)


REGRESSORS: dict[str, Model] = {
    "MambaRegressor": _regressor(),
    "MambaRegressor, no trees": _regressor(base=None),
    "boosting on summaries": _boosting,
    "ridge on summaries": _of_scores(_ridge),
    "GRU-D": _network(GRUD),
    "transformer": _network(Transformer),
    "median of training": _usual,
}
