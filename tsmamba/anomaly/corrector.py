"""A small Mamba on top of the autoregression: it learns what that leaves over."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.nn import FusedStack, MambaStack
from tsmamba.training import Training, train

__all__ = ["Corrector", "CorrectorState"]

_WIDTH, _LAYERS, _STATES = 32, 2, 16
_WINDOW, _BATCH = 256, 16
_STEPS, _LR = 250, 3e-3
# The last part of the rows says how much of the correction helps.
_HELD_OUT = 0.2
_GATES = np.linspace(0.0, 1.0, 11)
_LEAST_DEVIATION = 1e-6
# Rows that are read at once; the state goes on from one piece to the next.
_PIECE = 16_384


class _Network(nn.Module):
    """Foretells the residual of each row from rows and residuals before it, and its forecast."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * channels, _WIDTH)
        self.stack = MambaStack(_WIDTH, _LAYERS, _STATES)
        self.head = nn.Linear(_WIDTH, channels)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return residuals (n, L, channels) of tokens (n, L, 3 channels)."""
        foretold: Tensor = self.head(self.stack(self.embed(tokens)))
        return foretold


@dataclass
class CorrectorState:
    """What a corrector knows of one stream.

    Parameters
    ----------
    packed : ndarray of float32
        State of the scan.
    row, residual : ndarray of shape (n_channels,)
        The last that were there.
    """

    packed: np.ndarray
    row: np.ndarray
    residual: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state as arrays."""
        return {name: getattr(self, name) for name in _STATE}

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Make a state again of its arrays, which may hold others."""
        return cls(*(arrays[name].copy() for name in _STATE))


_LAST = "row", "residual"
_STATE = "packed", *_LAST


@dataclass(frozen=True)
class Corrector:
    """What a Mamba foretells of the residuals of an autoregression, all channels together.

    Its input at a row is the row before, the residual there, and the forecast of the row: all is
    known before the row comes. `gate` is the part of the correction that helped most on rows that
    were held out of training; where none helps there is no corrector.

    Parameters
    ----------
    network : nn.Module
        In evaluation mode.
    scale : ndarray of shape (n_channels,)
        Deviation of the residuals.
    gate : float
        Above 0, at most 1.
    """

    network: Any
    scale: np.ndarray
    gate: float

    @classmethod
    def of(cls, values: np.ndarray, ar: Autoregression, seed: int | None) -> Self | None:
        """Train on the rows that an autoregression was fitted to.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, standardised.
        ar : Autoregression
            Fitted to them.
        seed : int or None
            Of weights and draws.

        Returns
        -------
        Corrector or None
            None where there are too few rows, or held-out rows are not foretold better.
        """
        residuals = ar.residuals(values)
        train_on = len(residuals) - int(_HELD_OUT * len(residuals))
        if train_on < 2 * _WINDOW:
            return None
        scale = np.maximum(residuals.std(axis=0), _LEAST_DEVIATION)
        with torch.random.fork_rng(devices=[]):
            torch.seed() if seed is None else torch.manual_seed(seed)
            corrector = cls(_Network(values.shape[1]), scale, 1.0)
            tokens = corrector._tokens(values[ar.order :], residuals)
            target = torch.from_numpy(residuals[1:] / scale).float()
            corrector._train(tokens[: train_on - 1], target[: train_on - 1])
        foretold = corrector._foretold(tokens)[train_on - 1 :] * scale
        missed = residuals[train_on:] - _GATES[:, None, None] * foretold
        gate = float(_GATES[(np.abs(missed) / scale).mean(axis=(1, 2)).argmin()])
        return cls(corrector.network, scale, gate) if gate else None

    def remaining(self, values: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Subtract what was foretold from residuals.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Rows of the residuals.
        residuals : ndarray of the same shape
            Of the autoregression. The first is as it was.

        Returns
        -------
        ndarray of the same shape
        """
        if len(values) < 2:
            return residuals
        foretold = self._foretold(self._tokens(values, residuals))
        out: np.ndarray = residuals.copy()
        out[1:] -= self.gate * self.scale * foretold
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all that it knows as arrays."""
        weights = {name: each.numpy() for name, each in self.network.state_dict().items()}
        return {"scale": self.scale, "gate": np.array([self.gate]), **weights}

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Make it again of its arrays."""
        scale, gate = arrays["scale"], float(arrays["gate"][0])
        with torch.device("meta"):  # no first values are drawn that are overwritten at once
            network = _Network(len(scale))
        weights = {name: torch.from_numpy(arrays[name]) for name in network.state_dict()}
        network.load_state_dict(weights, assign=True)
        return cls(network.eval(), scale, gate)

    @cached_property
    def fused(self) -> FusedStack:
        """The stack, row by row."""
        return FusedStack(self.network.stack)

    def start(self) -> CorrectorState:
        """Return the state before the first row."""
        channels = len(self.scale)
        packed = self.fused.init_state(1)[0].numpy()
        return CorrectorState(packed, np.zeros(channels), np.zeros(channels))

    def advance(
        self,
        states: list[CorrectorState],
        rows: np.ndarray,
        residuals: np.ndarray,
        there: np.ndarray,
    ) -> np.ndarray:
        """Subtract what is foretold from residuals of streams, and move their states on.

        Parameters
        ----------
        states : list of CorrectorState
            One a stream, changed in place.
        rows, residuals : ndarray of shape (n_streams, n_rows, n_channels)
            Without gaps.
        there : bool ndarray of shape (n_streams, n_rows)
            Rows with a value; others leave the state as it is.

        Returns
        -------
        ndarray of shape (n_streams, n_rows, n_channels)
            Of a row that is not there the residual as it was.
        """
        packed = torch.from_numpy(np.stack([state.packed for state in states]))
        row, residual = (np.stack([getattr(s, name) for s in states]) for name in _LAST)
        out = residuals.copy()
        for i in range(rows.shape[1]):
            here = np.flatnonzero(there[:, i])
            if not len(here):
                continue
            forecast = rows[here, i] - residuals[here, i]
            token = np.concatenate([row[here], residual[here] / self.scale, forecast], axis=1)
            foretold = self._step(torch.from_numpy(token).float(), packed, torch.from_numpy(here))
            out[here, i] -= self.gate * self.scale * foretold
            row[here], residual[here] = rows[here, i], residuals[here, i]
        for state, *parts in zip(states, packed.numpy(), row, residual, strict=True):
            state.packed, state.row, state.residual = (part.copy() for part in parts)
        return out

    @torch.inference_mode()
    def _step(self, tokens: Tensor, packed: Tensor, slots: Tensor) -> np.ndarray:
        encoded = self.fused.step(self.network.embed(tokens), packed, slots=slots)
        foretold: np.ndarray = self.network.head(encoded).double().numpy()
        return foretold

    def _tokens(self, rows: np.ndarray, residuals: np.ndarray) -> Tensor:
        """Lay out inputs, (n - 1, 3 channels), for all residuals but the first."""
        forecast = rows[1:] - residuals[1:]
        tokens = np.concatenate([rows[:-1], residuals[:-1] / self.scale, forecast], axis=1)
        return torch.from_numpy(tokens).float()

    def _train(self, tokens: Tensor, target: Tensor) -> None:
        starts = len(tokens) - _WINDOW

        def windows() -> Iterator[tuple[Tensor, Tensor]]:
            places = torch.arange(_WINDOW)
            while True:
                chosen = torch.randint(starts + 1, (_BATCH, 1)) + places
                yield tokens[chosen], target[chosen]

        drawn = windows()

        def loss(network: nn.Module) -> Tensor:
            given, wanted = next(drawn)
            return nn.functional.smooth_l1_loss(network(given), wanted)

        # The last weights are kept: nothing is chosen by an error.
        ranks = iter(range(2, -1, -1))
        training = Training(max_steps=_STEPS, lr=_LR, eval_every=_STEPS)
        train(self.network, training, loss, lambda network: float(next(ranks)))
        self.network.eval()

    @torch.inference_mode()
    def _foretold(self, tokens: Tensor) -> np.ndarray:
        """Return what is foretold, (n, channels), in units of `scale`."""
        network, states, parts = self.network, None, []
        for piece in network.embed(tokens).split(_PIECE):
            encoded, states = network.stack.prefill(piece[None], state=states)
            parts.append(network.head(encoded[0]))
        return torch.cat(parts).double().numpy()
