"""Train the corrector that comes with the package.

    python -m tools.pretrain --out tsmamba/forecast/weights/corrector.safetensors

It needs the data sets of the pool (``TSMAMBA_DATA`` or a download) and some minutes on two cores.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tools.pool import Member, members
from tsmamba.data.panel import read_panel
from tsmamba.data.windows import Windows
from tsmamba.forecast.correction import LOSS_SCALE_LIMIT, Correction
from tsmamba.forecast.defaults import plan
from tsmamba.forecast.gate import SHARES
from tsmamba.forecast.linear import fit_linear_base
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.pretrained import save_corrector
from tsmamba.forecast.source import Source
from tsmamba.training import History, Training, train

HORIZON = 720
HORIZONS = (24, 48, 96, 192, 336, 720)
CONFIG = CorrectorConfig(history=480, horizon=HORIZON, patch=48, dropout=0.2, odd=True)
STEPS = 1000
_HELD_BACK = 0.15  # the end of every series, for validation
_MOST_JUDGED = 600

# Of errors and their weights, both (n, H), to a number.
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Prepared:
    """A member of the pool with its base fitted and its windows chosen."""

    name: str
    correction: Correction
    training: Windows
    validation: Windows


def prepare(member: Member, config: CorrectorConfig) -> Prepared:
    """Fit the base of a member, out of fold, as `MambaForecaster` does."""
    panel = read_panel(member.read())
    sizes = plan(
        panel,
        horizon=HORIZON,
        context_length=None,
        season_length=member.season,
        patch_length=config.patch,
    )
    source = Source.of(panel, member.season, ())
    windows = source.store.windows(sizes.context.recent, HORIZON)
    base = fit_linear_base(
        source.store, windows, sizes.context, HORIZON, sizes.season, stride=sizes.stride
    )
    progress = source.store.progress(windows)
    last = source.store.progress(Windows(windows.origin + HORIZON, windows.series))
    return Prepared(
        member.name,
        Correction(source, sizes.context, base, config),
        windows.select(last < 1 - _HELD_BACK),
        windows.select(progress >= 1 - _HELD_BACK).thinned(_MOST_JUDGED),
    )


def absolute_error(error: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean of the absolute error."""
    mean: Tensor = (error.abs() * weight).sum() / weight.sum().clamp(1e-6)
    return mean


def loss_of(
    corrector: torch.nn.Module, one: Prepared, windows: Windows, horizon: int, loss: Loss
) -> Tensor:
    """Return the loss with weights that give it the units of the series, near steps first."""
    batch = one.correction.batch(windows)
    values, observed = one.correction.store.future(windows, horizon)
    base, target = batch.base[:, :horizon], batch.level.normalise(values)
    correction = corrector(batch.history, base, batch.observed, batch.context)
    weight = batch.level.scale.clamp(max=LOSS_SCALE_LIMIT) * observed
    weight = weight * torch.arange(1, horizon + 1) ** -0.25
    return loss(base + correction - target, weight)


def changes(corrector: torch.nn.Module, one: Prepared) -> Tensor:
    """Return the relative change of absolute and squared error by each share, (2, shares)."""
    errors = one.correction.errors(corrector, one.validation, SHARES)
    sums = torch.stack([errors.absolute.sum((1, 2)), errors.squared.sum((1, 2))])
    return sums / sums[:, :1] - 1


def gain(corrector: torch.nn.Module, one: Prepared, windows: Windows) -> tuple[float, float]:
    """Return absolute and squared error as parts of those of the base."""
    errors = one.correction.errors(corrector, windows, (0.0, 1.0))
    absolute, squared = errors.absolute.sum((1, 2)), errors.squared.sum((1, 2))
    return float(absolute[1] / absolute[0]), float(squared[1] / squared[0])


def pretrain(
    pool: list[Prepared],
    make: Callable[[], Corrector],
    settings: Training,
    seed: int,
    loss: Loss = absolute_error,
) -> tuple[Corrector, History]:
    """Train one corrector over the pool, drawing a member for each step."""
    torch.manual_seed(seed)
    corrector = make()
    chances = np.sqrt([len(one.training) for one in pool])
    rng = np.random.default_rng(seed)

    def batch_loss(network: torch.nn.Module) -> Tensor:
        one = pool[rng.choice(len(pool), p=chances / chances.sum())]
        pick = torch.randint(len(one.training), (settings.batch_size,))
        return loss_of(network, one, one.training.select(pick), int(rng.choice(HORIZONS)), loss)

    def validation_error(network: torch.nn.Module) -> float:
        return float(np.mean([gain(network, one, one.validation.thinned(200))[0] for one in pool]))

    history = train(corrector, settings, batch_loss, validation_error)
    return corrector, history


def training(steps: int = STEPS) -> Training:
    """Return the knobs of the training."""
    return Training(max_steps=steps, batch_size=384, lr=2e-3, eval_every=250)


def main() -> None:
    """Read the command line, train, save and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.perf_counter()
    pool = [prepare(member, CONFIG) for member in members(options.seed)]
    settings = training(options.steps)
    corrector, history = pretrain(pool, lambda: Corrector(CONFIG), settings, options.seed)
    print("validation", [(step, round(error, 4)) for step, error in history.errors], flush=True)
    save_corrector(options.out, corrector)
    gains = {one.name: gain(corrector, one, one.validation) for one in pool}
    each = torch.stack([changes(corrector, one) for one in pool])  # what the gate expects
    print("change by share", each.mean(0).tolist(), "deviation", each.std(0).tolist())
    print(json.dumps({"seconds": time.perf_counter() - began, "gains": gains}, indent=1))


if __name__ == "__main__":
    main()
