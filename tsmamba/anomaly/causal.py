"""Scores that look back only, one row after the other, at constant cost and memory."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.anomaly.fusion import Standard
from tsmamba.anomaly.memory import PatchMemory
from tsmamba.anomaly.patches import embed, nearest, windows_of
from tsmamba.anomaly.plan import Plan

_ROWS = 1024
# Rows of fitting that the standard of the blocks is measured on, the last ones.
_STANDARD_ROWS = 20_000


@dataclass
class CausalState:
    """What the score of the next row depends on.

    Parameters
    ----------
    history : ndarray of shape (n_rows, n_channels)
        The last rows, as many as the widest patch or the autoregression needs.
    recent : ndarray of shape (n_rows, n_blocks, n_channels)
        The last scores of the blocks, as many as are averaged.
    """

    history: np.ndarray
    recent: np.ndarray


class CausalScorer:
    """Distances of the newest patches to the memory of a model, and autoregressive residuals.

    The score of a row is known `plan.delay` rows later. The later it is, the more patches around
    the row it is averaged over, which is what makes it better.

    Parameters
    ----------
    plan : Plan
        What is compared.
    memory : PatchMemory or None
        Patches of the rows the model was fitted on; None where the plan compares none.
    autoregression : Autoregression
        Fitted to those rows.
    standard : Standard
        Of the blocks on those rows.
    """

    def __init__(
        self,
        plan: Plan,
        memory: PatchMemory | None,
        autoregression: Autoregression,
        standard: Standard,
    ) -> None:
        self.plan = plan
        self.memory = memory
        self.autoregression = autoregression
        self.standard = standard
        widths = [block.width for block in plan.streaming]
        self._points: list[Tensor] = []
        if memory is not None:
            self._ends = memory.ends
            self._points = [embed(memory.newest(b.width), b.form) for b in plan.streaming]
        self._spans = [plan.span(width) for width in (*widths, 1)]
        self.past = max(*widths, 1, autoregression.order + 1) - 1
        self._ring = max(oldest for oldest, _ in self._spans)

    @classmethod
    def of(
        cls, values: np.ndarray, plan: Plan, memory: PatchMemory | None, ar: Autoregression
    ) -> tuple["CausalScorer", np.ndarray]:
        """Fit the standard on the last rows that made memory and autoregression.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, standardised.
        plan, memory, ar
            As above.

        Returns
        -------
        scorer : CausalScorer
        fused : ndarray of shape (n, n_channels)
            Scores of those rows, each compared with all patches that do not overlap its own.
        """
        channels = values.shape[1]
        empty = Standard(np.zeros((0, channels)), np.ones((0, channels)))
        scorer = cls(plan, memory, ar, empty)
        blocks = scorer._averaged(scorer._fitted_blocks(values)[None])[0]
        fitted = cls(plan, memory, ar, Standard.of(blocks))
        return fitted, fitted.standard.fuse(blocks)

    def arrays(self) -> list[np.ndarray]:
        """Return all numbers that scores depend on."""
        regression, standard = self.autoregression, self.standard
        patches = [] if self.memory is None else [self.memory.patches]
        return [
            *patches, regression.coefficients, regression.intercept, standard.mean,
            standard.deviation,
        ]  # fmt: skip

    @property
    def warm_up(self) -> int:
        """Rows before the first score."""
        return self.past + self._ring

    def start(self) -> CausalState:
        """Return the state before the first row.

        Returns
        -------
        CausalState
        """
        channels = len(self.autoregression.intercept)
        return CausalState(
            np.zeros((self.past, channels)), np.zeros((self._ring, len(self._spans), channels))
        )

    def advance(self, states: list[CausalState], rows: np.ndarray) -> np.ndarray:
        """Score as many rows of each of some streams, and move the states past them.

        Parameters
        ----------
        states : list of CausalState
            One a stream, changed in place.
        rows : ndarray of shape (n_streams, n_rows, n_channels)
            Without gaps, standardised.

        Returns
        -------
        ndarray of the same shape
            Fused scores by channel. The one at row i is that of row ``i - plan.delay``; the first
            `warm_up` of a stream mean nothing.
        """
        out = np.empty(rows.shape)
        step = max(1, _ROWS // len(states))
        for start in range(0, rows.shape[1], step):
            part = rows[:, start : start + step]
            out[:, start : start + step] = self._advance(states, part)
        return out

    def _advance(self, states: list[CausalState], rows: np.ndarray) -> np.ndarray:
        n = rows.shape[1]
        values = np.concatenate([np.stack([state.history for state in states]), rows], axis=1)
        blocks = self._blocks(values, n)
        recent = np.concatenate([np.stack([state.recent for state in states]), blocks], axis=1)
        for state, history, ring in zip(states, values, recent, strict=True):
            state.history = history[n:].copy()
            state.recent = ring[n:].copy()
        return self.standard.fuse(self._averaged(recent))

    def _blocks(self, values: np.ndarray, n: int) -> np.ndarray:
        """Return the scores of the last `n` rows, (n_streams, n, n_blocks, n_channels)."""
        streams, length, channels = values.shape
        scores = []
        for block, points in zip(self.plan.streaming, self._points, strict=True):
            recent = values[:, length - n - block.width + 1 :]
            windows = np.lib.stride_tricks.sliding_window_view(recent, block.width, axis=1)
            queries = embed(windows, block.form).permute(2, 0, 1, 3).flatten(1, 2)
            distances = nearest(queries, points).reshape(channels, streams, n)
            scores.append(distances.transpose(1, 2, 0))
        order = self.autoregression.order
        residuals = [self.autoregression.residuals(row[length - n - order :]) for row in values]
        scores.append(np.abs(np.stack(residuals)))
        return np.stack(scores, axis=2)

    def _fitted_blocks(self, values: np.ndarray) -> np.ndarray:
        """Return the scores of the last rows of the fit, (n_rows, n_blocks, n_channels)."""
        n = min(len(values) - self.past, _STANDARD_ROWS)
        first = len(values) - n
        scores = []
        for block, points in zip(self.plan.streaming, self._points, strict=True):
            windows = windows_of(values[first - block.width + 1 :], block.width)
            distances = np.empty((values.shape[1], n))
            for start in range(0, n, _ROWS):
                queries = embed(windows[:, start : start + _ROWS], block.form)
                ends = first + start + np.arange(queries.shape[1])
                overlap = np.abs(ends[:, None] - self._ends) < block.width
                distances[:, start : start + _ROWS] = nearest(
                    queries, points, torch.from_numpy(overlap)
                )
            scores.append(distances.T)
        past = values[first - self.autoregression.order :]
        scores.append(np.abs(self.autoregression.residuals(past)))
        return np.stack(scores, axis=1)

    def _averaged(self, blocks: np.ndarray) -> np.ndarray:
        """Average (n_streams, n_rows, n_blocks, n_channels) over the span of each block."""
        n = blocks.shape[1] - self._ring
        total = np.cumsum(np.concatenate([np.zeros_like(blocks[:, :1]), blocks], axis=1), axis=1)
        out = np.empty((len(blocks), n, *blocks.shape[2:]))
        for i, (oldest, newest) in enumerate(self._spans):
            high, low = self._ring + 1 - newest, self._ring - oldest
            span = total[:, high : high + n, i] - total[:, low : low + n, i]
            out[:, :, i] = span / (oldest - newest + 1)
        return out
