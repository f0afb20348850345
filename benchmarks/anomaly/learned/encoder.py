"""Networks that turn patches into points, and the distances between these as one more block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, smooth_l1_loss

from benchmarks.anomaly.learned.judged import Judged
from tsmamba.anomaly.memory import evenly
from tsmamba.anomaly.windows import windows_of
from tsmamba.nn import MambaStack

# Longer patches are reduced to means of rows, as those of the detector are.
_POINTS = 128
_LEAST_DEVIATION = 0.1
_FARTHEST = 20.0
_DENSITY = 8  # windows per width that are compared; between them scores are interpolated
_LR = 2e-3
_WARM_UP = 10
_TEMPERATURE = 0.1
_SHIFT = 16  # a patch is like those at most this part of its width away
_APART = 0.5  # and is not told from those nearer than this part
_CHUNK = 2_048
_TOKEN = 4


@dataclass(frozen=True)
class Patches:
    """The patches of a series as they go into a network.

    Parameters
    ----------
    values : ndarray of shape (T,)
        The series.
    width : int
        Rows of a patch.
    form : {"z", "raw"}
        Without mean and deviation, or as they are.

    Examples
    --------
    >>> Patches(np.arange(6.0), 4, "z").at(np.array([0, 2])).mean(1)
    tensor([0., 0.])
    """

    values: np.ndarray
    width: int
    form: str

    def __len__(self) -> int:
        return len(self.values) - self.width + 1

    def at(self, starts: np.ndarray) -> Tensor:
        """Return some of them, (n, points) with 64 to 128 points where there are more rows.

        Parameters
        ----------
        starts : ndarray of int
            First row of each.
        """
        windows = windows_of(np.ascontiguousarray(self.values)[:, None], self.width)[0][starts]
        rows = -(-self.width // _POINTS)
        means = windows[:, : self.width // rows * rows].reshape(len(windows), -1, rows).mean(2)
        patches = torch.from_numpy(means).float()
        if self.form == "z":
            patches = patches - patches.mean(1, keepdim=True)
            patches = patches / patches.std(1, keepdim=True).clamp_min(_LEAST_DEVIATION)
        return patches.clamp(-_FARTHEST, _FARTHEST)


class ConvEncoder(nn.Module):
    """Three convolutions; mean and maximum over time of the last."""

    batch, steps = 128, 100

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(1, 32, 7), *_convolution(32, 64, 5), *_convolution(64, 64, 3)
        )
        self.head = nn.Linear(128, 64)

    def forward(self, patches: Tensor) -> Tensor:
        """Return points (n, 128) of patches (n, points)."""
        hidden = self.body(patches[:, None])
        return torch.cat([hidden.mean(-1), hidden.amax(-1)], dim=1)

    def loss(self, patches: Patches, rng: np.random.Generator) -> Tensor:
        """Return how badly patches are told from others, see `contrast`."""
        return contrast(self, patches, rng)


class MambaEncoder(nn.Module):
    """Two layers of Mamba over tokens of four points; mean, maximum and last of the states."""

    batch, steps = 64, 280

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(_TOKEN, 32)
        self.stack = MambaStack(32, 2, 16)
        self.head = nn.Linear(96, 32)

    def forward(self, patches: Tensor) -> Tensor:
        """Return points (n, 96) of patches (n, points)."""
        hidden = self.stack(self.embed(_tokens(patches)))
        return torch.cat([hidden.mean(1), hidden.amax(1), hidden[:, -1]], dim=1)

    def loss(self, patches: Patches, rng: np.random.Generator) -> Tensor:
        """Return how badly patches are told from others, see `contrast`."""
        return contrast(self, patches, rng)


class NextTokenEncoder(nn.Module):
    """The same Mamba, trained to foretell the next token; the last state."""

    batch, steps = 64, 280

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(_TOKEN, 32)
        self.stack = MambaStack(32, 2, 16)
        self.head = nn.Linear(32, _TOKEN)

    def forward(self, patches: Tensor) -> Tensor:
        """Return points (n, 32) of patches (n, points)."""
        last: Tensor = self.stack(self.embed(_tokens(patches)))[:, -1]
        return last

    def loss(self, patches: Patches, rng: np.random.Generator) -> Tensor:
        """Return how badly the next token is foretold, at every token of some patches."""
        tokens = _tokens(patches.at(rng.integers(0, len(patches), self.batch)))
        return smooth_l1_loss(self.head(self.stack(self.embed(tokens[:, :-1]))), tokens[:, 1:])


def _convolution(channels: int, out: int, width: int) -> tuple[nn.Module, ...]:
    return nn.Conv1d(channels, out, width, 2, width // 2), nn.BatchNorm1d(out), nn.GELU()


def _tokens(patches: Tensor) -> Tensor:
    return patches[:, : patches.shape[1] // _TOKEN * _TOKEN].reshape(len(patches), -1, _TOKEN)


def contrast(network: Any, patches: Patches, rng: np.random.Generator) -> Tensor:
    """Return InfoNCE: how badly a patch, shifted a little, is told from all elsewhere.

    Parameters
    ----------
    network : ConvEncoder or MambaEncoder
        Its head is for training alone.
    patches : Patches
        Of the training part.
    rng : numpy.random.Generator
        Draws them.

    Returns
    -------
    Tensor
        A number.
    """
    n, last, reach = network.batch, len(patches) - 1, max(1, patches.width // _SHIFT)
    starts = rng.integers(0, last + 1, n)
    shifted = starts + rng.integers(1, reach + 1, n) * rng.choice([-1, 1], n)
    shifted = np.clip(shifted, 0, last)
    points = network.head(network(patches.at(np.concatenate([starts, shifted]))))
    anchors, others = normalize(points, dim=1).chunk(2)
    near = torch.from_numpy(np.abs(starts[:, None] - shifted) < _APART * patches.width)
    alike = anchors @ others.T / _TEMPERATURE
    alike = alike.masked_fill(near.fill_diagonal_(False), -torch.inf)
    own = torch.arange(n)
    return (cross_entropy(alike, own) + cross_entropy(alike.T, own)) / 2


def encoder_block(judged: Judged, make: Callable[[], Any], form: str, seed: int) -> np.ndarray:
    """Train an encoder on the training part, and score every row by it.

    Parameters
    ----------
    judged : Judged
        The series.
    make : callable
        Gives a new network of this module.
    form : {"z", "raw"}
        How patches are given to it.
    seed : int
        Of weights and draws.

    Returns
    -------
    ndarray of shape (T,)
        Cosine distance of the patch around a row to the nearest in memory.
    """
    width = judged.scorer.plan.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = make()
        _train(network, Patches(judged.train, width, form), np.random.default_rng(seed))
    return _distances(network, Patches(judged.values, width, form), judged.memory_size)


def _train(network: Any, patches: Patches, rng: np.random.Generator) -> None:
    optimizer = torch.optim.AdamW(network.parameters(), lr=_LR)
    network.train()
    for step in range(network.steps):
        falling = 0.51 + 0.5 * np.cos(np.pi * step / network.steps)
        for group in optimizer.param_groups:
            group["lr"] = _LR * min(1.0, (step + 1) / _WARM_UP) * falling
        loss = network.loss(patches, rng)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()


@torch.inference_mode()
def _distances(network: Any, patches: Patches, size: int) -> np.ndarray:
    """Return the distance around every row to the nearest patch that shares less than half."""
    n, width = len(patches), patches.width
    own = evenly(n, size)
    step = max(1, width // _DENSITY)
    queries = np.arange((n - 1) % step, n, step)
    known = normalize(network(patches.at(own)), dim=1)
    found = []
    for starts in np.array_split(queries, -(-len(queries) // _CHUNK)):
        near = torch.from_numpy(np.abs(starts[:, None] - own) < (width + 1) // 2)
        alike = normalize(network(patches.at(starts)), dim=1) @ known.T
        nearest = alike.masked_fill(near, -torch.inf).amax(1)
        found.append(torch.where(nearest.isinf(), 0.0, (1 - nearest).clamp_min(0)))
    scores = torch.cat(found).double().numpy()
    rows = np.arange(len(patches.values))
    around: np.ndarray = np.interp(rows, queries + (width - 1) / 2, scores)
    return around
