"""Correctors that each leave a block of time out, so that each window has one that never saw it.

Validation windows that lie between those of training tell when to stop, but not what a corrector is
worth later: weeks resemble the weeks beside them. Judged by such windows, a correction looks
several times as good as it is, and intervals come out too narrow. So a corrector is trained once
without each block of the base's cross-validation, from the same weights on, and each block is
forecast by the one that has not seen it. What forecasts in the end is the mean of their weights,
which as a rule errs less than one of them and costs no more ("Model soups", Wortsman et al., 2022).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import N_BLOCKS, Level, fold_of
from tsmamba.forecast.calibration import Forecaster
from tsmamba.forecast.correction import Normalised, Split
from tsmamba.forecast.network import Corrector
from tsmamba.training import History

Train = Callable[[Corrector, Split], History]


class CorrectorFit(NamedTuple):
    """A corrector, and those that stand for it where it must not have seen what it forecasts.

    Parameters
    ----------
    corrector : Corrector
        What forecasts.
    folds : tuple of Corrector
        As in `fold_of`.
    """

    corrector: Corrector
    folds: tuple[Corrector, ...]

    @classmethod
    def unseeing(cls, corrector: Corrector) -> Self:
        """Return the fit of a corrector that has seen none of the windows at hand."""
        return cls(corrector, (corrector,))

    @classmethod
    def mean(cls, folds: Sequence[Corrector]) -> Self:
        """Return the fit whose corrector has the mean of the weights of some, of equal shape."""
        corrector = copy.deepcopy(folds[0])
        states = [fold.state_dict() for fold in folds]
        corrector.load_state_dict(
            {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
        )
        return cls(corrector, tuple(folds))


def cross_fit(
    corrector: Corrector, split: Split, store: WindowStore, horizon: int, train: Train
) -> tuple[CorrectorFit, History]:
    """Train a corrector once without each block.

    Parameters
    ----------
    corrector : Corrector
        Where each training starts; stays as it is.
    split : Split
        Windows that lie in blocks.
    store, horizon
        Values, and steps of a target.
    train : callable
        Trains in place and tells what happened. An interrupt ends all trainings; those that have
        not begun leave their corrector as it is, and so do those that would have no windows.

    Returns
    -------
    fit : CorrectorFit
        In evaluation mode, without gradients.
    history : History
        Steps, windows and seconds of all trainings.
    """
    history = History()
    folds = [copy.deepcopy(corrector).eval().requires_grad_(False) for _ in range(N_BLOCKS)]
    training, validation = (
        fold_of(store, windows, horizon, N_BLOCKS) for windows in (split.training, split.validation)
    )
    for block, fold in enumerate(folds):
        part = Split(
            split.training.select(training != block), split.validation.select(validation != block)
        )
        if history.interrupted or not (len(part.training) and len(part.validation)):
            continue
        done = train(fold, part)
        history.steps += done.steps
        history.windows += done.windows
        history.seconds += done.seconds
        history.interrupted = done.interrupted
    return CorrectorFit.mean(folds), history


def out_of_fold(forecasters: Sequence[Forecaster], store: WindowStore, horizon: int) -> Forecaster:
    """Return what forecasts each window by the forecaster of its fold.

    Parameters
    ----------
    forecasters : sequence of callable
        One for each fold, as in `fold_of`.
    store, horizon
        Values, and steps of a target.

    Returns
    -------
    callable
        Forecasts windows, in their order.
    """

    def parts(windows: Windows, fold: Tensor) -> Iterator[Normalised]:
        for number, forecast in enumerate(forecasters):
            chosen = fold == number
            if chosen.any():
                yield forecast(windows.select(chosen))

    def forecast(windows: Windows) -> Normalised:
        fold = fold_of(store, windows, horizon, len(forecasters))
        back = fold.argsort(stable=True).argsort()

        def joined(tensors: Sequence[Tensor]) -> Tensor:
            return torch.cat(list(tensors))[back]

        points, levels, spreads = zip(*parts(windows, fold), strict=True)
        level = Level(*(joined(x) for x in zip(*levels, strict=True)))
        return Normalised(joined(points), level, None if spreads[0] is None else joined(spreads))

    return forecast
