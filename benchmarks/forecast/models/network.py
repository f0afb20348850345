"""Networks as contestants: one training loop for all of them.

Axis letters: n origins, C channels, L steps of history, H steps of horizon.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Origins, Problem
from tsmamba.data.windows import Windows

_EPS = 1e-5


@dataclass(frozen=True)
class Budget:
    """Effort of training, the same for every network.

    Parameters
    ----------
    steps, batch : int
        Steps at most, and windows of single series in a step.
    every, patience : int
        Steps between validations, and validations without a gain before training ends.
    validation : int
        Windows of single series in a validation, evenly spread.
    clip : float
        Largest norm of the gradient.
    """

    steps: int = 1_500
    batch: int = 256
    every: int = 100
    patience: int = 5
    validation: int = 4_096
    clip: float = 1.0


BUDGET = Budget()


@dataclass(frozen=True)
class Sizes:
    """What the layers of a network depend on.

    Parameters
    ----------
    lookback, horizon : int
        L and H.
    season, n_series : int
        Season of the set, and its number of single series.
    """

    lookback: int
    horizon: int
    season: int
    n_series: int


class Batch(NamedTuple):
    """Inputs of n origins: history (n, C, L); number of each series and steps before it, (n, C)."""

    history: Tensor
    series: Tensor
    elapsed: Tensor


class InstanceNormalised(nn.Module):
    """Takes level and scale of each window away before a network and puts them back after it.

    Parameters
    ----------
    inner : Module
        From a `Batch` to forecasts (n, C, H).
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: Batch) -> Tensor:
        """Return forecasts (n, C, H) in the units of the history."""
        mean = batch.history.mean(-1, keepdim=True)
        centred = batch.history - mean
        scale = (centred.square().mean(-1, keepdim=True) + _EPS).sqrt()
        out: Tensor = self.inner(batch._replace(history=centred / scale)) * scale + mean
        return out


class Network:
    """A network trained with Adam on squared error, the weights of least validation error kept.

    Parameters
    ----------
    build : callable
        Makes the network, without its instance normalisation.
    lr : float
        First learning rate; it falls to zero along a cosine.
    budget : Budget
        Effort.
    """

    def __init__(
        self, build: Callable[[Sizes], nn.Module], lr: float, budget: Budget = BUDGET
    ) -> None:
        self._build, self._lr, self._budget = build, lr, budget

    def fit(self, problem: Problem, seed: int) -> None:
        """Train; the global random state is left as it was."""
        self._store, self._channels = problem.store, problem.channels
        self._sizes = Sizes(
            problem.source.lookbacks[-1],
            problem.horizon,
            problem.source.season,
            len(problem.panel),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = InstanceNormalised(self._build(self._sizes))
            self.errors = self._train(problem.train(self._sizes.lookback), problem.validation)

    @torch.no_grad()
    def forecast(self, windows: Windows) -> Forecast:
        """Apply the network."""
        return Forecast(self.network(self._batch(windows)).flatten(0, 1))

    def _train(self, train: Origins, validation: Origins) -> list[float]:
        """Train in place and return the validation errors."""
        budget, network = self._budget, self.network
        validation = validation.thinned(budget.validation)
        optimizer = torch.optim.Adam(network.parameters(), lr=self._lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, budget.steps)
        errors = [self._error(validation)]
        best = copy.deepcopy(network.state_dict())
        per_step = max(1, budget.batch // train.channels)
        for step in range(1, budget.steps + 1):
            network.train()
            windows = train.at(torch.randint(len(train), (per_step,)))
            optimizer.zero_grad()
            squared, count = self._squared_error(windows)
            (squared / count.clamp(min=1)).backward()
            nn.utils.clip_grad_norm_(network.parameters(), budget.clip)
            optimizer.step()
            schedule.step()
            if step % budget.every and step < budget.steps:
                continue
            errors.append(self._error(validation))
            if errors[-1] == min(errors):
                best = copy.deepcopy(network.state_dict())
            elif min(errors) < min(errors[-budget.patience :]):
                break
        network.load_state_dict(best)
        network.eval()
        return errors

    @torch.no_grad()
    def _error(self, origins: Origins) -> float:
        self.network.eval()
        parts = [self._squared_error(windows) for windows in origins.batches(self._budget.batch)]
        return float(sum(squared for squared, _ in parts) / sum(count for _, count in parts))

    def _squared_error(self, windows: Windows) -> tuple[Tensor, Tensor]:
        """Return the sum over real values, and their number."""
        truth, observed = self._store.future(windows, self._sizes.horizon)
        error = (self.network(self._batch(windows)).flatten(0, 1) - truth) * observed
        return error.square().sum(), observed.sum()

    def _batch(self, windows: Windows) -> Batch:
        """Gather the inputs; the channels of an origin stand side by side in ``windows``."""
        shape = (-1, self._channels)
        history = self._store.history(windows, self._sizes.lookback)
        return Batch(
            history.view(*shape, self._sizes.lookback),
            windows.series.view(shape),
            self._store.elapsed(windows).view(shape),
        )
