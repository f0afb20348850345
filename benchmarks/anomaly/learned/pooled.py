"""One causal Mamba over many series, on top of the autoregression of a series it never saw."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from benchmarks.anomaly.learned.judged import Judged
from benchmarks.anomaly.learned.pool import Member
from tsmamba.anomaly.corrector import Corrector
from tsmamba.nn import MambaStack
from tsmamba.training import Training, train

_WIDTH, _LAYERS, _STATES = 48, 2, 16
_WINDOW, _BATCH = 512, 16
_STEPS, _LR, _EVERY = 4_000, 3e-3, 250
_HELD_OUT = 10  # every tenth series of the pool tells which weights are best
_HELD_BATCHES = 8
# Of the draws, so that the many channels of machines do not crowd out the rest.
_SHARES = {
    "UCR": 4.0,
    "machines": 4.0,
    "synthetic": 2.0,
    "forecasting": 1.5,
    "spacecraft": 1.0,
    "sensors": 1.0,
}
_GATES = np.linspace(0.0, 1.0, 11)
_LEAST_DEVIATION = 1e-6


class PooledNetwork(nn.Module):
    """Foretells residuals of one channel; `Corrector` reads it piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, _WIDTH)
        self.stack = MambaStack(_WIDTH, _LAYERS, _STATES)
        self.head = nn.Linear(_WIDTH, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return residuals (n, L, 1) of tokens (n, L, 3)."""
        foretold: Tensor = self.head(self.stack(self.embed(tokens)))
        return foretold


def pretrained(pool: Sequence[Member], seed: int) -> PooledNetwork:
    """Train a network over a pool.

    Parameters
    ----------
    pool : sequence of Member
        Those shorter than a window are left out.
    seed : int
        Of weights and draws.

    Returns
    -------
    PooledNetwork
        With the weights that did best on series of the pool that were held out.
    """
    long = [member for member in pool if len(member.target) > _WINDOW]
    held, seen = long[::_HELD_OUT], [m for i, m in enumerate(long) if i % _HELD_OUT]
    rng = np.random.default_rng(seed)
    tests = [_drawn(held, rng) for _ in range(_HELD_BATCHES)]

    def loss(network: PooledNetwork) -> Tensor:
        tokens, target = _drawn(seen, rng)
        return smooth_l1_loss(network(tokens), target)

    @torch.inference_mode()
    def error(network: PooledNetwork) -> float:
        return float(np.mean([smooth_l1_loss(network(x), y) for x, y in tests]))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = PooledNetwork()
        train(network, Training(max_steps=_STEPS, lr=_LR, eval_every=_EVERY), loss, error)
    return network


def _drawn(pool: Sequence[Member], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Draw windows, each group by its share."""
    groups = [member.group for member in pool]
    chance = np.array([_SHARES[group] / groups.count(group) for group in groups])
    tokens, target = [], []
    for i in rng.choice(len(pool), _BATCH, p=chance / chance.sum()):
        start = rng.integers(0, len(pool[i].target) - _WINDOW + 1)
        tokens.append(pool[i].tokens[start : start + _WINDOW])
        target.append(pool[i].target[start : start + _WINDOW])
    return torch.from_numpy(np.stack(tokens)), torch.from_numpy(np.stack(target))


def pooled_corrector(judged: Judged, network: PooledNetwork, *, gated: bool) -> Corrector | None:
    """Put a network on top of the autoregression of a series.

    Parameters
    ----------
    judged : Judged
        The series.
    network : PooledNetwork
        Trained on others.
    gated : bool
        Whether only the part of the correction is used that helps most on the training part.

    Returns
    -------
    Corrector or None
        None where no part helps.
    """
    ar, train_rows = judged.scorer.autoregression, judged.train[:, None]
    residuals = ar.residuals(train_rows)
    scale = np.maximum(residuals.std(axis=0), _LEAST_DEVIATION)
    whole = Corrector(network, scale, 1.0)
    if not gated:
        return whole
    foretold = residuals - whole.remaining(train_rows[ar.order :], residuals)
    missed = np.abs(residuals - _GATES[:, None, None] * foretold).mean(axis=(1, 2))
    gate = float(_GATES[missed.argmin()])
    return Corrector(network, scale, gate) if gate else None


def corrected(judged: Judged, corrector: Corrector | None) -> np.ndarray:
    """Return the size of what a corrector leaves over.

    Parameters
    ----------
    judged : Judged
        The series.
    corrector : Corrector or None
        None leaves the residuals as they are.

    Returns
    -------
    ndarray of shape (T,)
    """
    scorer = replace(judged.scorer, corrector=corrector)
    return scorer._residuals(judged.values[:, None])[:, 0]
